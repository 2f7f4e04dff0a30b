"""Arithmetic that exercises share, taken from the core; and the wrong ways to cut that people think of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

from shardviz.core.layout import Layout, layout
from shardviz.core.runs import Runs, chunk_bounds
from shardviz.core.spec import Spec

__all__ = ["chunks", "even_sizes", "fsdp_over_tp", "held", "listed", "owner_of", "places", "split_by", "stepped_sizes"]

T = TypeVar("T")


def chunks(items: Sequence[T], count: int) -> list[list[T]]:
    """A list cut by the chunk rule.

    Example:
        >>> chunks([0, 1, 2, 3, 4], 4)  # ceil(5 / 4) = 2
        [[0, 1], [2, 3], [4], []]
    """
    return [list(items[slice(*chunk_bounds(len(items), count, place))]) for place in range(count)]


def split_by(items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """A list cut into pieces of given sizes."""
    return [list(items[low:high]) for low, high in pairwise(accumulate(sizes, initial=0))]


def even_sizes(size: int, count: int) -> list[int]:
    """Sizes that differ by one at most: how many people expect a cut to be, and `numpy.array_split` cuts."""
    return [size // count + (place < size % count) for place in range(count)]


def stepped_sizes(size: int, count: int) -> list[int]:
    """`ceil(size / count)` for all but the last, which gets the rest: right until the rest is negative."""
    step = -(-size // count)
    return [step] * (count - 1) + [max(size - step * (count - 1), 0)]


def fsdp_over_tp(size: int, dp: int, tp: int) -> Layout:
    """The layout of a dimension of so many elements that tensor parallelism cut, and FSDP2 over it."""
    return layout(Spec((size,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), S(0)", "fsdp2-over-tp"))


def listed(runs: Runs) -> list[int]:
    """Runs of few elements, one by one."""
    return [index for start, stop in runs for index in range(start, stop)]


def held(found: Layout) -> list[list[int]]:
    """What each rank holds of a tensor of one dimension, one by one."""
    return [listed(rank.runs[0]) for rank in found]


def owner_of(found: Layout, element: int) -> tuple[int, int]:
    """The rank that holds an element of a tensor of one dimension, and the element's place in it."""
    (owner, *_) = found.owners((element,))
    return owner.rank, owner.local_index[0]


def places(found: Layout) -> tuple[str, ...]:
    """The names of a layout's ranks, with their coordinates: "dp 0 · tp 1"."""
    mesh = found.spec.mesh
    return tuple(" · ".join(f"{n} {i}" for n, i in zip(mesh.names, place, strict=True)) for place in mesh.coordinates)
