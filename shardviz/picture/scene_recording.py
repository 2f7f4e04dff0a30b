"""A recording: while it is short, a lane per rank and a column per collective, with groups, sizes, bytes and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from shardviz.core.recording import Call, Recording
from shardviz.picture.panels import Panel
from shardviz.picture.recording_facts import (
    Column,
    Totals,
    all_ranks,
    call_labels,
    columns,
    duration,
    head_lines,
    kind_hue,
    numbers,
    recording_title,
    what_words,
)
from shardviz.picture.scene import Box, Cell, CellKind, Line, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_parts import EDGE, PAGE, bracket_columns, brackets, head, legend
from shardviz.picture.scene_recording_wrong import wrong_panel
from shardviz.picture.theme import BODY, HEADING, LABEL, SMALL, Tone, clip, text_width, wrap
from shardviz.picture.words import bytes_text

__all__ = ["recording_scene"]

GAP, STEP = 26.0, 8.0
LEAST, WIDEST = 104.0, 190.0
TALL, UNDER, ENDS = 24.0, 13.0, 27.0

READ = "in a cell: what went in → what came out; below it: the bytes that the rank sent, and the time until its result"


@dataclass(frozen=True)
class _Plan:
    """The measures that all rows of columns share.

    Attributes:
        recording: what is drawn.
        middles: per rank the middle of its cells in a row.
        label: the room of the ranks' names.
        indent: the room of the brackets in a column.
        width: of a column, brackets included.
        cell: width of a cell.
        height: of the lanes.
    """

    recording: Recording
    middles: Mapping[int, float]
    label: float
    indent: float
    width: float
    cell: float
    height: float


def recording_scene(recording: Recording, totals: Totals) -> Scene:
    """The collectives one by one, in as many rows as it takes."""
    shown = columns(recording)
    plan, rows = _plan(recording, shown)
    across = len(rows[0])
    width = max(2 * EDGE + plan.label + across * plan.width + (across - 1) * GAP, 640.0)
    marks, y = head(recording_title(recording), head_lines(recording, totals), Panel(), width)
    wrong = wrong_panel(recording, width)
    marks += moved(wrong.marks, EDGE, y)
    y += wrong.height
    last = _last(_end_words(recording), shown)
    for place, row in enumerate(rows):
        if place:
            marks.append(Line(((EDGE, y - 14), (width - EDGE, y - 14)), "rule"))
            y += 10
        bands, tall = _bands(plan, row)
        marks += moved(bands, EDGE + plan.label, y)
        y += tall
        for at, column in enumerate(row):
            marks += moved(_heading(plan, column), EDGE + plan.label + at * (plan.width + GAP) + plan.indent, y)
        top = y + 62 if row else y
        begin = place * across
        marks += moved(_lanes(plan, range(begin, begin + len(row)), last, width - 2 * EDGE), EDGE, top)
        for at, column in enumerate(row):
            marks += moved(_calls(plan, column), EDGE + plan.label + at * (plan.width + GAP), top)
        y = top + plan.height + 20
    key, tall = legend(_legend(recording), width - 2 * EDGE)
    marks += moved(key, EDGE, y)
    y += tall
    if recording.events:
        marks.append(Text(EDGE, y + 12, READ, SMALL, "muted"))
        y += 16
    return scene(width, y + EDGE - 6, marks)


def _plan(recording: Recording, shown: Sequence[Column]) -> tuple[_Plan, list[Sequence[Column]]]:
    """The measures, and the columns row by row: rows of equal length, at most as wide as a page."""
    pitch = 50.0 if recording.absent or recording.cut_short else 46.0
    pitch += UNDER if recording.absent or recording.cut_short else 0
    ranks = all_ranks(recording)
    middles = {rank: TALL / 2 + place * pitch for place, rank in enumerate(ranks)}
    label = max(text_width(text, LABEL + 0.5, True) for text in (f"rank {rank}" for rank in ranks)) + 14
    stacked = [column for one in shown for column, _ in bracket_columns([e.group for e in one.events], middles)]
    indent = 12 + STEP * max(stacked) if stacked else 0.0
    labels = [text for one in shown for text in call_labels(one).values()]
    cell = max([text_width(text, SMALL, True) for text in labels], default=0.0) + 16
    words = [text_width(text, size, bold) for one in shown for text, size, bold in _heading_words(one)]
    words += [text_width(text, SMALL, True) for text in _end_words(recording).values()]
    width = min(max(LEAST, indent + cell, indent + max(words, default=0.0)), WIDEST)
    room = PAGE - 2 * EDGE - label
    most = max(1, int((room + GAP) / (width + GAP)))
    count = -(-len(shown) // most)
    across = -(-len(shown) // count) if count else 1
    spread = (room - GAP * (across - 1)) / across
    width = spread if count > 1 else max(width, min(WIDEST, spread))
    rows = [shown[at : at + across] for at in range(0, len(shown), across)]
    plan = _Plan(recording, middles, label, indent, width, min(max(cell, 64.0), width - indent), pitch * len(ranks))
    return plan, rows or [()]


def _heading_words(column: Column) -> Iterator[tuple[str, float, bool]]:
    """The lines over a column: its numbers and name, what it works on, what it costs."""
    event = column.events[0]
    yield f"{numbers(column.numbers)}  {'different calls' if event.differs else event.name}", HEADING, True
    what = "" if event.differs else what_words(column.first)
    if what:
        yield what, SMALL, False
    seconds = [event.seconds for event in column.events]
    times = [] if None in seconds else [duration(max(s for s in seconds if s is not None))]
    yield " · ".join([f"{bytes_text(sum(sum(e.bytes) for e in column.events))} sent", *times]), SMALL, False


def _heading(plan: _Plan, column: Column) -> list[Mark]:
    room = plan.width - plan.indent
    title, *lines = (text for text, _, _ in _heading_words(column))
    name = title.partition("  ")[2]
    tone: Tone = "red" if column.events[0].differs else "ink"
    count = clip(numbers(column.numbers), room - text_width(name, HEADING, True) - 8, HEADING, True)
    at = text_width(count, HEADING, True) + 8
    return [
        Text(0, 14, count, HEADING, "faint", bold=True),
        Text(at, 14, clip(name, room - at, HEADING, True), HEADING, tone, bold=True),
        *(Text(0, 31 + 13 * i, clip(line, room, SMALL), SMALL, "muted") for i, line in enumerate(lines)),
    ]


def _bands(plan: _Plan, row: Sequence[Column]) -> tuple[list[Mark], float]:
    """What called for the columns of a row, over a line as long as they are; and the room that it takes."""
    marks: list[Mark] = []
    found = []
    at = 0
    for (reason, place), group in groupby(row, key=lambda column: column.why):
        count = len(list(group))
        left = at * (plan.width + GAP) + plan.indent
        room = count * plan.width + (count - 1) * GAP - plan.indent
        found.append((left, room, _reason_lines(reason or "the program itself", room), clip(place.strip(), room, SMALL)))
        at += count
    tall = max((15.0 * len(words) for _, _, words, _ in found), default=0.0)
    for left, room, words, place in found:
        y = tall - 15.0 * len(words) + 11
        marks += [Text(left, y + 15 * i, line, BODY) for i, line in enumerate(words)]
        if place:
            marks.append(Text(left, tall + 9, place, SMALL, "faint"))
        marks.append(Line(((left, tall + 16), (left + room, tall + 16)), "faint"))
    return marks, tall + 26 if row else 0.0


def _reason_lines(reason: str, room: float) -> tuple[str, ...]:
    """A reason in at most two lines; a redistribution is parted before its arrow."""
    source, arrow, target = reason.partition(" -> ")
    if arrow and text_width(reason, BODY) > room:
        return clip(source, room, BODY), clip(f"-> {target}", room, BODY)
    return wrap(reason, room, BODY, 2)


def _end_words(recording: Recording) -> dict[int, str]:
    """Words for the lanes of the ranks that did not come to their end; the head has the reasons in full."""
    ends = {one.rank: " ended here" if one.end.startswith("ended") else "'s file ends here" for one in recording.cut_short}
    words = {rank: f"rank {rank}{end}" for rank, end in ends.items()}
    return words | {rank: f"rank {rank} left no record" for rank in recording.absent}


def _last(ends: Iterable[int], shown: Sequence[Column]) -> dict[int, int]:
    """The last column that each of these ranks has a call in; −1 for none."""
    last = dict.fromkeys(ends, -1)
    for at, column in enumerate(shown):
        for event in column.events:
            last |= {rank: at for rank, call in zip(event.group, event.calls, strict=True) if call and rank in last}
    return last


def _lanes(plan: _Plan, row: range, last: Mapping[int, int], right: float) -> list[Mark]:
    """The ranks' names, a quiet line through each lane, and red words where a record ends."""
    marks: list[Mark] = []
    words = _end_words(plan.recording)
    start = plan.label + plan.indent
    for rank, middle in plan.middles.items():
        marks.append(Text(0, middle + 4, f"rank {rank}", LABEL + 0.5, bold=True))
        end = last.get(rank, row.stop)
        if end >= row.stop:
            marks.append(Line(((start, middle), (right, middle)), "rule"))
        elif end >= row.start or row.start == 0:
            left = start + max(end - row.start, 0) * (plan.width + GAP)
            stop = left + plan.cell + 9 if end >= 0 else start
            under = middle + TALL / 2 + (ENDS if end >= 0 else UNDER)
            marks.append(Line(((start, middle), (stop, middle)), "rule"))
            marks.append(Line(((stop, middle - TALL / 2), (stop, middle + TALL / 2)), "red", 1.8))
            marks.append(Text(left, under, words[rank], SMALL, "red", bold=True))
    return marks


