"""A recording: every collective that a program's ranks made, as facts, whatever the program was."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from shardviz.core.recipe import payload, reduce_payload

__all__ = ["Call", "Event", "Participant", "Piece", "Recording", "Value", "rank_list"]

MOST_EVENTS = 200
"""The most events that a recording's text tells one by one."""

# The others may be given tensors of another shape on every rank, as their callers please.
_SAME_SHAPE = frozenset({"all_gather", "all_reduce", "broadcast", "gather", "reduce", "reduce_scatter"})

Value = bool | int | float | str
"""An element: "nan", "inf" and "-inf" are strings, for JSON has no numbers for them."""


@dataclass(frozen=True)
class Piece:
    """One tensor that went into a collective, or came out of it, on one rank.

    Attributes:
        shape: its shape.
        dtype: torch's name of its dtype, without "torch.".
        itemsize: bytes per element.
        values: its elements in row-major order; None where they were not recorded.
    """

    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    values: tuple[Value, ...] | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def text(self) -> str:
        """Dtype and shape, as in `float32 [4, 2]`."""
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Call:
    """One rank's part in a collective.

    Attributes:
        name: one of all_gather, all_reduce, all_to_all, barrier, broadcast, gather, reduce, reduce_scatter and scatter.
        given: the tensors that went in.
        got: the tensors that came out.
        at: when it was called, in seconds from the start of the recording.
        seconds: until its result was waited for, by the clock of the host; None where it never came back, or nobody waited.
        reduction: "sum", "avg", "max", …; "" where nothing is reduced.
        root: the global rank that sends to the others or receives from them; None where there is none.
        reason: what called for it: a redistribution such as `redistribute S(0) -> R`, FSDP2, or "" for the program itself.
        place: the line of the program that led to it, as `train.py:31`.
    """

    name: str
    given: tuple[Piece, ...]
    got: tuple[Piece, ...]
    at: float
    seconds: float | None = None
    reduction: str = ""
    root: int | None = None
    reason: str = ""
    place: str = ""

    @property
    def text(self) -> str:
        """What was called, as in `all_reduce (sum) of float32 [4]`."""
        text = f"{self.name} ({self.reduction})" if self.reduction else self.name
        if self.given:
            same = len(set(map(_bare, self.given))) == 1
            what = self.given[0].text if same else ", ".join(piece.text for piece in self.given)
            text += f" of {len(self.given)} × {what}" if same and len(self.given) > 1 else f" of {what}"
        return text if self.root is None else f"{text} with root {self.root}"

    @property
    def question(self) -> tuple[object, ...]:
        """What all ranks of the group must agree on."""
        pieces = [(piece.dtype, piece.shape if self.name in _SAME_SHAPE else ()) for piece in self.given]
        return (self.name, self.reduction, self.root, () if self.name == "scatter" else tuple(pieces))

    def sent(self, rank: int, members: int) -> int:
        """Bytes that `rank` sends in a group of so many members, by the usual algorithm of each collective."""
        if self.name == "all_gather":
            return sum(payload(piece.shape, piece.itemsize, members) for piece in self.given)
        if self.name == "all_reduce":
            return sum(reduce_payload(piece.shape, piece.itemsize, members) for piece in self.given)
        given = sum(piece.numel * piece.itemsize for piece in self.given)
        if self.name == "broadcast":
            return (members - 1) * given if rank == self.root else 0
        if self.name in ("gather", "reduce"):
            return 0 if rank == self.root else given
        if self.name == "scatter" and rank != self.root:
            return 0
        return given - given // members  # each member but oneself gets its part


