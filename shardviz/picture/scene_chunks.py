"""The map of a tensor in a checkpoint: chunks as boxes over the global shape, what is missing and what is promised twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from shardviz.picture.drawn import Table
from shardviz.picture.panels import Panel, below, padded
from shardviz.picture.picture import Picture
from shardviz.picture.scene import Box, Cell, CellKind, Mark, Text, scene
from shardviz.picture.theme import BODY, HUES, LABEL, TITLE, clip, text_width

__all__ = ["ChunkMap", "MappedChunk", "Region", "draw_chunks"]

_EDGE, _WIDTH = 26.0, 1076.0
_STRIP, _TALL = 52.0, 420.0
"""Height of a tensor that is not cut into rows, and of one that is cut into many."""
_MOST_CELLS = 1500
_MOST_NOTES = 12

Region = tuple[tuple[int, ...], tuple[int, ...]]
"""Offset and size of a box of elements."""


@dataclass(frozen=True)
class MappedChunk:
    """A chunk on the map.

    Attributes:
        offset: global index of its first element, as promised.
        size: its size, as promised.
        stored: number of elements really stored.
        right: whether what is stored has the promised shape.
        rank: the rank that wrote it; −1 where that is not known.
        file: the file it is in.
        holds: the elements that it really holds, where these are not the promised ones and can be told.
    """

    offset: tuple[int, ...]
    size: tuple[int, ...]
    stored: int
    right: bool
    rank: int
    file: str
    holds: Region | None = None

    @property
    def promised(self) -> int:
        """Number of elements promised."""
        return math.prod(self.size)


@dataclass(frozen=True)
class ChunkMap:
    """A tensor on the map: its name, shape and dtype, its chunks, and the regions that are missing or promised twice."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[MappedChunk, ...]
    gaps: tuple[Region, ...]
    overlaps: tuple[Region, ...]
    missing: int
    overlapping: int

    @property
    def verdict(self) -> str:
        """What is wrong with it, in words."""
        wrong = sum(not chunk.right for chunk in self.chunks)
        parts = [
            f"{self.missing:,} of {_count(math.prod(self.shape))} missing" if self.missing else "",
            f"{_count(self.overlapping)} promised twice" if self.overlapping else "",
            f"{wrong} of {len(self.chunks)} chunks hold other than they promise" if wrong else "",
        ]
        return "; ".join(part for part in parts if part) or "whole"


def draw_chunks(maps: Sequence[ChunkMap]) -> Picture:
    """Draw tensors one above the other.

    Args:
        maps: one or more, each with at least its shape.
    """
    body = padded(below(map(_drawn, maps), _EDGE), _EDGE, _EDGE, _EDGE)
    first = maps[0]
    shape = tuple(first.shape[dim] for dim in _dims(first))
    return Picture(scene(_WIDTH, body.height, body.marks), first.name, "\n".join(map(_words, maps)), _table(maps), shape=shape)


def _drawn(chunk_map: ChunkMap) -> Panel:
    room = _WIDTH - 2 * _EDGE
    broken = chunk_map.verdict != "whole"
    count = len(chunk_map.chunks)
    about = f"[{', '.join(map(str, chunk_map.shape))}] {chunk_map.dtype}, {count:,} chunk{'s' * (count != 1)}"
    marks: list[Mark] = [
        Text(0, 14, clip(chunk_map.name, room, TITLE, True), TITLE, bold=True),
        Text(0, 34, clip(about, room, BODY), BODY, "muted"),
        Text(0, 52, clip(chunk_map.verdict, room, BODY, broken), BODY, "red" if broken else "muted", bold=broken),
    ]
    top = 72.0
    dims = _dims(chunk_map)
    columns = _Axis(chunk_map, dims[-1] if dims else None, room - 4)
    rows = _Axis(chunk_map, dims[0] if len(dims) == 2 else None, _TALL, _STRIP)
    tall = rows.length if len(dims) == 2 else _STRIP
    marks.append(Box(0, top, columns.length, tall, None, "rule"))
    strays = [chunk for chunk in chunk_map.chunks if chunk.holds][:_MOST_CELLS]
    held = {chunk.holds for chunk in strays}
    for chunk in chunk_map.chunks[:_MOST_CELLS]:
        if chunk.promised:
            frame = _place(chunk.offset, chunk.size, dims, columns, rows, top, tall)
            marks += _chunk_marks(chunk, frame, dims, (chunk.offset, chunk.size) in held)
    for chunk in strays:
        if chunk.holds:
            marks += _stray_marks(chunk, chunk.holds, _place(*chunk.holds, dims, columns, rows, top, tall), dims)
    outlined = {(chunk.offset, chunk.size) for chunk in chunk_map.chunks if not chunk.right}
    for region, missing in [(gap, True) for gap in chunk_map.gaps] + [(overlap, False) for overlap in chunk_map.overlaps]:
        if region not in outlined:
            x, y, width, height = _place(*region, dims, columns, rows, top, tall)
            marks.append(Box(x, y, max(width, 5.0), max(height, 5.0), None, "red", 2.0, missing, 1.0))
    y = top + tall
    for note in _notes(chunk_map, dims):
        y += 18
        marks.append(Text(0, y + 4, clip(note, room, LABEL), LABEL, "red" if note.startswith("chunk") else "muted"))
    return Panel(tuple(marks), room, y)


