"""Many ranks: how much each holds, where the parts lie, and the numbers in words."""

from __future__ import annotations

from collections.abc import Sequence

from shardviz.picture.facts import Piece
from shardviz.picture.layout_facts import Facts, head_lines, layout_title
from shardviz.picture.panels import Panel, below, lines, padded
from shardviz.picture.scene import Box, Cell, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_axis import axis_marks
from shardviz.picture.scene_grid import LEAST, Placed, Scale, View, axes_of, paint
from shardviz.picture.scene_map import map_panel
from shardviz.picture.scene_parts import EDGE, PAGE, head, rank_hues
from shardviz.picture.theme import BODY, HEADING, SMALL, clip, text_width, wrap
from shardviz.picture.words import number, plural, statistics

__all__ = ["overview_scene"]

MOST = 1024
"""The most ranks that have a mark of their own; more of them are sampled evenly."""

BUDGET = 24_000
"""The most marks of all lines together: a page with them is still light."""

LISTED = 12
"""The most disagreements that are put in words one by one."""

KEY = (
    "colour: the rank that holds it; eight hues, repeated in the order of the ranks. "
    "A mark has at least a width of three pixels, however little it stands for; "
    "where there are too many, near ones are drawn as one."
)


def overview_scene(facts: Facts, view: View) -> Scene:
    """A bar per rank in the shape of the mesh, a line per rank along the tensor, and statistics."""
    said = [*head_lines(facts, (*view.rows, *view.cols)), statistics(facts.buffers)]
    marks, y = head(layout_title(facts), said, Panel(), PAGE)
    title = "where each rank's part lies" if view.flat else "the whole tensor: which rank has which block"
    body = below(
        [
            padded(_differences(facts), bottom=14.0 if facts.differing else 0.0),
            padded(_bars(facts), bottom=34),
            padded(Panel((Text(0, 0, title, HEADING, bold=True),), PAGE - 2 * EDGE), bottom=22),
            _lines(facts, view) if view.flat else map_panel(facts, view, 640.0, 420.0),
            padded(lines(wrap(KEY, PAGE - 2 * EDGE, SMALL), SMALL, 13, "muted"), top=24),
        ]
    )
    return scene(PAGE, y + body.height + EDGE - 16, [*marks, *moved(body.marks, EDGE, y)])


def _differences(facts: Facts) -> Panel:
    """Every disagreement in words while they are few, the rest counted."""
    differing = facts.differing
    texts = [f"rank {facts.spec.mesh.ranks[position]} {facts.difference(position)}" for position in differing[:LISTED]]
    if len(differing) > LISTED:
        texts.append(f"and {plural(len(differing) - LISTED, 'rank')} more on which report and reality part")
    return lines([clip(text, PAGE - 2 * EDGE, BODY, True) for text in texts], BODY, 18, "red", bold=True)


