"""One buffer as cells: a row of them, a grid, or runs in proportion to their length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer
from shardviz.picture.facts import Owners, Piece, axis_pieces, flat_pieces, units, unraveled
from shardviz.picture.scene import Box, Cell, CellKind, Mark, Text
from shardviz.picture.theme import SMALL, text_width

__all__ = ["LEAST", "Placed", "Scale", "View", "axes_of", "headers", "nothing", "paint", "place"]

STACK = 12.0
"""How far a stack of addends stands out."""

LEAST = 3.0
"""The least width of a mark: one row of fifty thousand is still seen."""


@dataclass(frozen=True)
class View:
    """What is drawn of a tensor's buffers: the dimensions `rows` downwards and `cols` across, coloured by owner."""

    spec: Spec
    owned: Owners
    rows: tuple[int, ...]
    cols: tuple[int, ...]

    @classmethod
    def of(cls, spec: Spec, owned: Owners, dims: Sequence[int]) -> View:
        """The last of the dimensions across, the ones before it downwards."""
        return cls(spec, owned, tuple(dims[:-1]), tuple(dims[-1:]))

    @property
    def flat(self) -> bool:
        """Whether a buffer is one row of cells."""
        return not self.rows


@dataclass(frozen=True)
class Scale:
    """Pixels per slot. `single` draws one cell per slot with a gap after it; else runs, in proportion to their length."""

    pitch: float
    single: bool
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece and its place along an axis."""

    piece: Piece
    at: float
    size: float


def axes_of(buffer: Buffer, view: View) -> tuple[list[Piece], list[Piece]]:
    """The pieces of a buffer downwards and across."""
    if buffer.cells is not None:
        if view.spec.ndim == 1:
            return [Piece("element", 0, 1)], axis_pieces(Buffer((buffer.cells,), buffer.shape), view.cols, view.owned)
        return [Piece("element", 0, 1)], flat_pieces(buffer, view.spec.shape, view.owned)
    return axis_pieces(buffer, view.rows, view.owned), axis_pieces(buffer, view.cols, view.owned)


def place(pieces: Sequence[Piece], scale: Scale, apart: float = LEAST) -> list[Placed]:
    """Pieces side by side. Runs keep a least size, taken from the long ones; very many are thinned to stand `apart`."""
    if scale.single:
        return [Placed(p, i * scale.pitch, scale.pitch - scale.gap) for i, p in enumerate(units(pieces))]
    total = sum(p.length for p in pieces) * scale.pitch
    sizes = [p.length * scale.pitch for p in pieces]
    if len(pieces) * apart > max(total, 24.0):
        left_out = -(-len(pieces) // max(8, int(total / apart))) | 1  # an odd step meets the pieces of all ranks in turn
        pieces = _thinned(pieces, max(8, len(pieces) // left_out))
        sizes = [total / len(pieces)] * len(pieces)
    missing = sum(max(0.0, LEAST - size) for size in sizes)
    spare = sum(max(0.0, size - LEAST) for size in sizes)
    keep = max(0.0, 1 - missing / spare) if spare else 0.0
    placed, at = [], 0.0
    for piece, size in zip(pieces, sizes, strict=True):
        drawn = LEAST + (size - LEAST) * keep if size > LEAST else LEAST
        placed.append(Placed(piece, at, drawn))
        at += drawn
    return placed


def paint(
    rows: Sequence[Placed],
    cols: Sequence[Placed],
    view: View,
    rank: int,
    pending: Sequence[int] = (),
    flat: bool = False,
    step: int = -1,
) -> list[Mark]:
    """The cells of one buffer, its first corner at the origin.

    Args:
        rows: pieces placed downwards.
        cols: pieces placed across.
        view: what is drawn.
        rank: whose buffer it is.
        pending: mesh dimensions over which it holds an addend.
        flat: whether `cols` are flat indices, of a buffer that is no product of dimensions.
        step: of a story, the number of the step.
    """
    kind: CellKind = "addend" if pending else "sum" if view.owned.pending else "element"
    own = not view.owned.pending - set(pending)  # made of no other rank's addends
    cells: list[Mark] = [_cell(row, col, view, (rank, step), (kind, own), flat) for row in rows for col in cols]
    addends = math.prod(view.spec.mesh.sizes[m] for m in pending)
    return cells if addends < 2 else [*_sheets(rows, cols, min(addends, 4)), *cells]


def nothing(x: float, y: float, height: float) -> list[Mark]:
    """An empty rank: drawn as empty, in words."""
    tall = min(height, 20.0)
    y += (height - tall) / 2
    width = text_width("nothing", SMALL) + 14
    return [
        Box(x, y, width, tall, fill="surface", stroke="faint", dashed=True),
        Text(x + width / 2, y + tall / 2 + SMALL * 0.36, "nothing", SMALL, "muted", "middle"),
    ]


def headers(rows: Sequence[Placed], cols: Sequence[Placed], pending: bool = False) -> list[Mark]:
    """Global indices along the top and the left of a grid, where there is room for them; above the stack of a pending sum."""
    marks: list[Mark] = []
    size, lift = 7.5, STACK if pending else 0.0
    for placed in cols:
        label = _header(placed)
        if label and text_width(label, size) <= placed.size + 1:
            marks.append(Text(placed.at + placed.size / 2, -3 - lift, label, size, "faint", "middle"))
    for placed in rows:
        label = _header(placed)
        if label and size <= placed.size + 1:
            marks.append(Text(-4 - lift / 4, placed.at + placed.size / 2 + size * 0.36, label, size, "faint", "end"))
    return marks


def _cell(row: Placed, col: Placed, view: View, at: tuple[int, int], filled: tuple[CellKind, bool], flat: bool) -> Cell:
    rank, step = at
    span = col.piece.span if view.flat or flat or not view.cols else (*row.piece.span, *col.piece.span)
    kinds = {row.piece.kind, col.piece.kind}
    kind = next((k for k in ("padding", "unknown") if k in kinds), "element")
    if kind != "element":
        label = "?" if kind == "unknown" and col.size >= 9 else ""
        hole: CellKind = "padding" if kind == "padding" else "unknown"
        return Cell(col.at, row.at, col.size, row.size, hole, label=label, rank=rank, step=step)
    owner = None if not filled[1] else rank if filled[0] == "addend" else _owner(row.piece, col.piece, view, flat)
    note = f"r{owner}" if view.owned.many and owner is not None and owner != rank else ""
    label, size = _label(row, col, view, flat)
    if note and (row.size < 21 or col.size < text_width(note, 7) + 2 or "\n" in label):
        note = ""
    return Cell(
        col.at,
        row.at,
        col.size,
        row.size,
        filled[0],
        view.owned.hue(owner),
        label,
        note,
        rank,
        span,
        size,
        step,
    )


def _owner(row: Piece, col: Piece, view: View, flat: bool) -> int | None:
    if flat:
        return view.owned.of(unraveled(col.start, view.spec.shape))
    index = [0] * view.spec.ndim
    for dims, piece in ((view.rows, row), (view.cols, col)):
        for dim, i in zip(dims, (*(start for start, _ in piece.leading), piece.start), strict=bool(dims)):
            index[dim] = i
    return view.owned.of(index)


def _label(row: Placed, col: Placed, view: View, flat: bool) -> tuple[str, float]:
    """The label that fits a cell, and its size."""
    if not view.cols:
        return "scalar", 9.0
    piece = col.piece
    if not (view.flat or flat):
        if piece.length > 1 or row.piece.length > 1:
            return "", 8.0
        text = ",".join(map(str, (*(start for start, _ in row.piece.leading), row.piece.start, piece.start)))
        return (text, 9.0) if text_width(text, 9.0, True) <= col.size - 3 and row.size >= 18 else ("", 8.0)
    one = piece.length == 1
    texts = [str(piece.start)] if one else [f"{piece.start}-{piece.stop - 1}"]
    if not one and row.size >= 21:
        texts.append(f"{piece.start}-\n{piece.stop - 1}")
    for text in texts:
        for size in (11.0, 10.0, 9.0, 8.0, 7.5):
            if size + 1 <= row.size and max(text_width(t, size, True) for t in text.split("\n")) <= col.size - 1.5:
                if "\n" in text and size > 8.5:
                    continue
                return text, size
    return "", 8.0


def _thinned(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """The pieces at evenly spaced places: what can be told apart of very many."""
    step = sum(p.length for p in pieces) / most
    found: list[Piece] = []
    end = 0
    for piece in pieces:
        end += piece.length
        while len(found) < most and len(found) * step < end:
            found.append(piece)
    return found


def _header(placed: Placed) -> str:
    piece = placed.piece
    if piece.kind != "element":
        return ""
    runs = (*piece.leading, (piece.start, piece.stop))
    return ",".join(str(start) if stop - start == 1 else f"{start}-{stop - 1}" for start, stop in runs)


def _sheets(rows: Sequence[Placed], cols: Sequence[Placed], count: int) -> list[Mark]:
    """A stack of sheets, one per addend up to four, under the cells of the one that this rank holds."""
    marks: list[Mark] = []
    top, bottom = rows[0].at, rows[-1].at + rows[-1].size
    first = 0
    for last in range(len(cols)):
        end = cols[last].at + cols[last].size
        if last + 1 < len(cols) and cols[last + 1].at - end < 8:
            continue
        x, wide = cols[first].at - 2.5, end - cols[first].at + 5
        marks += [
            Box(x + 3 * k, top - 2.5 - 3 * k, wide, bottom - top + 5, fill="surface", stroke="faint", line=0.9)
            for k in range(count - 1, -1, -1)
        ]
        first = last + 1
    return marks
