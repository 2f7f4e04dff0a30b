"""A long recording: its kinds in numbers, and who took part in what, from the first collective to the last."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shardviz.core.recording import MOST_EVENTS, Recording
from shardviz.picture.panels import Panel, below, beside, lines, padded
from shardviz.picture.recording_facts import (
    Column,
    Share,
    Totals,
    all_ranks,
    columns,
    duration,
    head_lines,
    kind_hue,
    recording_title,
    shares,
    spread_words,
)
from shardviz.picture.scene import Box, Cell, Line, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_parts import EDGE, PAGE, head
from shardviz.picture.scene_recording_wrong import wrong_panel
from shardviz.picture.theme import BODY, HEADING, SMALL, clip, text_width, wrap
from shardviz.picture.words import bytes_text, number, plural

LANES = 256
"""The most ranks that have a lane; more of them are sampled evenly."""

MARKS, SHARED = 220, 72
"""The most marks side by side in a lane, and how many there are at most where several collectives share one."""

LISTED = 12
"""The most sentences about what went wrong, and reasons, that are listed one by one."""

LEFT, LONG = 100.0, PAGE - 2 * EDGE - 106.0
KINDS_WIDE, TICK = 380.0, 110.0

_Mix: TypeAlias = tuple[tuple[int, int], ...]
"""What one mark stands for: hues of kinds, and how often each of them was called; nothing where none was."""


@dataclass(frozen=True)
class _Axis:
    """The columns from left to right: those of each mark, how many that are, and its width."""

    bins: Sequence[Sequence[Column]]
    share: int
    pitch: float

    @property
    def long(self) -> float:
        """The width of all."""
        return len(self.bins) * self.pitch


def recording_overview(recording: Recording, totals: Totals) -> Scene:
    """Totals, kinds and reasons in words, then a strip per kind and a thin lane per rank."""
    marks, y = head(recording_title(recording), [*head_lines(recording, totals), spread_words(totals)], Panel(), PAGE)
    kinds, axis = shares(recording, totals), _axis(columns(recording))
    reasons = shares(recording, totals, by_reason=True)
    called = _list("what was called", kinds, KINDS_WIDE, kind_hue)
    why = _list("what called for it", reasons, PAGE - 2 * EDGE - KINDS_WIDE - 50)
    body = below(
        [
            padded(wrong_panel(recording, PAGE), bottom=12),
            padded(beside([called, why], 50), bottom=28),
            padded(_title(), bottom=24),
            below([_ticks(axis), _strips(axis, kinds), _lanes(recording, axis)]),
            padded(lines(wrap(_notes(recording, axis), PAGE - 2 * EDGE, SMALL), SMALL, 13, "muted"), top=24),
        ]
    )
    return scene(PAGE, y + body.height + EDGE - 16, [*marks, *moved(body.marks, EDGE, y)])


def _title() -> Panel:
    title, note = (
        "who took part in what, in the order of the calls",
        "on the axis: the number of a collective, and when it was called",
    )
    marks = (
        Text(0, 0, title, HEADING, bold=True),
        Text(text_width(title, HEADING, True) + 14, 0, note, SMALL, "muted"),
    )
    return Panel(marks, PAGE - 2 * EDGE)


def _list(title: str, rows: Sequence[Share], width: float, hue: Callable[[str], int] | None = None) -> Panel:
    """Names with their counts and bytes in columns, with the colour of each where it has one."""
    marks: list[Mark] = [
        Text(0, 0, title, HEADING, bold=True),
        Text(width - 90, 0, "collectives", SMALL, "faint", "end"),
        Text(width, 0, "sent", SMALL, "faint", "end"),
    ]
    y, shift = 20.0, 22.0 if hue else 0.0
    for row in rows[:LISTED]:
        if hue:
            marks.append(Cell(0, y - 10, 13, 12, hue=hue(row.name)))
        marks += [
            Text(shift, y, clip(row.name, width - 190 - shift, BODY), BODY),
            Text(width - 90, y, number(row.count), BODY, "ink", "end"),
            Text(width, y, bytes_text(row.bytes), BODY, "muted", "end"),
        ]
        y += 18
    if len(rows) > LISTED:
        rest = rows[LISTED:]
        words = f"and {number(len(rest))} more: {plural(sum(row.count for row in rest), 'collective')}"
        marks.append(Text(shift, y, words, BODY, "muted"))
        y += 18
    return Panel(tuple(marks), width, y)


def _axis(shown: Sequence[Column]) -> _Axis:
    share = 1 if len(shown) <= MARKS else -(-len(shown) // SHARED)
    bins = [shown[at : at + share] for at in range(0, len(shown), share)]
    return _Axis(bins, share, min(48.0, LONG / max(1, len(bins))))


def _ticks(axis: _Axis) -> Panel:
    """Which collective is where, and when it was called."""
    marks: list[Mark] = []
    origin = axis.bins[0][0].events[0].began if axis.bins else 0.0
    every = int(TICK // axis.pitch) + 1
    for at in range(0, len(axis.bins), every):
        x, column = LEFT + at * axis.pitch, axis.bins[at][0]
        if x > LEFT + LONG - TICK:
            break
        words = f"{number(column.numbers[0])} · {duration(column.events[0].began - origin)}"
        marks += [Text(x + 4, 6, words, SMALL - 1, "faint"), Line(((x, 0), (x, 12)), "rule")]
    return Panel(tuple(marks), PAGE, 18)


def _strips(axis: _Axis, kinds: Sequence[Share]) -> Panel:
    """A strip for each kind: how often it was called along the order; and one for what went wrong."""
    marks: list[Mark] = []
    y = 0.0
    counts = [Counter(event.name for column in part for event in column.events) for part in axis.bins]
    most = max((max(count.values()) for count in counts), default=1)
    tall = 10.0 if axis.share == 1 else 20.0
    for kind in kinds[:LISTED]:
        marks.append(Text(LEFT - 8, y + tall / 2 + 3.5, clip(kind.name, LEFT - 10, SMALL), SMALL, "muted", "end"))
        marks.append(Box(LEFT, y, axis.long, tall, fill="panel", radius=2))
        for at, count in enumerate(counts):
            if kind.name in count:
                high = tall if axis.share == 1 else max(2.0, tall * count[kind.name] / most)
                place = (LEFT + at * axis.pitch, y + tall - high)
                marks.append(Cell(*place, axis.pitch - 1, high, hue=kind_hue(kind.name)))
        y += tall + 4
    wrong = [any(event.differs or event.missing for column in part for event in column.events) for part in axis.bins]
    if any(wrong):
        marks.append(Text(LEFT - 8, y + 8, "went wrong", SMALL, "red", "end", bold=True))
        width = max(axis.pitch - 1, 3.0)
        marks += [Box(LEFT + at * axis.pitch, y, width, 9, fill="red", radius=1) for at, bad in enumerate(wrong) if bad]
        y += 13
    return Panel(tuple(marks), PAGE, y + 12)


def _lanes(recording: Recording, axis: _Axis) -> Panel:
    """A thin lane per rank, with a mark for every collective that it took part in; red where its record ends."""
    ranks = _sampled(all_ranks(recording))
    pitch = max(2.4, min(14.0, 620 / len(ranks)))
    tall = pitch - min(2.0, pitch * 0.2)
    every = next(2**k for k in range(20) if 2**k * pitch >= 13)
    ended = {one.rank for one in recording.cut_short} | set(recording.absent)
    mixes = _mixes(axis, ranks)
    marks: list[Mark] = [Box(LEFT, 0, axis.long, pitch * len(ranks), fill="panel", radius=2)] if axis.bins else []
    for place, rank in enumerate(ranks):
        y = place * pitch
        if place % every == 0:
            marks.append(Text(LEFT - 8, y + tall / 2 + 3, f"rank {rank}", 8.5, "faint", "end"))
        marks += _cells(axis, mixes[rank], y, tall, rank)
        if rank in ended:
            last = max((at for at, mix in enumerate(mixes[rank]) if mix), default=-1)
            marks.append(Box(LEFT + (last + 1) * axis.pitch, y, 4, tall, fill="red", radius=0))
    return Panel(tuple(marks), PAGE, pitch * len(ranks))


def _mixes(axis: _Axis, ranks: Sequence[int]) -> dict[int, list[_Mix]]:
    """Per rank what each mark stands for."""
    mixes: dict[int, list[_Mix]] = {rank: [()] * len(axis.bins) for rank in ranks}
    for at, part in enumerate(axis.bins):
        counts: dict[int, Counter[int]] = defaultdict(Counter)
        for event in (event for column in part for event in column.events):
            for rank, call in zip(event.group, event.calls, strict=True):
                if call and rank in mixes:
                    counts[rank][kind_hue(call.name)] += 1
        for rank, count in counts.items():
            mixes[rank][at] = tuple(sorted(count.items()))
    return mixes


def _cells(axis: _Axis, mixes: Sequence[_Mix], y: float, tall: float, rank: int) -> list[Mark]:
    """The marks of a lane, each divided among its kinds."""
    marks: list[Mark] = []
    for at, mix in enumerate(mixes):
        top, whole = y, sum(times for _, times in mix)
        for hue, times in mix:
            marks.append(Cell(LEFT + at * axis.pitch, top, axis.pitch - 1, tall * times / whole, hue=hue, rank=rank))
            top += tall * times / whole
    return marks


def _notes(recording: Recording, axis: _Axis) -> str:
    """What a mark stands for, and what is left out."""
    ranks = len(all_ranks(recording))
    parts = ["Colour: the kind of collective, named above and beside its strip."]
    parts.append("Like collectives that groups without a common rank made side by side share a place.")
    if axis.share > 1:
        parts.append(f"Each mark stands for {axis.share} places, and is divided by how often each kind was called there;")
        parts.append("a strip's bar is as high as its kind was called often.")
    if ranks > LANES:
        parts.append(f"{number(LANES)} of {number(ranks)} ranks are drawn, sampled evenly.")
    if recording.cut_short or recording.absent:
        parts.append("A red end: the rank's record ends there.")
    first = f" for the first {MOST_EVENTS}" if len(recording.events) > MOST_EVENTS else ""
    parts.append(f"Sizes and times of single collectives are left out; the recording's text has them{first}.")
    return " ".join(parts)


def _sampled(ranks: Sequence[int]) -> Sequence[int]:
    return ranks if len(ranks) <= LANES else [ranks[i * len(ranks) // LANES] for i in range(LANES)]
