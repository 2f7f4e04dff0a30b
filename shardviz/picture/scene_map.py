"""The whole tensor in blocks by owner."""

from __future__ import annotations

from collections.abc import Sequence

from shardviz.core.trace import whole_buffer
from shardviz.picture.facts import Piece
from shardviz.picture.layout_facts import Facts
from shardviz.picture.panels import Panel
from shardviz.picture.scene import Box, Cell, Mark, Text, moved
from shardviz.picture.scene_grid import LEAST, STACK, Placed, Scale, View, axes_of, headers, nothing, paint, place
from shardviz.picture.theme import LABEL, SMALL, text_width

MOST_BLOCKS, COARSE = 12_000, 4.8
"""The most blocks of a map; more of them are thinned until they stand so far apart."""


def map_panel(facts: Facts, view: View, wide: float, tall: float) -> Panel:
    """The whole tensor in blocks that each have one owner, with the numbers of all ranks that hold them."""
    whole = whole_buffer(facts.spec.shape)
    if not facts.spec.numel:
        return Panel(tuple(nothing(0, 0, 20)), 80, 20)
    rows, cols = axes_of(whole, view)
    down, across = extent(rows), extent(cols)
    apart = LEAST if len(rows) * len(cols) <= MOST_BLOCKS else COARSE
    placed_rows = spaced(place(rows, Scale(min(26.0, tall / down), False), apart))
    placed_cols = place(cols, Scale(min(26.0, wide / across), False), apart)
    pending = facts.buffers[0].pending
    blocks = paint(placed_rows, placed_cols, view, facts.spec.mesh.ranks[0], pending)
    marks: list[Mark] = [_block(facts, view, mark) if isinstance(mark, Cell) else mark for mark in blocks]
    names = headers(placed_rows, placed_cols, bool(pending))
    left = 8 + max((text_width(m.text, m.size) for m in names if isinstance(m, Text) and m.anchor == "end"), default=0.0)
    marks += [*names, *_claims(facts, view, placed_rows, placed_cols)]
    width = left + placed_cols[-1].at + placed_cols[-1].size
    top = 6 + STACK * bool(pending)
    return Panel(tuple(moved(marks, left, top)), width, placed_rows[-1].at + placed_rows[-1].size + top)


def _block(facts: Facts, view: View, cell: Cell) -> Cell:
    """A block with the numbers of the ranks that hold it."""
    index = [0] * facts.spec.ndim
    for dim, start in zip((*view.rows, *view.cols), cell.span[::2], strict=True):
        index[dim] = start
    if min(cell.width, cell.height) < 9:
        return _with(cell, "", 8.0, ())
    ranks = facts.owned.all_of(index)
    pending = any(buffer.pending for buffer in facts.buffers)
    sign = " + " if pending else ", "
    for text in (f"rank{'s' * (len(ranks) > 1)} " + sign.join(map(str, ranks)), sign.join(map(str, ranks))):
        for size in (LABEL, SMALL, 8.0):
            if text_width(text, size, True) <= cell.width - 4 and size + 1 <= cell.height:
                return _with(cell, text, size, ranks)
    return _with(cell, "", 8.0, ranks)


def _with(cell: Cell, label: str, size: float, ranks: Sequence[int]) -> Cell:
    rank = ranks[0] if ranks else -1
    return Cell(cell.x, cell.y, cell.width - 1.5, cell.height - 1.5, cell.kind, cell.hue, label, "", rank, cell.span, size)


def _claims(facts: Facts, view: View, rows: Sequence[Placed], cols: Sequence[Placed]) -> list[Mark]:
    """Red outlines where torch reports parts that their ranks do not hold."""
    marks: list[Mark] = []
    if len(view.rows) != 1:
        return marks
    for position in facts.differing:
        report = facts.report(position)
        if report is None or report.error or 0 in report.shape:
            continue
        (y, tall), (x, wide) = (
            _stretch(placed, report.offset[dim], report.offset[dim] + report.shape[dim])
            for placed, dim in ((rows, view.rows[0]), (cols, view.cols[0]))
        )
        marks.append(Box(x - 1.5, y - 1.5, wide + 3, tall + 3, stroke="red", line=2, radius=3))
    return marks


def _stretch(placed: Sequence[Placed], start: int, stop: int) -> tuple[float, float]:
    """Place and size of a stretch of indices along a placed axis."""
    low = high = 0.0
    for here in placed:
        scale = here.size / max(here.piece.length, 1)
        if here.piece.start <= start < here.piece.stop:
            low = here.at + (start - here.piece.start) * scale
        if here.piece.start < stop <= here.piece.stop:
            high = here.at + (stop - here.piece.start) * scale
    return low, max(high - low, LEAST)


def spaced(rows: list[Placed]) -> list[Placed]:
    """Rows with a gap wherever a leading index changes: one facet below the other."""
    found: list[Placed] = []
    shift = 0.0
    for before, here in zip([None, *rows], rows, strict=False):
        if before and before.piece.leading != here.piece.leading:
            shift += 8.0
        found.append(Placed(here.piece, here.at + shift, here.size))
    return found


def extent(pieces: Sequence[Piece]) -> int:
    """How many slots pieces have, at least one."""
    return max(1, sum(piece.length for piece in pieces))
