"""How a story is laid out: the size of its cells, the ranks that have a lane, and the rows of its panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardviz.core.trace import Buffer, Step, Trace
from shardviz.picture.facts import drawn_dims, owners
from shardviz.picture.scene_grid import STACK, Scale, View
from shardviz.picture.scene_parts import EDGE, PAGE, bracket_columns, lane_label_width
from shardviz.picture.story_lanes import MOST_ROWS, Plan, bracket_step, has_arcs, most_slots, names_room, uneven, wrong_words
from shardviz.picture.theme import HEADING, SMALL, text_width
from shardviz.picture.words import bytes_text, sent_text

__all__ = [
    "GAP",
    "bytes_room",
    "colouring",
    "frame_plan",
    "label_room",
    "row_plan",
    "shown_ranks",
    "story_view",
    "strip_plan",
    "subline",
]

MOST_LANES = 32
"""The most ranks that all have a lane."""

MOST_GRIDS = 16
"""The same where a buffer is a grid, which is taller."""

GAP = 26.0
"""Between two panels."""


def story_view(trace: Trace) -> View:
    """The dimensions that tell the buffers of a story apart, coloured by who holds what: at the start, or where it is cut."""
    owned = owners(trace.spec, colouring(trace))
    return View.of(trace.spec, owned, drawn_dims(trace.spec, (b for step in trace.steps for b in step.buffers)))


def colouring(trace: Trace) -> tuple[Buffer, ...]:
    """The buffers whose ranks give the colours: the first ones, or the last where every rank begins with the whole tensor."""
    return trace.result if trace.method == "split" else trace.held


def shown_ranks(trace: Trace, view: View) -> tuple[int, ...]:
    """The ranks with a lane: all of them, or the first and last ones and one of every kind."""
    count = len(trace.ranks)
    if count <= (MOST_LANES if view.flat else MOST_GRIDS):
        return tuple(range(count))
    kinds: dict[tuple[tuple[int, ...], ...], int] = {}
    for position in range(count):
        kinds.setdefault(tuple(step.buffers[position].shape for step in trace.steps), position)
    return tuple(sorted({*range(8), *list(kinds.values())[:10], *range(count - 3, count)}))


def strip_plan(trace: Trace, view: View, shown: tuple[int, ...]) -> tuple[Plan, list[list[float]]]:
    """The size of cells that needs the fewest rows of panels, and the panels' widths row by row."""
    indent = _indent(trace, view, shown)
    room = PAGE - 2 * EDGE - label_room(trace, shown)
    tall, wide = most_slots(trace, view, shown)
    best: tuple[Plan, list[list[float]]] | None = None
    grid = min(20.0, max(9.0, 96.0 / tall))
    for pitch in (30.0, 28.0, 26.0, 24.0, 22.0, 18.0, 16.0, 14.0) if view.flat else (grid, 9.0):
        if indent + wide * pitch + bytes_room(trace) > room or (not view.flat and tall > MOST_ROWS):
            continue
        plan = _plan(trace, view, shown, pitch, 0, indent)
        widths = [_panel_width(plan, step) for step in range(len(trace.steps))]
        rows = _packed(widths, room)
        if best is None or (len(rows) < len(best[1]) and pitch >= 22):
            best = plan, rows
    if best is None:
        plan = _plan(trace, view, shown, 0, min(room / 2, 400.0) - indent - bytes_room(trace) - GAP, indent)
        best = plan, _packed([_panel_width(plan, step) for step in range(len(trace.steps))], room)
    return best


def row_plan(plan: Plan, steps: Sequence[int]) -> Plan:
    """The plan of one row of panels, whose lanes are no taller than its own steps need."""
    if plan.view.flat:
        return plan if any(has_arcs(plan, step) for step in steps) else replace(plan, over=0.0)
    tall, _ = most_slots(replace(plan.trace, steps=tuple(plan.trace.steps[step] for step in steps)), plan.view, plan.shown)
    height = tall * plan.rows.pitch
    return replace(plan, tall=height, lane=max(height + 18, 40.0))


