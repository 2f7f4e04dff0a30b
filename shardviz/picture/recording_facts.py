"""What pictures of a recording tell: its columns, its totals, and the words for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shardviz.core.recording import Call, Event, Piece, Recording, Value, rank_list
from shardviz.picture.drawn import Table
from shardviz.picture.theme import SMALL, text_width
from shardviz.picture.words import RANKS, bytes_text, number, plural

__all__ = [
    "Column",
    "Share",
    "Totals",
    "all_ranks",
    "call_labels",
    "columns",
    "duration",
    "head_lines",
    "kind_hue",
    "numbers",
    "recording_table",
    "recording_title",
    "shares",
    "spread_words",
    "what_words",
    "wrong_lines",
]

_KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "scatter", "reduce", "gather")

LABEL_ROOM = 124.0
"""Values are shown where they take no more room than this; shapes otherwise."""


@dataclass(frozen=True)
class Column:
    """Collectives alike that groups without a common rank made side by side.

    Attributes:
        numbers: their places in the recording, from 1.
        events: the collectives.
    """

    numbers: tuple[int, ...]
    events: tuple[Event, ...]

    @property
    def first(self) -> Call:
        """A call that speaks for all."""
        return self.events[0].first

    @property
    def why(self) -> tuple[str, str]:
        """What called for it, and where in the program."""
        return self.first.reason, self.first.place


@dataclass(frozen=True)
class Share:
    """How much of a recording has something in common: its name, number of collectives and bytes."""

    name: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Totals:
    """What a recording adds up to.

    Attributes:
        events: bytes sent in each collective.
        calls: per rank its number of calls.
        sent: per rank the bytes that it sent.
        spent: per rank the seconds until its results, added up.
    """

    events: tuple[int, ...]
    calls: dict[int, int]
    sent: dict[int, int]
    spent: dict[int, float]

    @classmethod
    def of(cls, recording: Recording) -> Totals:
        """Add up a recording."""
        ranks = all_ranks(recording)
        calls, sent, spent = dict.fromkeys(ranks, 0), dict.fromkeys(ranks, 0), dict.fromkeys(ranks, 0.0)
        events = []
        for event in recording.events:
            amounts = event.bytes
            events.append(sum(amounts))
            for rank, call, amount in zip(event.group, event.calls, amounts, strict=True):
                if call and rank in calls:
                    calls[rank] += 1
                    sent[rank] += amount
                    spent[rank] += call.seconds or 0.0
        return cls(tuple(events), calls, sent, spent)


def all_ranks(recording: Recording) -> tuple[int, ...]:
    """The program's ranks, those without a record too."""
    return tuple(sorted((*recording.ranks, *recording.absent)))


def kind_hue(name: str) -> int:
    """The hue of a kind of collective; −1 for a barrier, which moves no data."""
    return _KINDS.index(name) if name in _KINDS else -1


def columns(recording: Recording) -> tuple[Column, ...]:
    """The collectives in the order in which every rank called them; like ones of several groups share a column."""
    found: list[list[int]] = []
    latest: dict[object, int] = {}
    last: dict[int, int] = {}
    for number_, event in enumerate(recording.events, 1):
        first = event.first
        key = (first.name, first.reduction, what_words(first), first.reason, first.place)
        after = max((last.get(rank, -1) for rank in event.group), default=-1)
        place = latest.get(key, -1)
        alone = event.differs
        if alone or place <= after:
            place = len(found)
            found.append([])
            if not alone:
                latest[key] = place
        found[place].append(number_)
        last.update(dict.fromkeys(event.group, place))
    events = [sorted((recording.events[n - 1] for n in row), key=lambda event: event.group) for row in found]
    return tuple(Column(tuple(row), tuple(part)) for row, part in zip(found, events, strict=True))


def shares(recording: Recording, totals: Totals, by_reason: bool = False) -> tuple[Share, ...]:
    """The collectives by their kind, or by what called for them, the most frequent first."""
    found: dict[str, tuple[int, int]] = {}
    for event, sent in zip(recording.events, totals.events, strict=True):
        first = event.first
        name = (first.reason or "the program itself") if by_reason else first.name
        times, total = found.get(name, (0, 0))
        found[name] = times + 1, total + sent
    rows = [Share(name, times, total) for name, (times, total) in found.items()]
    return tuple(sorted(rows, key=lambda share: -share.count))


def recording_title(recording: Recording) -> str:
    """What ran, in one line."""
    ranks = plural(len(all_ranks(recording)), "rank")
    messages = sum(event.is_message for event in recording.events)
    what = plural(len(recording.events) - messages, "collective")
    what += f" and {plural(messages, 'message')}" if messages else ""
    return f"{what} of {recording.program or 'a program'} on {ranks}"


def head_lines(recording: Recording, totals: Totals) -> list[str]:
    """Where the facts come from, and the totals."""
    torch = ", ".join(sorted({one.torch for one in recording.participants}))
    backend = f"{recording.backend} " if recording.backend else ""
    lines = [f"recorded on {number(len(recording.participants))} {backend}ranks, torch {torch}"]
    if not recording.events:
        return [*lines, "no collective was called"]
    ends = [event.began + (event.seconds or 0.0) for event in recording.events]
    spent = duration(max(ends) - recording.events[0].began)
    return [*lines, f"{bytes_text(sum(totals.events))} sent in all · {spent} from the first call to the last result"]


