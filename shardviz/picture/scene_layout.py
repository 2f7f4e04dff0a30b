"""Which rank holds which elements: a lane per rank along one dimension; other shapes go to cards or to the overview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardviz.core.trace import Buffer, Report
from shardviz.picture.facts import Piece, units
from shardviz.picture.layout_facts import Facts, head_lines, layout_legend, layout_title
from shardviz.picture.scene import Box, Line, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_axis import axis_marks
from shardviz.picture.scene_grid import LEAST, Placed, Scale, View, axes_of, nothing, paint
from shardviz.picture.scene_mesh import mesh_panel
from shardviz.picture.scene_parts import (
    EDGE,
    head,
    head_width,
    lane_label_width,
    lane_labels,
    legend,
    rank_hues,
)
from shardviz.picture.theme import BODY, text_width, wrap
from shardviz.picture.words import buffer_words, number


def lanes_scene(facts: Facts, view: View) -> Scene:
    """One lane per rank, every element at its global place along the dimension that is cut."""
    size = facts.spec.shape[view.cols[0]] if view.cols else 1
    single = size <= 64
    pitch = (min(34.0, max(660 / max(size, 1), 14.0)) if view.cols else 56.0) if single else 660 / size
    few = len(facts.buffers) <= 16
    tall = (min(max(pitch - 5, 18.0), 28.0) if view.cols else 26.0) if single else 26.0
    tall, lane = (tall, max(tall + 12, 34.0)) if few else (min(tall, 17.0), 23.0)
    scale = Scale(pitch, single, 5.0 if pitch > 20 else 1.5)
    shown = range(len(facts.buffers))
    devices = facts.source.devices
    label = lane_label_width(facts.spec, shown, lane - 4, devices) + 22
    long = max(size * pitch, 90.0)
    extra = max((_extra_width(buffer, view, scale) for buffer in facts.buffers), default=0.0)
    notes = [_note(facts, position, single) for position in shown]
    room = max((min(text_width(text, BODY, red), 340.0 if not red else 700.0) + 22 for text, red in notes if text), default=0.0)
    panel = mesh_panel(facts.spec.mesh, rank_hues(facts.spec, facts.buffers, facts.owned))
    room = min(room, 360.0)
    name, lines = layout_title(facts), head_lines(facts, (*view.rows, *view.cols))
    width = max(2 * EDGE + label + long + extra + room, head_width(name, lines, panel), 640.0)
    marks, y = head(name, lines, panel, width)
    left = EDGE + label
    if view.cols and size:
        marks += moved(axis_marks(facts.spec, view.cols[0], scale, size), left, y + 14)
        y += 26
    for position in shown:
        middle = y + lane / 2
        marks += moved(lane_labels(facts.spec, position, middle, lane - 4, devices), EDGE, 0)
        if view.cols and size:
            marks.append(Line(((left, middle), (left + long, middle)), "rule"))
        marks += moved(_lane(facts, view, position, scale, tall, long), left, middle - tall / 2)
        text, red = notes[position]
        if text:
            x = left + long + extra + 20
            most = 2 if red and lane > 30 else 1
            words = wrap(text, (width - x - EDGE) / (1.12 if red else 1), BODY, most)  # bold is wider than measured
            top = middle + 4 - 7 * (len(words) - 1)
            marks += [Text(x, top + 14 * i, line, BODY, "red" if red else "muted", bold=red) for i, line in enumerate(words)]
        y += lane
    key, tall = legend(layout_legend(facts), width - 2 * EDGE)
    marks += moved(key, EDGE, y + 22)
    return scene(width, y + 22 + tall + EDGE - 8, marks)


def _note(facts: Facts, position: int, single: bool) -> tuple[str, bool]:
    difference = facts.difference(position)
    if difference:
        return difference, True
    note, buffer = facts.note(position), facts.buffers[position]
    if single or not buffer.numel or buffer.cells is not None:
        return note, False
    return note if note.startswith(("same", "addend")) else f"{number(buffer.numel)}: {buffer_words(buffer, 3)}", False


def _lane(facts: Facts, view: View, position: int, scale: Scale, tall: float, long: float) -> list[Mark]:
    """What one rank holds, every element at its global place; slots that are no elements stand after the end."""
    buffer, rank = facts.buffers[position], facts.spec.mesh.ranks[position]
    report, red = facts.report(position), bool(facts.difference(position))
    outline = _reported(facts, view, report, scale, long, red) if report else []
    if not buffer.numel:
        empty = nothing(0, 0, tall)
        return moved(outline, 0, tall / 2) if outline else empty
    rows, cols = axes_of(buffer, view)
    placed: list[Placed] = []
    beyond = long + 14.0
    for piece in cols:
        parts = units([piece]) if scale.single else [piece]
        for part in parts:
            drawn = max(part.length * scale.pitch - (scale.gap if scale.single else 0.6), LEAST)
            if part.kind == "element":
                placed.append(Placed(part, min(part.start * scale.pitch, long - LEAST) if view.cols else 0.0, drawn))
            else:
                drawn = min(drawn, 60.0)
                placed.append(Placed(part, beyond, drawn))
                beyond += drawn + 3
    lanes = [Placed(rows[0], 0.0, tall)]
    marks = paint(lanes, placed, view, rank, buffer.pending)
    if report and not red:
        marks += [_outline(p.at, p.size, tall) for p in _joined(placed) if p.piece.kind == "element"]
    return marks + moved(outline if red else [], 0, tall / 2)


def _reported(facts: Facts, view: View, report: Report, scale: Scale, long: float, red: bool) -> list[Mark]:
    """An outline where torch says the rank's elements are, around the lane's middle."""
    if not red or report.error or not view.cols or 0 in report.shape:
        return []
    dim = view.cols[0]
    x = min(report.offset[dim] * scale.pitch, long - LEAST)
    wide = max(report.shape[dim] * scale.pitch - (scale.gap if scale.single else 0), LEAST)
    high = 36.0 if len(facts.buffers) <= 16 else 21.0
    return [Box(x - 3, -high / 2, wide + 6, high, stroke="red", line=2.0, radius=3)]


def _outline(x: float, width: float, tall: float) -> Box:
    return Box(x - 3, -4, width + 6, tall + 8, stroke="ink", line=1.1, radius=3)


def _joined(placed: Sequence[Placed]) -> Iterator[Placed]:
    """Neighbours that continue each other as one."""
    pending: Placed | None = None
    for here in placed:
        if pending and pending.piece.kind == here.piece.kind and pending.piece.stop == here.piece.start:
            piece = Piece(pending.piece.kind, pending.piece.start, here.piece.stop)
            pending = Placed(piece, pending.at, here.at + here.size - pending.at)
            continue
        if pending:
            yield pending
        pending = here
    if pending:
        yield pending


def _extra_width(buffer: Buffer, view: View, scale: Scale) -> float:
    if not view.cols:
        return 0.0
    runs = buffer.cells if buffer.cells is not None else buffer.axes[view.cols[0]]
    beyond = [run[1] - run[0] for run in runs if run[0] < 0]
    if scale.single:
        return 14 + sum(beyond) * (min(scale.pitch - scale.gap, 60.0) + 3) if beyond else 0.0
    return 14 + sum(min(count * scale.pitch, 60.0) + 3 for count in beyond) if beyond else 0.0