@dataclass(frozen=True)
class Event:
    """One collective, as the ranks of its group met it.

    Attributes:
        group: the ranks of the process group, in its order.
        label: torch's name of the group.
        number: which of the group's collectives it is, from 0.
        calls: one per rank of the group; None for a rank that never called it, or whose record of it is lost.
    """

    group: tuple[int, ...]
    label: str
    number: int
    calls: tuple[Call | None, ...]

    @property
    def first(self) -> Call:
        """The call of the first rank that made it."""
        return next(call for call in self.calls if call)

    @property
    def name(self) -> str:
        """Which collective it is."""
        return self.first.name

    @property
    def began(self) -> float:
        """When the first rank called it, in seconds from the start of the recording."""
        return min(call.at for call in self.calls if call)

    @property
    def seconds(self) -> float | None:
        """From the first rank's call to the last rank's result; None where a result is missing."""
        ends = [call.at + call.seconds if call and call.seconds is not None else None for call in self.calls]
        known = [end for end in ends if end is not None]
        return max(known) - self.began if len(known) == len(ends) else None

    @property
    def differs(self) -> bool:
        """Whether its ranks called different things: another collective, shape, dtype, reduction or root."""
        return len({call.question for call in self.calls if call}) > 1

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks of the group without a call."""
        return tuple(rank for rank, call in zip(self.group, self.calls, strict=True) if call is None)

    @property
    def bytes(self) -> tuple[int, ...]:
        """What each rank of the group sends."""
        k = len(self.group)
        return tuple(call.sent(rank, k) if call else 0 for rank, call in zip(self.group, self.calls, strict=True))

    @property
    def by_call(self) -> dict[str, list[int]]:
        """The ranks that called each thing, in words, the most frequent last."""
        ranks: dict[str, list[int]] = defaultdict(list)
        for rank, call in zip(self.group, self.calls, strict=True):
            if call:
                ranks[call.text].append(rank)
        return dict(sorted(ranks.items(), key=lambda item: len(item[1])))

    @property
    def text(self) -> str:
        """The event in words."""
        where = f"on {rank_list(self.group)}"
        if self.differs:
            parts = [f"{rank_list(ranks)}: {call}" for call, ranks in self.by_call.items()]
            text = f"different collectives {where}: {'; '.join(parts)}"
        else:
            call = self.first
            times = "" if self.seconds is None else f", {self.seconds * 1e3:.3g} ms"
            text = f"{call.text} {where}, {sum(self.bytes):,} bytes sent{times}"
            text += "".join(f"; {part}" for part in (call.reason, call.place) if part)
        return f"{text}; without {rank_list(self.missing)}" if self.missing else text


@dataclass(frozen=True)
class Participant:
    """One rank of a recorded program.

    Attributes:
        rank: its rank.
        host: name of its machine.
        torch: version of its torch.
        end: "" where it came to its end; otherwise how its record ends, in words.
    """

    rank: int
    host: str
    torch: str
    end: str = ""


@dataclass(frozen=True)
class Recording:
    """Every collective of a program, from what each of its ranks recorded.

    Attributes:
        program: what ran, such as `train.py`.
        backend: of the process groups: "gloo", "nccl", or several with commas; "" where none was used.
        participants: the ranks with a record, in order.
        events: the collectives, in the order in which the first rank of each called it.
        absent: ranks of the program that left no record.
    """

    program: str
    backend: str
    participants: tuple[Participant, ...]
    events: tuple[Event, ...]
    absent: tuple[int, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks with a record."""
        return tuple(one.rank for one in self.participants)

    @property
    def cut_short(self) -> tuple[Participant, ...]:
        """The ranks that did not come to their end."""
        return tuple(one for one in self.participants if one.end)

    @property
    def right(self) -> bool:
        """Whether every rank came to its end, and every collective was called alike by all ranks of its group."""
        whole = not self.absent and not self.cut_short
        return whole and not any(event.differs or event.missing for event in self.events)

    @cached_property
    def text(self) -> str:
        """The recording in words: what alternative texts and terminals show."""
        torch = ", ".join(sorted({one.torch for one in self.participants}))
        backend = f"{self.backend} " if self.backend else ""
        lines = [f"{self.program}: recorded on {len(self.participants)} {backend}ranks, torch {torch}"]
        lines += [f"{rank_list(ranks)} {end}" for end, ranks in self._ends().items()]
        if self.absent:
            lines.append(f"{rank_list(self.absent)} left no record")
        lines.append(f"{len(self.events)} collectives, {sum(sum(event.bytes) for event in self.events):,} bytes sent in all")
        lines += [f"{number}. {event.text}" for number, event in enumerate(self.events[:MOST_EVENTS], 1)]
        if len(self.events) > MOST_EVENTS:
            lines.append(f"… and {len(self.events) - MOST_EVENTS} more")
        return "\n".join(lines)

    def _ends(self) -> dict[str, list[int]]:
        ends: dict[str, list[int]] = defaultdict(list)
        for one in self.cut_short:
            ends[one.end].append(one.rank)
        return dict(ends)

    def __str__(self) -> str:
        return self.text

    def save(self, path: str | Path) -> Path:
        """Write the recording as one JSON file; `shardviz.load` reads it back.

        Raises:
            FileError: the file cannot be written.
        """
        from shardviz.core.recording_files import save  # recording_files.py builds on this module

        return save(self, path)


def rank_list(ranks: Iterable[int]) -> str:
    """Ranks in words; long rows of neighbours as a span.

    Example:
        >>> rank_list([3])
        'rank 3'
        >>> rank_list([0, 1, 2, 3, 7, 8])
        'ranks 0–3, 7, 8'
    """
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][-1] + 1:
            spans[-1].append(rank)
        else:
            spans.append([rank])
    parts = [f"{span[0]}–{span[-1]}" if len(span) > 3 else ", ".join(map(str, span)) for span in spans]
    return f"rank{'s' * (sum(map(len, spans)) != 1)} {', '.join(parts)}"


def _bare(piece: Piece) -> Piece:
    return replace(piece, values=None)


def in_order(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events by their first call."""
    return tuple(sorted(events, key=lambda event: event.began))