def _bars(facts: Facts) -> Panel:
    """How much each rank holds: one bar per rank, in the rows and columns of the mesh's last two dimensions."""
    mesh, shown = facts.spec.mesh, _sampled(len(facts.buffers))
    across = max(mesh.sizes[-1], mesh.size // mesh.sizes[-1]) if mesh.ndim > 1 else mesh.size
    turned = mesh.ndim > 1 and across != mesh.sizes[-1]
    across = min(across, 128)
    most = max(1, max(buffer.numel for buffer in facts.buffers))
    columns = across if len(shown) == len(facts.buffers) else 128
    wide = (PAGE - 2 * EDGE - 90) / max(columns, 1)
    wide = min(wide, 26.0)
    down = -(-len(shown) // columns)
    tall = min(40.0, max(12.0, 200 / down))
    left = 78.0
    marks: list[Mark] = [Text(0, 0, "how much each rank holds", HEADING, bold=True)]
    note = f"full height: {plural(most, 'element')}; a dark mark: fewer, be it by one; a dashed box: nothing"
    marks.append(Text(text_width("how much each rank holds", HEADING, True) + 14, 0, note, SMALL, "muted"))
    top = 34.0
    differing = set(facts.differing)
    hues = rank_hues(facts.spec, facts.buffers, facts.owned)
    for place, position in enumerate(shown):
        row, col = divmod(place, columns)
        if turned and len(shown) == len(facts.buffers):
            col, row = divmod(position, mesh.sizes[-1])
            if col >= columns:
                row, col = row + mesh.sizes[-1] * (col // columns), col % columns
        x, y = left + col * wide, top + row * (tall + 5)
        marks += _bar(facts, position, hues[position], most, x, y, wide - min(2.0, wide * 0.3), tall)
        if position in differing:
            marks.append(Box(x - 1, y - 1, max(wide, LEAST), tall + 2, stroke="red", line=1.8, radius=1))
    rows = max(1, down) if not turned else mesh.sizes[-1] * -(-(mesh.size // mesh.sizes[-1]) // columns)
    name_across, name_down = (mesh.names[0], mesh.names[-1]) if turned else (mesh.names[-1], mesh.names[0])
    if len(shown) == len(facts.buffers):
        marks.append(Text(left, top - 7, f"{name_across} →" if mesh.ndim > 1 else "rank →", SMALL, "faint"))
        for row in range(min(rows, 64) if mesh.ndim == 2 else 0):
            label = f"{name_down} {row if rows == (mesh.sizes[-1] if turned else mesh.sizes[0]) else ''}"
            marks.append(Text(left - 8, top + row * (tall + 5) + tall / 2 + 3, label, SMALL, "faint", "end"))
    else:
        words = f"{number(len(shown))} of {plural(len(facts.buffers), 'rank')}, sampled evenly"
        marks.append(Text(left, top - 7, words, SMALL, "faint"))
    return Panel(tuple(marks), PAGE - 2 * EDGE, top + rows * (tall + 5))


def _bar(facts: Facts, position: int, hue: int, most: int, x: float, y: float, wide: float, tall: float) -> list[Mark]:
    held, rank = facts.buffers[position].numel, facts.spec.mesh.ranks[position]
    if not held:
        return [Box(x, y, wide, tall, stroke="faint", line=0.7, dashed=True, radius=1)]
    high = max(tall * held / most, LEAST)
    label = str(rank) if text_width(str(rank), SMALL, True) < wide - 3 and high > 12 else ""
    marks: list[Mark] = [
        Box(x, y, wide, tall, fill="panel", radius=1),
        Cell(x, y + tall - high, wide, high, "element", hue, label, rank=rank, size=SMALL),
    ]
    if held < most:
        marks.append(Box(x, y + tall - high - 1, wide, LEAST, fill="ink", radius=0))
    return marks


def _lines(facts: Facts, view: View) -> Panel:
    """One thin line per rank: where along the dimension its elements lie."""
    shown = _sampled(len(facts.buffers))
    size = facts.spec.shape[view.cols[0]] if view.cols else 1
    left, long = 78.0, PAGE - 2 * EDGE - 84.0
    if not size:
        return Panel(tuple(nothing_anywhere()), 100, 20)
    scale = Scale(long / size, False)
    pitch = max(0.75, min(9.0, 620 / len(shown)))
    tall = max(pitch, 1.8) if pitch < 2.5 else pitch - 1.2
    marks: list[Mark] = moved(axis_marks(facts.spec, view.cols[0], scale, size), left, 6) if view.cols else []
    top = 20.0
    marks.append(Box(left, top, long, pitch * len(shown), fill="panel", radius=2))
    every = next(2**k for k in range(20) if 2**k * pitch >= 14)
    for place, position in enumerate(shown):
        y, rank, buffer = top + place * pitch, facts.spec.mesh.ranks[position], facts.buffers[position]
        if place % every == 0:
            marks.append(Text(left - 8, y + tall / 2 + 3, f"rank {rank}", 8.5, "faint", "end"))
        if not buffer.numel:
            continue
        _, cols = axes_of(buffer, view)
        placed = _merged([p for p in cols if p.kind == "element"], scale.pitch, long, long * len(shown) / BUDGET)
        cells = paint([Placed(Piece("element", 0, 1), y, tall)], placed, view, rank, buffer.pending)
        marks += moved([_bare(cell) for cell in cells if isinstance(cell, Cell)], left, 0)
    lines = {position: top + place * pitch for place, position in enumerate(shown)}
    for position in facts.differing:
        if position in lines:
            y, high = lines[position], max(tall, LEAST)
            marks += [Box(x, y, 4, high, fill="red", radius=0) for x in (left - 5, left + long + 1)]
            report = facts.report(position)
            if report and not report.error and 0 not in report.shape and view.cols:
                x = min(report.offset[view.cols[0]] * scale.pitch, long - LEAST)
                wide = max(report.shape[view.cols[0]] * scale.pitch, LEAST)
                marks.append(Box(left + x, y, wide, high, stroke="red", line=1.2, radius=1))
    return Panel(tuple(marks), left + long, top + pitch * len(shown) + 6)


def nothing_anywhere() -> list[Mark]:
    """A tensor without elements."""
    return [Text(78.0, 14, "nothing: the tensor has no elements", BODY, "muted")]


def _merged(pieces: Sequence[Piece], pitch: float, long: float, near: float) -> list[Placed]:
    """Pieces at their global places; where there are too many to draw, near ones become one mark from the first to the last."""
    found: list[Placed] = []
    crowded = len(pieces) * near > long
    for piece in sorted(pieces, key=lambda p: p.start):
        at, size = min(piece.start * pitch, long - LEAST), max(piece.length * pitch, LEAST)
        if crowded and found and at - (found[-1].at + found[-1].size) < near:
            last = found[-1]
            found[-1] = Placed(Piece("element", last.piece.start, piece.stop), last.at, at + size - last.at)
        else:
            found.append(Placed(piece, at, size))
    return found


def _bare(cell: Cell) -> Cell:
    return Cell(cell.x, cell.y, cell.width, cell.height, cell.kind, cell.hue, "", "", cell.rank, cell.span)


def _sampled(count: int) -> list[int]:
    return list(range(count)) if count <= MOST else [i * count // MOST for i in range(MOST)]