def spread_words(totals: Totals) -> str:
    """How evenly the ranks send and wait: the least and the most of both."""
    low, high = min(totals.sent.values()), max(totals.sent.values())
    sends = f"each rank sends {bytes_text(low)}"
    if bytes_text(low) != bytes_text(high):
        sends = f"ranks send {bytes_text(low, True)} to {bytes_text(high, True)}"
    short, long = (pick(totals.spent, key=lambda rank: totals.spent[rank]) for pick in (min, max))
    if duration(totals.spent[short]) == duration(totals.spent[long]):
        return f"{sends} · each spends {duration(totals.spent[long])} in collectives"
    waits = f"{duration(totals.spent[short])} (rank {short}) to {duration(totals.spent[long])} (rank {long})"
    return f"{sends} · time in collectives: {waits}"


def wrong_lines(recording: Recording) -> list[str]:
    """What went wrong, a sentence each."""
    ends: dict[str, list[int]] = {}
    for one in recording.cut_short:
        ends.setdefault(one.end, []).append(one.rank)
    lines = [f"{rank_list(ranks)} {end if len(ranks) == 1 else end.replace('is ', 'are ', 1)}" for end, ranks in ends.items()]
    if recording.absent:
        lines.append(f"{rank_list(recording.absent)} left no record")
    lines += [f"incomplete: {rank_list(ranks)}: {what}" for what, ranks in recording.lacking.items()]
    for place, event in enumerate(recording.events, 1):
        if event.differs:
            lines.append(f"{place}. {event.text}")
        elif event.missing:
            lines.append(
                f"{place}. {event.name} on {rank_list(event.group)}: no call of {rank_list(event.missing)} was recorded"
            )
    return lines


def what_words(call: Call) -> str:
    """What a collective works on: `sum of float32 [3, 4]`, `2 × float32 [4]`."""
    pieces = call.given or call.got
    texts = list(dict.fromkeys(piece.text for piece in pieces))
    what = f"{len(pieces)} × {texts[0]}" if len(texts) == 1 and len(pieces) > 1 else ", ".join(texts)
    return f"{call.reduction} of {what}" if call.reduction else what


def call_labels(column: Column) -> dict[int, str]:
    """Per rank with a call what went in and what came out of it: values while all of a column are few, shapes otherwise."""
    labels: dict[int, str] = {}
    calls = {rank: call for event in column.events for rank, call in zip(event.group, event.calls, strict=True) if call}
    named = any(event.differs for event in column.events)
    for words in (_values, _shapes):
        labels = {rank: _label(call, named, words) for rank, call in calls.items()}
        if words is _shapes or all(text and text_width(text, SMALL, True) <= LABEL_ROOM for text in labels.values()):
            break
    return labels


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    Example:
        >>> duration(0.0172), duration(75.3), duration(4e-6)
        ('17.2 ms', '75.3 s', '4 µs')
    """
    if not seconds:
        return "0 s"
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e3)) if seconds * s >= 1), ("µs", 1e6))
    value = seconds * scale
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def numbers(values: Iterable[int]) -> str:
    """Numbers in a row, neighbours as a span: `1, 2`, `3–8`."""
    return rank_list(values).partition(" ")[2]


def recording_table(recording: Recording, totals: Totals) -> Table:
    """Rank by rank: what it called, sent and waited for, and how its record ends."""
    ends = {one.rank: one.end or "whole" for one in recording.participants}
    rows = [
        (str(rank), number(calls), bytes_text(totals.sent[rank]), duration(totals.spent[rank]), ends.get(rank, "left none"))
        for rank, calls in list(totals.calls.items())[:RANKS]
    ]
    if len(totals.calls) > RANKS:
        rows.append(("…", f"{number(len(totals.calls) - RANKS)} ranks are not listed", "", "", ""))
    return Table(("rank", "collectives", "sends", "time in collectives", "its record"), tuple(rows))


def _label(call: Call, named: bool, words: Callable[[Sequence[Piece]], str | None]) -> str:
    """A label made of what `words` says of the tensors; "" where it has no words for them."""
    given, got = words(call.given), words(call.got)
    if given is None or got is None:
        return ""
    if not call.given and not call.got:
        return call.name
    arrow = f"{given} → {got}".strip()
    return f"{call.name} {arrow}" if named else arrow


def _shapes(pieces: Sequence[Piece]) -> str:
    shapes = list(dict.fromkeys(str(list(piece.shape)) for piece in pieces))
    return f"{len(pieces)} × {shapes[0]}" if len(shapes) == 1 and len(pieces) > 1 else ", ".join(shapes)


def _values(pieces: Sequence[Piece]) -> str | None:
    """All values of the tensors; None where they were not recorded, or there are none."""
    if any(not piece.values for piece in pieces):
        return None
    return " | ".join(", ".join(map(_value, piece.values or ())) for piece in pieces)


def _value(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
