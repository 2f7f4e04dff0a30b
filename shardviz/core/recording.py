"""A recording: every collective that a program's ranks made, as facts, whatever the program was."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from shardviz.core.recipe import payload, reduce_payload

__all__ = ["Call", "Event", "Gap", "Participant", "Piece", "Recording", "Value", "rank_list"]

MOST_EVENTS = 200
"""The most events that a recording's text tells one by one."""

# The others may be given tensors of another shape on every rank, as their callers please.
_MESSAGES = ("send", "recv")
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
        module: path of the module whose forward or backward called, as `layers.3.attention.wq`; "" where that is not known.
        peer: of a message, the global rank of the other side; None where it may be any and none has sent.
        tag: of a message.
        parts: bytes for each member of the group, in its order, of an all-to-all by uneven splits; () for even ones.
        padding: for each member of the group, how many of the bytes for it are padding; None where that is not known.
        finished: whether it is known to be over; its end may be unknown although it is, where only C++ waited.
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
    module: str = ""
    peer: int | None = None
    tag: int = 0
    parts: tuple[int, ...] = ()
    padding: tuple[int, ...] | None = None
    finished: bool = False

    @property
    def over(self) -> bool:
        """Whether it is known to be over."""
        return self.finished or self.seconds is not None

    @property
    def is_message(self) -> bool:
        """Whether it is one side of a point-to-point message."""
        return self.name in _MESSAGES

    @property
    def text(self) -> str:
        """What was called, as in `all_reduce (sum) of float32 [4]` or `recv of float32 [4] from rank 1`."""
        text = f"{self.name} ({self.reduction})" if self.reduction else self.name
        if self.given:
            same = len(set(map(_bare, self.given))) == 1
            what = self.given[0].text if same else ", ".join(piece.text for piece in self.given)
            text += f" of {len(self.given)} × {what}" if same and len(self.given) > 1 else f" of {what}"
        if self.is_message:
            whom = "any rank" if self.peer is None else f"rank {self.peer}"
            text += f" {'to' if self.name == 'send' else 'from'} {whom}" + (f" with tag {self.tag}" if self.tag else "")
        return text if self.root is None else f"{text} with root {self.root}"

    @property
    def question(self) -> tuple[object, ...]:
        """What all ranks of the group must agree on."""
        if self.is_message:  # a buffer may have another shape than what comes into it
            return tuple((piece.dtype, piece.numel) for piece in self.given)
        pieces = [(piece.dtype, piece.shape if self.name in _SAME_SHAPE else ()) for piece in self.given]
        return (self.name, self.reduction, self.root, () if self.name == "scatter" else tuple(pieces))

    def sent(self, rank: int, members: int, position: int = 0) -> int:
        """Bytes that `rank` sends in a group of so many members, by the usual algorithm of each collective.

        Args:
            rank: the caller's.
            members: how many ranks the group has.
            position: the caller's place among them.
        """
        if self.name == "all_gather":
            return sum(payload(piece.shape, piece.itemsize, members) for piece in self.given)
        if self.name == "all_reduce":
            return sum(reduce_payload(piece.shape, piece.itemsize, members) for piece in self.given)
        if self.name == "recv":
            return 0
        each = [piece.numel * piece.itemsize for piece in self.given]
        given = sum(each)
        if self.name == "send":
            return given
        if self.name == "broadcast":
            return (members - 1) * given if rank == self.root else 0
        if self.name in ("gather", "reduce"):
            return 0 if rank == self.root else given
        if self.name == "scatter" and rank != self.root:
            return 0
        parts = self.parts or (tuple(each) if len(each) == members else ())
        if len(parts) == members:
            return sum(parts) - parts[position]
        return given - given // members  # each member but oneself gets its part

    def padded(self, position: int) -> int:
        """How many of the bytes that are sent to others are padding, as far as that is known."""
        return sum(bytes_ for place, bytes_ in enumerate(self.padding or ()) if place != position)


