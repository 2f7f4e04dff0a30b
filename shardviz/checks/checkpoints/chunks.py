"""Arithmetic of boxes: what of a tensor no chunk covers, and what more than one covers, without listing an element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shardviz.core.errors import FileError

__all__ = ["Box", "Coverage", "box_text", "coverage", "intersection"]

_MOST_STEPS = 2_000_000
"""Slabs looked at before chunks count as too irregular; torch's own cuts need about as many as there are chunks."""

_MOST_BOXES = 1000
"""The most gaps and overlaps of one tensor that are kept one by one; the counts are of all."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of elements: the global index of its first one, and its size, per tensor dimension."""

    offset: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.size)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How boxes cover a shape.

    Attributes:
        missing: number of elements in no box.
        overlapping: number of elements in two boxes or more.
        gaps: where elements are in no box (the first 1,000 boxes).
        overlaps: where elements are in two boxes or more (likewise).
    """

    missing: int
    overlapping: int
    gaps: tuple[Box, ...]
    overlaps: tuple[Box, ...]


def coverage(shape: Sequence[int], boxes: Sequence[Box]) -> Coverage:
    """How boxes cover a shape; time and memory grow with the number of boxes, not of elements.

    Raises:
        FileError: the boxes cut the shape so irregularly that their overlaps cannot be told in reasonable time.

    Example:
        >>> found = coverage((5, 4), [Box((0, 0), (2, 4)), Box((1, 0), (2, 2)), Box((4, 0), (1, 4))])
        >>> found.missing, found.overlapping, found.gaps  # 6 = 2 + 4 in no box, 2 in two
        (6, 2, (Box(offset=(2, 2), size=(1, 2)), Box(offset=(3, 0), size=(1, 4))))
    """
    missing = overlapping = 0
    gaps: list[Box] = []
    overlaps: list[Box] = []
    filled = [box for box in boxes if box.numel]
    if sum(box.numel for box in filled) == math.prod(shape) and len(filled) < 2:
        return Coverage(0, 0, (), ())
    for box, count in _regions(tuple(shape), filled, [0]):
        if count:
            overlapping += box.numel
        else:
            missing += box.numel
        kept = overlaps if count else gaps
        if len(kept) < _MOST_BOXES:
            kept.append(box)
    return Coverage(missing, overlapping, tuple(gaps), tuple(overlaps))


def _regions(shape: tuple[int, ...], boxes: Sequence[Box], steps: list[int], dim: int = 0) -> Iterator[tuple[Box, int]]:
    """Where not exactly one box is: the region, and how many boxes are there. `steps` counts the work of the whole search."""
    if not math.prod(shape[dim:]):
        return
    if not boxes or dim == len(shape):
        if len(boxes) != 1:
            yield Box((0,) * (len(shape) - dim), shape[dim:]), len(boxes)
        return
    starts: dict[int, list[Box]] = {0: [], shape[dim]: []}
    for box in boxes:
        starts.setdefault(box.offset[dim], []).append(box)
        starts.setdefault(box.offset[dim] + box.size[dim], [])
    edges = sorted(starts)
    active: list[Box] = []
    for low, high in pairwise(edges):
        active = [box for box in active if box.offset[dim] + box.size[dim] > low] + starts[low]
        steps[0] += 1 + len(active)
        if steps[0] > _MOST_STEPS:
            raise FileError("its chunks cut it too irregularly for their overlaps to be counted")
        for inner, count in _regions(shape, active, steps, dim + 1):
            yield Box((low, *inner.offset), (high - low, *inner.size)), count


def intersection(one: Box, other: Box) -> Box | None:
    """What two boxes share, or None."""
    low = tuple(map(max, one.offset, other.offset))
    high = tuple(min(a + m, b + n) for a, m, b, n in zip(one.offset, one.size, other.offset, other.size, strict=True))
    size = tuple(stop - start for start, stop in zip(low, high, strict=True))
    return Box(low, size) if all(count > 0 for count in size) else None


def box_text(box: Box) -> str:
    """A box in words, by its global indices.

    Example:
        >>> box_text(Box((8, 0), (1, 9))), box_text(Box((15,), (2,))), box_text(Box((), ()))
        ('(8, 0-8)', '15-16', 'the one element')
    """
    parts = [str(low) if size == 1 else f"{low}-{low + size - 1}" for low, size in zip(box.offset, box.size, strict=True)]
    if not parts:
        return "the one element"
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