class _Axis:
    """Where indices of one tensor dimension lie: proportional, but every piece between two edges keeps a least width.

    Args:
        chunk_map: the tensor.
        dim: the dimension; None for an axis of one piece.
        length: how long the axis is.
        each: how long it is per piece, where that makes it shorter.
    """

    def __init__(self, chunk_map: ChunkMap, dim: int | None, length: float, each: float = math.inf) -> None:
        self.places = {0: 0.0, 1: length}
        self.length = length
        if dim is None:
            return
        size = chunk_map.shape[dim]
        edges = sorted(
            {0, size}
            | {edge for c in chunk_map.chunks if c.promised for edge in (c.offset[dim], c.offset[dim] + c.size[dim])}
            | {edge for offset, extent in chunk_map.gaps for edge in (offset[dim], offset[dim] + extent[dim])}
            | {edge for c in chunk_map.chunks if c.holds for edge in (c.holds[0][dim], c.holds[0][dim] + c.holds[1][dim])}
        )
        pieces = list(pairwise(edges))
        self.length = length = min(length, each * max(len(pieces), 1))
        least = min(16.0, length / max(len(pieces), 1))
        free = length - least * len(pieces)
        place = 0.0
        self.places = {0: 0.0}
        for low, high in pieces:
            place += least + free * (high - low) / max(size, 1)
            self.places[high] = place

    def at(self, index: int) -> float:
        """Where an edge lies."""
        return self.places.get(index, self.length)


_Frame = tuple[float, float, float, float]
"""Left, top, width and height."""


def _chunk_marks(chunk: MappedChunk, frame: _Frame, dims: Sequence[int], shared: bool) -> list[Mark]:
    """A chunk where it is promised: filled, or dashed where nothing is stored; in the upper half where it is `shared`."""
    x, y, width, height = frame
    tall = height / 2 if shared else height
    rank = f"rank {chunk.rank}" if chunk.rank >= 0 else ""
    where = _region(chunk.offset, chunk.size)
    labels = [f"{rank}\n{where}", rank, str(chunk.rank) if rank else where]
    if not chunk.stored:
        who = rank or "its file"
        labels = [f"{where}: {who} stores nothing", f"{who} stores nothing", f"{who}: nothing", f"{who}: –", "–"]
    marks: list[Mark] = [_cell(chunk, (chunk.offset, chunk.size), (x, y, width, tall), dims, labels)]
    if not chunk.right:
        marks.append(Box(x, y, max(width, 5.0), max(height, 5.0), None, "red", 2.0, False, 1.0))
    return marks


def _stray_marks(chunk: MappedChunk, holds: Region, frame: _Frame, dims: Sequence[int]) -> list[Mark]:
    """A chunk where its elements really belong, below what is promised there."""
    x, y, width, height = frame
    rank = f"rank {chunk.rank}" if chunk.rank >= 0 else "another"
    labels = (f"{_region(*holds)}: really in {rank}'s file", f"in {rank}'s file", f"in {rank}'s", rank)
    return [_cell(chunk, holds, (x + 2, y + height / 2, width - 4, height / 2 - 2), dims, labels)]


def _cell(chunk: MappedChunk, region: Region, frame: _Frame, dims: Sequence[int], labels: Sequence[str]) -> Cell:
    x, y, width, height = frame
    kind: CellKind = "element" if chunk.stored else "unknown"
    rank = chunk.rank if chunk.stored else -1
    hue = rank % len(HUES) if rank >= 0 else -1
    label = next((text for text in labels if _fits(text, width, height)), "")
    span = tuple(edge for dim in dims for edge in (region[0][dim], region[0][dim] + region[1][dim]))
    return Cell(x + 0.5, y + 0.5, max(width - 1, 0.8), max(height - 1, 0.8), kind, hue, label, "", rank, span)