@dataclass(frozen=True)
class Event:
    """One collective, as the ranks of its group met it, or one message between two of them.

    Attributes:
        group: the ranks of the process group, in its order; of a message, who sends and who receives it.
        label: torch's name of the group.
        number: which of the group's collectives it is, from 0; of a message, which of those alike between the two.
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
    def is_message(self) -> bool:
        """Whether it is a point-to-point message."""
        return self.first.is_message

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
        pairs = enumerate(zip(self.group, self.calls, strict=True))
        return tuple(call.sent(rank, k, place) if call else 0 for place, (rank, call) in pairs)

    @property
    def padding(self) -> int | None:
        """How many of the bytes sent were padding; None where that is not known of every rank."""
        known = [call.padded(place) if call and call.padding is not None else None for place, call in enumerate(self.calls)]
        return None if None in known else sum(amount or 0 for amount in known)

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
            text = f"different {'messages' if self.is_message else 'collectives'} {where}: {'; '.join(parts)}"
        else:
            call = self.first
            times = "" if self.seconds is None else f", {self.seconds * 1e3:.3g} ms"
            padding = f" ({self.padding:,} of them padding)" if self.padding else ""
            text = f"{call.text} {where}, {sum(self.bytes):,} bytes sent{padding}{times}"
            text += "".join(f"; {part}" for part in (call.reason, call.module, call.place) if part)
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
class Gap:
    """Something that a rank's record lacks.

    Attributes:
        rank: whose record.
        what: what it could not see, in words.
    """

    rank: int
    what: str


@dataclass(frozen=True)
class Recording:
    """Every collective and message of a program, from what each of its ranks recorded.

    Attributes:
        program: what ran, such as `train.py`.
        backend: of the process groups: "gloo", "nccl", or several with commas; "" where none was used.
        participants: the ranks with a record, in order.
        events: the collectives, in the order in which the first rank of each called it.
        absent: ranks of the program that left no record.
        gaps: what the records lack, as far as that is known.
    """

    program: str
    backend: str
    participants: tuple[Participant, ...]
    events: tuple[Event, ...]
    absent: tuple[int, ...] = ()
    gaps: tuple[Gap, ...] = ()

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
        """Whether every rank came to its end, all was seen, and all was called alike by all ranks that it concerns."""
        whole = not self.absent and not self.cut_short and not self.gaps
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
        lines += [f"incomplete: {rank_list(ranks)}: {what}" for what, ranks in self.lacking.items()]
        lines.append(f"{self.counts}, {sum(sum(event.bytes) for event in self.events):,} bytes sent in all")
        if not self.right:
            lines += [f"{rank_list(ranks)} {state}" for state, ranks in self.standing().items()]
        lines += [f"{number}. {event.text}" for number, event in enumerate(self.events[:MOST_EVENTS], 1)]
        if len(self.events) > MOST_EVENTS:
            lines.append(f"… and {len(self.events) - MOST_EVENTS} more")
        return "\n".join(lines)

    @property
    def counts(self) -> str:
        """How many collectives and messages there are, in words."""
        messages = sum(event.is_message for event in self.events)
        collectives = f"{len(self.events) - messages} collectives"
        return f"{collectives}, {messages} message{'s' * (messages != 1)}" if messages else collectives

    @property
    def lacking(self) -> dict[str, list[int]]:
        """What the records lack, and whose."""
        lacking: dict[str, list[int]] = defaultdict(list)
        for gap in self.gaps:
            lacking[gap.what].append(gap.rank)
        return dict(lacking)

    def standing(self) -> dict[str, list[int]]:
        """Where each rank is at the end of its record, in words, and which ranks are there.

        A rank that came to its end has returned; another one is in the first call that never came back, or after its last one.
        """
        ended = {one.rank for one in self.participants if not one.end}
        last: dict[int, Call] = {}
        inside: dict[int, Call] = {}
        for event in self.events:
            for rank, call in zip(event.group, event.calls, strict=True):
                if call and (rank not in last or call.at >= last[rank].at):
                    last[rank] = call
                if call and not call.over:
                    inside.setdefault(rank, call)
        standing: dict[str, list[int]] = defaultdict(list)
        for rank in self.ranks:
            call = inside.get(rank) or last.get(rank)
            if rank in ended:
                state = "returned"
            elif call is None:
                state = "called nothing"
            else:
                state = f"{'is in' if rank in inside else 'is after'} {call.text}"
                state += f", called by {call.place}" if call.place else ""
            standing[state].append(rank)
        return dict(standing)

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
