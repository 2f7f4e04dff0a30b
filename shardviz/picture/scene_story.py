"""A story: one panel per step, every rank in each, with groups, bytes and what moved; or one step as a frame of a player."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardviz.core.trace import Trace
from shardviz.picture.panels import Panel
from shardviz.picture.scene import Line, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_grid import View
from shardviz.picture.scene_mesh import mesh_panel
from shardviz.picture.scene_parts import (
    EDGE,
    PAGE,
    cell_words,
    gap_words,
    head,
    head_width,
    lane_labels,
    legend,
    rank_hues,
    source_line,
)
from shardviz.picture.story_lanes import Plan, has_arcs, panel_marks, wrong_words
from shardviz.picture.story_plan import (
    GAP,
    MOST_LANES,
    bytes_room,
    colouring,
    frame_plan,
    label_room,
    row_plan,
    shown_ranks,
    story_view,
    strip_plan,
    subline,
)
from shardviz.picture.theme import BODY, HEADING, SMALL, clip, text_width, wrap
from shardviz.picture.words import plural, sent_text, statistics, tensor_words

__all__ = ["frame_scenes", "strip_scene", "title"]


def strip_scene(trace: Trace) -> Scene:
    """All steps, panel by panel, on as many rows as they need at the width of a page."""
    view = story_view(trace)
    shown = shown_ranks(trace, view)
    plan, rows = strip_plan(trace, view, shown)
    label = label_room(trace, shown)
    inner = max(sum(widths) + GAP * (len(widths) - 1) for widths in rows)
    lines, mesh = _lines(trace, view), _mesh(trace, view, None)
    width = max(2 * EDGE + label + inner, head_width(title(trace), lines, mesh), 640.0)
    marks, y = head(title(trace), lines, mesh, width)
    first = 0
    for widths in rows:
        steps = range(first, first + len(widths))
        if first:
            marks.append(Line(((EDGE, y - 16), (width - EDGE, y - 16)), "rule"))
        spare = min((inner - sum(widths) - GAP * (len(widths) - 1)) / len(widths), 40.0) if len(rows) > 1 else 0.0
        row = row_plan(plan, steps)
        top, lowest, x = y + 46, 0.0, EDGE + label
        marks += moved(_labels(row), EDGE, top)
        for step, panel in zip(steps, widths, strict=True):
            marks += moved(_heading(plan, step, panel + spare - plan.indent), x + plan.indent, y)
            marks += moved(panel_marks(row, step), x, top)
            words = wrap(_sentence(trace, step), panel + spare - plan.indent, SMALL, 8)
            marks += [
                Text(x + plan.indent, top + row.height + 22 + 13 * i, line, SMALL, "muted") for i, line in enumerate(words)
            ]
            lowest = max(lowest, 13.0 * len(words))
            x += panel + spare + GAP
        y = top + row.height + lowest + 48
        first += len(widths)
    key, tall = legend(_legend(trace, plan, range(len(trace.steps))), width - 2 * EDGE)
    marks += moved(key, EDGE, y - 14)
    return scene(width, y + tall - 14 + EDGE - 6, marks)


def frame_scenes(trace: Trace, steps: Sequence[int], bare: bool = False) -> list[Scene]:
    """Steps one by one; every step of a story gives a frame of the same size.

    Args:
        trace: the story.
        steps: the steps' numbers, from 0.
        bare: without notation, source and sentence, for a player that has its own.
    """
    view = story_view(trace)
    shown = shown_ranks(trace, view)
    plan = frame_plan(trace, view, shown)
    return [_frame(plan, step, bare) for step in steps]


def _frame(plan: Plan, step: int, bare: bool) -> Scene:
    trace, now = plan.trace, plan.trace.steps[step]
    label = label_room(trace, plan.shown)
    mesh = _mesh(trace, plan.view, step)
    width = max(label + plan.indent + plan.wide + bytes_room(trace), mesh.width + 550.0) + 2 * EDGE
    width = max(width, PAGE if bare else 720.0)
    lines = [sent_text(now), *([] if bare else _lines(trace, plan.view))]
    marks, y = head(f"{step + 1} · {now.name}", lines, mesh, width)
    marks += moved(_labels(plan), EDGE, y)
    marks += moved(panel_marks(plan, step), EDGE + label, y)
    y += plan.height + 20
    wrong = wrong_words(plan, step)
    if wrong:
        marks.append(Text(EDGE + label + plan.indent, y - 4, wrong, BODY, "red", bold=True))
    y += 16.0 if any(wrong_words(plan, number) for number in range(len(trace.steps))) else 0.0
    if not bare:
        words = [wrap(_sentence(trace, number), width - 2 * EDGE, BODY) for number in range(len(trace.steps))]
        marks += [Text(EDGE, y + 6 + 16 * i, line, BODY) for i, line in enumerate(words[step])]
        y += 16 * max(map(len, words)) + 12
    key, tall = legend(_legend(trace, plan, range(len(trace.steps))), width - 2 * EDGE)
    marks += moved(key, EDGE, y)
    return scene(width, y + tall + EDGE - 6, marks)


def title(trace: Trace) -> str:
    """What the story is about, and how it ends."""
    ranks = plural(len(trace.ranks), "rank")
    what = tensor_words(trace.spec)
    if trace.method == "split":
        return f"How {what} {'is' if trace.spec.numel == 1 else 'are'} cut over {ranks}"
    if trace.method == "redistribute":
        return f"How {ranks} redistribute{'s' * (len(trace.ranks) == 1)} {what}"
    if trace.right:
        return f"How {ranks} put{'s' * (len(trace.ranks) == 1)} {what} back together"
    if trace.end:
        return f"Where {ranks} with {what} had to stop"
    return f"What {ranks} make{'s' * (len(trace.ranks) == 1)} of {what}"


_METHODS = {"exact": "", "split": "", "full_tensor": "torch's own full_tensor()"}


def _lines(trace: Trace, view: View) -> list[str]:
    method = _METHODS.get(trace.method, f"method {trace.method}")
    if trace.target is not None and trace.method != "split":
        method = f"to {', '.join(map(str, trace.target.placements))}"
    lines = [str(trace.spec), source_line(trace.source, (method, cell_words(trace.spec, (*view.rows, *view.cols))))]
    return [*lines, trace.end] if trace.end else lines


def _mesh(trace: Trace, view: View, step: int | None) -> Panel:
    groups = trace.steps[step].groups if step is not None else ()
    return mesh_panel(trace.spec.mesh, rank_hues(trace.spec, colouring(trace), view.owned), groups)


def _heading(plan: Plan, step: int, width: float) -> list[Mark]:
    now = plan.trace.steps[step]
    wrong = wrong_words(plan, step)
    name = wrap(now.name, width, HEADING, 1)[0]
    return [
        Text(0, 14, f"{step + 1}", HEADING, "faint", bold=True),
        Text(text_width(f"{step + 1}", HEADING, True) + 8, 14, name, HEADING, bold=True),
        Text(
            0, 31, clip(wrong or subline(now), width, SMALL, bool(wrong)), SMALL, "red" if wrong else "muted", bold=bool(wrong)
        ),
    ]


def _sentence(trace: Trace, step: int) -> str:
    now = trace.steps[step]
    if len(trace.ranks) <= MOST_LANES:
        return now.sentence
    return f"{now.sentence} {statistics(now.buffers)}."


def _labels(plan: Plan) -> list[Mark]:
    marks: list[Mark] = []
    before = -1
    for position in plan.shown:
        middle = plan.middles[plan.trace.ranks[position]]
        if position != before + 1:
            marks.append(Text(0, middle - plan.half - plan.over - 5, gap_words(position - before - 1), SMALL, "faint"))
        marks += lane_labels(plan.trace.spec, position, middle, max(plan.tall, plan.lane - 8), plan.trace.source.devices)
        before = position
    return marks


def _legend(trace: Trace, plan: Plan, steps: Sequence[int]) -> Iterator[tuple[str, str]]:
    buffers = {trace.steps[i].buffers[position] for i in steps for position in plan.shown}
    runs = {run for buffer in buffers for axis in (*buffer.axes, buffer.cells or ()) for run in axis if run[0] < 0}
    when = "holds it at the end" if trace.method == "split" else "held it at the start"
    yield "hue", f"colour: the rank that {when}" + ("; eight hues, repeated" if plan.view.owned.many else "")
    if any(run[1] == 0 for run in runs):
        yield "padding", "hatched: padding, sent but no element"
    if any(run[1] == -1 for run in runs):
        yield "unknown", "?: no known element"
    if any(buffer.pending for buffer in buffers):
        yield "addend", "stack: an addend of a pending reduction"
    if any(plan.view.owned.pending - set(buffer.pending) for buffer in buffers if buffer.numel):
        yield "sum", "grey: made of several ranks' addends"
    if any(trace.steps[i].groups for i in steps):
        yield "bracket", "bracket: the ranks of one collective"
    if any(has_arcs(plan, i) for i in steps):
        yield "arrow", "arrow: where an element moves"