def _fits(label: str, width: float, height: float) -> bool:
    lines = label.split("\n")
    return max(text_width(line, LABEL, True) for line in lines) + 6 <= width and len(lines) * 13 <= height


def _place(
    offset: Sequence[int], size: Sequence[int], dims: Sequence[int], columns: _Axis, rows: _Axis, top: float, tall: float
) -> _Frame:
    """Where a box of elements lies."""
    x, y, width, height = 0.0, top, columns.length, tall
    if dims:
        x, width = columns.at(offset[dims[-1]]), columns.at(offset[dims[-1]] + size[dims[-1]])
        width -= x
    if len(dims) == 2:
        y, height = rows.at(offset[dims[0]]), rows.at(offset[dims[0]] + size[dims[0]])
        height, y = height - y, y + top
    return x, y, width, height


def _dims(chunk_map: ChunkMap) -> tuple[int, ...]:
    """The tensor dimensions that are drawn, two at most: those that are cut before the others, in their order."""
    sizes = [chunk.size for chunk in chunk_map.chunks if chunk.promised]
    cut = [dim for dim, whole in enumerate(chunk_map.shape) if any(size[dim] < whole for size in sizes)]
    rest = [dim for dim in range(len(chunk_map.shape)) if dim not in cut]
    return tuple(sorted((cut + rest)[:2]))


def _notes(chunk_map: ChunkMap, dims: Sequence[int]) -> list[str]:
    """What the boxes cannot say."""
    wrong = [chunk for chunk in chunk_map.chunks if not chunk.right or chunk.holds]
    notes = [f"chunk at {_index(chunk.offset)}: {_said(chunk)}" for chunk in wrong[:_MOST_NOTES]]
    if len(wrong) > _MOST_NOTES:
        notes.append(f"chunks that hold other than they promise: {len(wrong) - _MOST_NOTES} more, in the table")
    if len(chunk_map.shape) > 2:
        notes.append(f"drawn: tensor dimensions {' and '.join(map(str, dims))} of {len(chunk_map.shape)}")
    empty = sum(not c.promised and c.right for c in chunk_map.chunks)
    if empty:
        notes.append(f"{empty} empty chunk{'s' * (empty > 1)} at the end, which is normal")
    if len(chunk_map.chunks) > _MOST_CELLS:
        notes.append(f"the first {_MOST_CELLS} chunks are drawn")
    return notes


def _said(chunk: MappedChunk) -> str:
    """What a chunk promises, and what is there instead."""
    said = f"promises {chunk.promised:,}, stores {chunk.stored:,}" + (f" in {chunk.file}" if chunk.file else "")
    return f"{said}, which {'is' if chunk.stored == 1 else 'are'} {_region(*chunk.holds)}" if chunk.holds else said


def _count(elements: int) -> str:
    return f"{elements:,} element{'s' * (elements != 1)}"


def _region(offset: Sequence[int], size: Sequence[int]) -> str:
    """The global indices of a box."""
    runs = [str(low) if count == 1 else f"{low}-{low + count - 1}" for low, count in zip(offset, size, strict=True)]
    return runs[0] if len(runs) == 1 else f"({', '.join(runs)})" if runs else "the one element"


def _index(offset: Sequence[int]) -> str:
    return f"({', '.join(map(str, offset))})" if len(offset) != 1 else str(offset[0])


def _words(chunk_map: ChunkMap) -> str:
    lines = [f"{chunk_map.name} [{', '.join(map(str, chunk_map.shape))}] {chunk_map.dtype}: {chunk_map.verdict}"]
    lines += [
        f"{f'rank {c.rank} ' if c.rank >= 0 else ''}at {_index(c.offset)} size {_index(c.size)}: "
        + (_said(c) if not c.right or c.holds else f"{c.stored:,} stored")
        for c in chunk_map.chunks[:_MOST_CELLS]
    ]
    return "\n".join(lines)


def _table(maps: Sequence[ChunkMap]) -> Table:
    rows = tuple(
        (
            m.name,
            _index(c.offset),
            _index(c.size),
            f"{c.promised:,}",
            f"{c.stored:,}",
            _region(*c.holds) if c.holds else "",
            str(c.rank) if c.rank >= 0 else "",
            c.file,
        )
        for m in maps
        for c in m.chunks[:_MOST_CELLS]
    )
    return Table(("tensor", "offset", "size", "promised", "stored", "really holds", "rank", "file"), rows)