def _panel_width(plan: Plan, step: int) -> float:
    """The room that a panel needs for its widest buffer and for its words."""
    trace, view = plan.trace, plan.view
    now = trace.steps[step]
    wrong = wrong_words(plan, step)
    wide = most_slots(replace(trace, steps=(now,)), view, plan.shown)[1] * plan.cols.pitch
    if not plan.cols.single and view.flat:
        wide = max(wide, 250.0)
    words = max(text_width(now.name, HEADING, True) + 20, text_width(subline(now), SMALL), 4 + text_width(wrong, SMALL, True))
    return plan.indent + max(wide + bytes_room(replace(trace, steps=(now,))), words, 186.0 if view.flat else 150.0)


def _packed(widths: Sequence[float], room: float) -> list[list[float]]:
    """Panels in rows of about the same width, on no more rows than they need."""

    def rows(limit: float) -> list[list[float]]:
        found: list[list[float]] = []
        for width in widths:
            if found and sum(found[-1]) + width + GAP * len(found[-1]) <= limit:
                found[-1].append(width)
            else:
                found.append([width])
        return found

    fewest = len(rows(room))
    limit = max(widths)
    while len(rows(limit)) > fewest:
        limit += 8
    return rows(limit)


def frame_plan(trace: Trace, view: View, shown: tuple[int, ...]) -> Plan:
    """The size of cells for one step at a time."""
    indent = _indent(trace, view, shown)
    tall, wide = most_slots(trace, view, shown)
    room = 700.0
    if view.flat and room / wide >= 14:
        return _plan(trace, view, shown, min(40.0, room / wide), 0, indent)
    if not view.flat and tall <= MOST_ROWS and room / wide >= 9:
        return _plan(trace, view, shown, min(26.0, room / wide, max(9.0, 420 / tall)), 0, indent)
    return _plan(trace, view, shown, 0, room if view.flat else 300.0, indent)


def _plan(trace: Trace, view: View, shown: tuple[int, ...], pitch: float, room: float, indent: float) -> Plan:
    tall, wide = most_slots(trace, view, shown)
    many = len(shown) > 16
    if view.flat:
        cols = Scale(pitch, True, 4.0 if pitch > 20 else 2.0) if pitch else Scale(room / wide, False)
        if not view.cols:
            cols = Scale(52.0, True, 4.0)
        height = min(cols.pitch - cols.gap, 36.0, 18.0 if many else 99) if cols.single and view.cols else 18.0 if many else 26.0
        lane = height + 6.0 if many else max(height + 12.0, 34.0)
        plan = Plan(trace, view, shown, cols, Scale(height, True), height, lane, 0.0, indent)
        return replace(plan, over=9.0) if any(has_arcs(plan, step) for step in range(len(trace.steps))) else plan
    if pitch:
        cols = rows = Scale(pitch, True, 1.5 if pitch > 12 else 1.0)
    else:
        cols, rows = Scale(room / wide, False), Scale(min(room * 0.5, 110.0 if len(shown) <= 8 else 60.0) / tall, False)
    height = tall * rows.pitch
    over = 6.0 + (STACK if any(buffer.pending for step in trace.steps for buffer in step.buffers) else 0.0)
    return Plan(trace, view, shown, cols, rows, height, max(height + 18, 40.0), over, indent)


def _indent(trace: Trace, view: View, shown: Sequence[int]) -> float:
    lanes = {trace.ranks[position]: float(i) for i, position in enumerate(shown)}
    columns = max((1 + c for step in trace.steps for c, _ in bracket_columns(step.groups, lanes)), default=0)
    return columns * bracket_step(columns) + 6 + names_room(view, most_slots(trace, view, shown)[0])


def label_room(trace: Trace, shown: Sequence[int]) -> float:
    """The room for the ranks' labels."""
    return lane_label_width(trace.spec, shown, 18 if len(shown) > 16 else 30, trace.source.devices) + 18


def bytes_room(trace: Trace) -> float:
    """The room for the amounts that ranks send, where each lane says its own."""
    sent = {bytes_text(b, True) for step in trace.steps if uneven(step) for b in step.bytes}
    return max((text_width(text, SMALL) + 10 for text in sent), default=0.0)


def subline(step: Step) -> str:
    """What stands under a step's name."""
    return sent_text(step) if step.kind == "collective" else "local"
