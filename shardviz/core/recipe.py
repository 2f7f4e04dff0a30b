"""The exact reconstruction as a recipe: pad → all-gather → unpad → unshuffle, in whole numbers, before any data is touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shardviz.core.layout import Layout
from shardviz.core.mesh import Mesh
from shardviz.core.order import cutting_order
from shardviz.core.placements import Partial, Shard, StridedShard
from shardviz.core.runs import Runs, joined, length

__all__ = ["Gather", "Operation", "Pad", "Reduce", "Unpad", "Unshuffle", "recipe"]


@dataclass(frozen=True)
class Pad:
    """Every rank pads the end of a tensor dimension up to `sizes[position]` slots, so that its group sends equal amounts."""

    tensor_dim: int
    mesh_dim: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Gather:
    """All-gather over the groups of a mesh dimension: buffers are joined along a tensor dimension in coordinate order."""

    tensor_dim: int
    mesh_dim: int


@dataclass(frozen=True)
class Unpad:
    """Take the padding away chunk by chunk: of the gathered chunks, all `width[position]` long, keep `kept[position][i]`."""

    tensor_dim: int
    mesh_dim: int
    width: tuple[int, ...]
    kept: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Unshuffle:
    """Put the gathered runs of a tensor dimension, now on every rank, into the order of their global indices.

    `swapped` says why they are in another one, where that is known: a mesh dimension, and one behind it that cut before it.
    """

    tensor_dim: int
    gathered: Runs
    swapped: tuple[int, int] | None = None


@dataclass(frozen=True)
class Reduce:
    """All-reduce the addends over the groups of a mesh dimension."""

    mesh_dim: int
    op: str


Operation: TypeAlias = Pad | Gather | Unpad | Unshuffle | Reduce


def recipe(layout: Layout, sequence: Sequence[int] | None = None) -> tuple[Operation, ...]:
    """The operations that turn every rank's shard into the whole tensor on every rank.

    Mesh dimensions are gathered from right to left, or in the `sequence` given. Sizes come from arithmetic on the layout,
    never from chunking what was gathered, so padding is taken away where it really is, which is not always at the end. The
    method is that of pytorch/pytorch#150490 (pad → all-gather → unpad → unshuffle), made exact for every list of placements.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> for op in recipe(layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))):
        ...     print(op)
        Pad(tensor_dim=0, mesh_dim=1, sizes=(2, 2, 1, 1))
        Gather(tensor_dim=0, mesh_dim=1)
        Unpad(tensor_dim=0, mesh_dim=1, width=(2, 2, 1, 1), kept=((2, 1), (2, 1), (1, 1), (1, 1)))
        Pad(tensor_dim=0, mesh_dim=0, sizes=(3, 3, 3, 3))
        Gather(tensor_dim=0, mesh_dim=0)
        Unpad(tensor_dim=0, mesh_dim=0, width=(3, 3, 3, 3), kept=((3, 2), (3, 2), (3, 2), (3, 2)))
        Unshuffle(tensor_dim=0, gathered=((0, 2), (3, 4), (2, 3), (4, 5)), swapped=(0, 1))
    """
    spec = layout.spec
    operations: list[Operation] = []
    held = [[rank.runs[dim] for rank in layout] for dim in range(spec.ndim)]
    gathers = tuple(reversed(range(spec.mesh.ndim))) if sequence is None else tuple(sequence)
    for position, mesh_dim in enumerate(gathers):
        placement = spec.placements[mesh_dim]
        if spec.mesh.sizes[mesh_dim] == 1 and not isinstance(placement, Shard | StridedShard):
            continue
        match placement:
            case Partial(op):
                operations.append(Reduce(mesh_dim, op))
            case Shard(dim) | StridedShard(dim, _):
                if spec.mesh.sizes[mesh_dim] > 1:
                    operations += gathered(spec.mesh, dim, mesh_dim, held[dim])
                order = held[dim][0]
                last = not set(spec.cuts(dim)) & set(gathers[position + 1 :])
                if last and order != joined(sorted(order)):
                    operations.append(Unshuffle(dim, order, _swapped(layout, dim)))
    return tuple(operations)


def _swapped(layout: Layout, dim: int) -> tuple[int, int] | None:
    """The first mesh dimension that stands where another one cut; None where no order of cuts was read."""
    spec = layout.spec
    order = cutting_order(spec, dim) if layout.readings[dim] != "left-to-right" else None
    cuts = [[mesh_dim for mesh_dim in dims if spec.mesh.sizes[mesh_dim] > 1] for dims in (spec.cuts(dim), order or ())]
    return next((pair for pair in zip(*cuts, strict=False) if pair[0] != pair[1]), None)


def gathered(mesh: Mesh, dim: int, mesh_dim: int, held: list[Runs]) -> list[Operation]:
    """Pad, gather, unpad over one mesh dimension; padding only where a group's members hold different amounts.

    Args:
        mesh: the ranks.
        dim: the tensor dimension to gather.
        mesh_dim: the mesh dimension to gather over.
        held: the runs that each rank holds on the tensor dimension, in the mesh's order; brought up to date in place.
    """
    width = [0] * mesh.size
    kept: list[tuple[int, ...]] = [()] * mesh.size
    for group in mesh.groups(mesh_dim):
        places = [mesh.position(rank) for rank in group]
        sizes = tuple(length(held[place]) for place in places)
        together = joined(run for place in places for run in held[place])
        for place in places:
            width[place], kept[place], held[place] = max(sizes), sizes, together
    padded = any(min(sizes) < max(sizes) for sizes in kept)
    gather = Gather(dim, mesh_dim)
    if not padded:
        return [gather]
    return [Pad(dim, mesh_dim, tuple(width)), gather, Unpad(dim, mesh_dim, tuple(width), tuple(kept))]


def payload(shape: Sequence[int], itemsize: int, members: int) -> int:
    """Bytes that a rank sends in an all-gather among `members` ranks: its buffer to each of the others (so does a ring)."""
    return (members - 1) * math.prod(shape) * itemsize


def reduce_payload(shape: Sequence[int], itemsize: int, members: int) -> int:
    """Bytes that a rank sends in a ring all-reduce: twice (members − 1) parts of its buffer cut into `members` parts."""
    return 2 * (members - 1) * -(-math.prod(shape) // members) * itemsize
