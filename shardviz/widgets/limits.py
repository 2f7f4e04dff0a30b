"""What an explorer draws while somebody waits; the core knows far larger layouts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout, layout
from shardviz.core.placements import StridedShard
from shardviz.core.spec import Spec

__all__ = ["drawable", "places", "quick"]

MOST_RANKS = 1024
MOST_DIMENSIONS = 16
MOST_LETTERS = 40
MOST_PIECES = 8192
MOST_BEFORE = 1 << 19
"""The most pieces that are counted one by one; how many there can be is known without."""


def drawable(spec: Spec) -> None:
    """Refuse a question that nobody would wait for, or whose picture nobody could read.

    Raises:
        SpecError: it is larger than an explorer draws.

    Example:
        >>> from shardviz.core.spec import parse
        >>> drawable(parse("[50257] on dp=4096: S(0)"))
        Traceback (most recent call last):
            ...
        shardviz.core.errors.SpecError: 4,096 ranks: the explorer draws up to 1,024; sv.layout(spec) goes further
    """
    for count, what, most in _sizes(spec):
        if count > most:
            raise SpecError(f"{count:,} {what}: the explorer draws up to {most:,}; sv.layout(spec) goes further")


def quick(spec: Spec, reading: str) -> Layout:
    """The layout, where its pieces are few enough for a story to be drawn at once.

    Raises:
        SpecError: there are too many of them, or the reading does not apply.
    """
    found = layout(spec, reading)
    if (count := places(found)) > MOST_PIECES:
        raise SpecError(
            f"{count:,} pieces on all ranks: the explorer draws up to {MOST_PIECES:,}; sv.layout(spec) goes further"
        )
    return found


def places(held: Layout) -> int:
    """How much there is to draw of a layout: every rank, and every piece that it holds."""
    return sum(max(1, *map(len, one.runs)) if one.runs else 1 for one in held)


def _sizes(spec: Spec) -> Iterator[tuple[int, str, int]]:
    yield spec.mesh.size, "ranks", MOST_RANKS
    yield spec.ndim, "tensor dimensions", MOST_DIMENSIONS
    yield spec.mesh.ndim, "mesh dimensions", MOST_DIMENSIONS
    yield max(map(len, spec.mesh.names)), "letters in the name of a mesh dimension", MOST_LETTERS
    yield spec.mesh.size * max((_factors(spec, dim) for dim in range(spec.ndim)), default=1), "pieces", MOST_BEFORE


def _factors(spec: Spec, dim: int) -> int:
    """How many pieces of a tensor dimension one rank can hold."""
    strided = (one.split_factor for one in spec.placements if isinstance(one, StridedShard) and one.dim == dim)
    return min(math.prod(strided), max(spec.shape[dim], 1))
