"""Tensors cut on several dimensions: the whole one in blocks by owner, and a card with the local tensor of each rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardviz.picture.facts import coordinate_text
from shardviz.picture.layout_facts import Facts, head_lines, layout_legend, layout_title
from shardviz.picture.panels import Panel
from shardviz.picture.scene import Mark, Scene, Text, moved, scene
from shardviz.picture.scene_grid import STACK, Placed, Scale, View, axes_of, headers, nothing, paint, place
from shardviz.picture.scene_map import extent, map_panel, spaced
from shardviz.picture.scene_mesh import mesh_panel
from shardviz.picture.scene_parts import EDGE, PAGE, head, head_width, legend, rank_hues
from shardviz.picture.theme import HEADING, LABEL, SMALL, clip, text_width, wrap

FACETS = 12
"""The most leading indices that are drawn one below another."""

GAP = 26.0


def facet_dims(facts: Facts, dims: Sequence[int]) -> tuple[int, ...]:
    """The dimensions to draw: all of them while the leading ones are few, else those that tell ranks apart and one more."""
    ndim = facts.spec.ndim
    if math.prod(facts.spec.shape[:-2]) <= FACETS:
        return tuple(range(ndim))
    kept = set(dims)
    for dim in range(ndim - 1, -1, -1):
        if len(kept) < 2:
            kept.add(dim)
    return tuple(sorted(kept))


def cards_scene(facts: Facts, view: View) -> Scene:
    """The whole tensor by owner, and a card per rank."""
    whole = map_panel(facts, view, 330.0, 300.0)
    mesh = mesh_panel(facts.spec.mesh, rank_hues(facts.spec, facts.buffers, facts.owned))
    cards = [_card(facts, view, position, _scales(facts, view)) for position in range(len(facts.buffers))]
    across = max(card.width for card in cards) + GAP
    left = EDGE + max(whole.width, 150.0) + 44
    fit = max(1, int((PAGE - left - EDGE + GAP) // across))
    inner = facts.spec.mesh.sizes[-1]
    columns = min(len(cards), inner if inner <= fit and facts.spec.mesh.ndim > 1 and inner > 1 else fit)
    lines = head_lines(facts, (*view.rows, *view.cols))
    if len(view.rows) > 1:
        lines.append(f"downwards: dimensions {', '.join(map(str, view.rows))} · across: dimension {view.cols[0]}")
    width = max(left + columns * across - GAP + EDGE, head_width(layout_title(facts), lines, mesh), 640.0)
    marks, y = head(layout_title(facts), lines, mesh, width)
    marks.append(Text(EDGE, y + 8, "the whole tensor", HEADING, bold=True))
    marks.append(Text(EDGE, y + 24, "which rank has which block", SMALL, "muted"))
    marks.append(Text(left, y + 8, "each rank's own part", HEADING, bold=True))
    marks.append(Text(left, y + 24, "by global index", SMALL, "muted"))
    y += 44
    marks += moved(whole.marks, EDGE, y)
    bottom = y + whole.height
    for first in range(0, len(cards), columns):
        row = cards[first : first + columns]
        for column, card in enumerate(row):
            marks += moved(card.marks, left + column * across, y)
        y += max(card.height for card in row) + 20
    key, tall = legend(layout_legend(facts), width - 2 * EDGE)
    y = max(y, bottom + 16)
    marks += moved(key, EDGE, y + 6)
    return scene(width, y + 6 + tall + EDGE - 8, marks)


def _scales(facts: Facts, view: View) -> tuple[Scale, Scale]:
    """The scale of all cards, across and downwards."""
    wide = tall = 1
    for buffer in facts.buffers:
        if buffer.numel and buffer.cells is None:
            rows, cols = axes_of(buffer, view)
            wide, tall = max(wide, extent(cols)), max(tall, extent(rows))
    room_x, room_y = (190.0, 150.0) if len(facts.buffers) <= 8 else (120.0, 90.0)
    pitch = min(26.0, room_x / wide, room_y * (1.4 if tall <= 16 else 1) / tall)
    if pitch >= 9:
        scale = Scale(pitch, True, 2.0 if pitch > 14 else 1.0)
        return scale, scale
    return Scale(min(26.0, room_x / wide), False), Scale(min(26.0, room_y / tall), False)


def _card(facts: Facts, view: View, position: int, scales: tuple[Scale, Scale]) -> Panel:
    """One rank: its name, its coordinate, what is to be said of it, and its local tensor."""
    buffer, rank = facts.buffers[position], facts.spec.mesh.ranks[position]
    place_text = coordinate_text(facts.spec, position)
    if len(set(facts.source.devices)) > 1:
        place_text += f" · {facts.source.devices[position]}"
    marks: list[Mark] = [Text(0, 10, f"rank {rank}", LABEL, bold=True)]
    marks.append(Text(text_width(f"rank {rank}", LABEL, True) + 8, 10, place_text, SMALL - 0.5, "muted"))
    width = text_width(f"rank {rank}", LABEL, True) + 8 + text_width(place_text, SMALL - 0.5)
    difference = facts.difference(position)
    lines = wrap(difference, 190, SMALL, 4) if difference else (clip(facts.note(position), 230, SMALL),)
    y = 25.0
    for line in lines:
        marks.append(Text(0, y, line, SMALL, "red" if difference else "muted", bold=bool(difference)))
        width = max(width, text_width(line, SMALL, bool(difference)))
        y += 13
    y += 4
    if not buffer.numel:
        return Panel((*marks, *nothing(0, y, 20)), width, y + 20)
    rows, cols = axes_of(buffer, view)
    across, down = scales
    placed_cols = place(cols, across)
    flat = buffer.cells is not None
    placed_rows = [Placed(rows[0], 0.0, 18.0)] if flat else spaced(place(rows, down))
    grid = paint(placed_rows, placed_cols, view, rank, buffer.pending, flat)
    names = [] if flat else headers(placed_rows, placed_cols, bool(buffer.pending))
    left = max((8 + text_width(m.text, m.size) for m in names if isinstance(m, Text) and m.anchor == "end"), default=0.0)
    stack = STACK if buffer.pending else 0.0
    marks += moved([*grid, *names], left, y + 8 + stack)
    width = max(width, left + placed_cols[-1].at + placed_cols[-1].size + stack)
    return Panel(tuple(marks), width, y + 8 + stack + placed_rows[-1].at + placed_rows[-1].size)