def _calls(plan: _Plan, column: Column) -> list[Mark]:
    """A cell on every rank that took part, with what it sent and how long it took, and a bracket around each group."""
    marks = brackets([event.group for event in column.events], plan.middles, plan.indent - 3, STEP)
    labels = call_labels(column)
    for event in column.events:
        for rank, call, sent in zip(event.group, event.calls, event.bytes, strict=True):
            if rank in plan.middles:
                part = _call(plan, rank, call, sent, labels[rank]) if call else _no_call(plan)
                marks += moved(part, plan.indent, plan.middles[rank])
    return marks


def _no_call(plan: _Plan) -> list[Mark]:
    words = clip("no call recorded", plan.cell - 4, SMALL - 0.5)
    return [
        Box(0, -TALL / 2, plan.cell, TALL, fill="surface"),
        Box(0, -TALL / 2, plan.cell, TALL, stroke="red", line=1.2, dashed=True),
        Text(plan.cell / 2, 3.5, words, SMALL - 0.5, "red", "middle"),
    ]


def _call(plan: _Plan, rank: int, call: Call, sent: int, label: str) -> list[Mark]:
    time = "no result seen" if call.seconds is None else duration(call.seconds)
    words = " · ".join([*(["root"] if call.root == rank else []), bytes_text(sent, True), time])
    kind: CellKind = "unknown" if call.seconds is None else "element"
    text = clip(label, plan.cell - 8, SMALL, True)
    under = clip(words, plan.width - plan.indent, SMALL - 0.5)
    return [
        Cell(0, -TALL / 2, plan.cell, TALL, kind, kind_hue(call.name), text, rank=rank, size=SMALL),
        Text(0, TALL / 2 + UNDER, under, SMALL - 0.5, "muted"),
    ]


def _legend(recording: Recording) -> Iterator[tuple[str, str]]:
    calls = [call for event in recording.events for call in event.calls if call]
    if calls:
        yield "hue", "colour: the kind of collective"
    if any(len(event.group) > 1 for event in recording.events):
        yield "bracket", "bracket: the ranks of one collective"
    if any(call.seconds is None for call in calls):
        yield "unknown", "dashed: no result was seen"
