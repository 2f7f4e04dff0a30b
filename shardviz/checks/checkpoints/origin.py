"""On which mesh, and cut how, a checkpoint's tensor was saved: told from the ranks that wrote its chunks and what they stored.

From 2.10 on, torch describes a shard by reading placements from left to right, and FSDP2 over tensor parallelism holds it in
sharding order. So a way of cutting explains a tensor when, rank for rank, the one reading gives what the metadata promises and
the other gives the sizes that are stored. Then the second one tells where every stored element belongs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

from shardviz.checks.checkpoints.chunks import Box, coverage
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor
from shardviz.core.layout import Layout, layout, local_shape_and_offset
from shardviz.core.mesh import Mesh
from shardviz.core.placements import Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec

__all__ = ["Origin", "origins"]

_MOST_DIMS = 4
"""The most mesh dimensions that are tried: replicas, FSDP2, expert and tensor parallelism."""

_MOST_RANKS = 1 << 14
"""More ranks are taken for a mistake in a file's name."""

_PROBES = 6
"""Chunks that most ways of cutting fail to explain, so that few are tried on all."""


@dataclass(frozen=True)
class Origin:
    """A way in which a tensor can have been saved, and where its stored chunks then belong.

    Attributes:
        spec: the tensor on the mesh of all ranks that wrote it; None where no placements describe it.
        boxes: per chunk the elements that are really stored in it; None where it stores none.
        how: it in words, where there is no spec; "" where the chunks lie where they say.
    """

    spec: Spec | None
    boxes: tuple[Box | None, ...]
    how: str = ""


def origins(tensor: StoredTensor, ranks: int) -> tuple[Origin, ...]:
    """Every way of cutting that explains a tensor's chunks; of several that put all chunks in the same place, one.

    Args:
        tensor: the tensor.
        ranks: number of ranks that wrote the checkpoint.
    """
    writers = [chunk.rank for chunk in tensor.chunks]
    known = [rank for rank in writers if rank is not None]
    if len(known) != len(writers) or not known or ranks > _MOST_RANKS:
        return ()
    dims = tuple(
        dim
        for dim, size in enumerate(tensor.shape)
        if any(chunk.size[dim] < size or chunk.offset[dim] for chunk in tensor.chunks)
    )
    found: list[Origin] = []
    probes = _probes(tensor)
    for block in (size for size in range(ranks, 1, -1) if ranks % size == 0):  # a pipeline's stage is a block of the ranks
        first = min(known) // block * block
        if max(known) >= first + block:
            break
        for sizes in _meshes(block):
            mesh = Mesh(sizes, range(first, first + block))
            for placements in _cuts(sizes, dims):
                spec = Spec(tensor.shape, mesh, placements)
                if all(_holds(spec, chunk) for chunk in probes) and (boxes := _explains(spec, tensor)) is not None:
                    found.append(Origin(spec, boxes))
        if found:
            break
    return tuple(found)


def _probes(tensor: StoredTensor) -> list[Chunk]:
    """A few chunks of which something is known: those that are wrong, and the first and the last."""
    stored = [chunk for chunk in tensor.chunks if chunk.tensor]
    wrong = [chunk for chunk in stored if not chunk.right]
    return [*wrong[: _PROBES - 2], *stored[:1], *stored[-1:]]


def _holds(spec: Spec, chunk: Chunk) -> bool:
    """Whether the rank that wrote a chunk would hold a shard of the stored shape."""
    assert chunk.rank is not None
    assert chunk.tensor is not None
    return local_shape_and_offset(spec, spec.mesh.coordinate(chunk.rank))[0] == chunk.tensor.shape


def _explains(spec: Spec, tensor: StoredTensor) -> tuple[Box | None, ...] | None:
    """Where the chunks belong if the tensor was saved by this spec; None where it cannot have been."""
    reported, held = _layouts(spec)
    boxes: list[Box | None] = []
    for chunk in tensor.chunks:
        rank = chunk.rank
        assert rank is not None
        said, has = reported[rank], held[rank]
        if (said.offset, said.shape) != (chunk.offset, chunk.size) or (chunk.tensor and chunk.tensor.shape != has.shape):
            return None
        boxes.append(Box(has.offset, has.shape) if chunk.tensor and has.numel else None)
    offsets = {chunk.offset for chunk in tensor.chunks}
    if any(said.offset not in offsets for said in reported):  # torch leaves a chunk out only for another at its offset
        return None
    kept = [box for box in boxes if box]
    return None if coverage(tensor.shape, kept).overlapping else tuple(boxes)


@lru_cache(maxsize=512)
def _layouts(spec: Spec) -> tuple[Layout, Layout]:
    return layout(spec, "left-to-right"), layout(spec, "sharding-order")


@lru_cache(maxsize=64)
def _meshes(ranks: int, most: int = _MOST_DIMS) -> tuple[tuple[int, ...], ...]:
    """Every way to write a number of ranks as a product of mesh dimensions, each of 2 ranks or more.

    Example:
        >>> _meshes(8)
        ((2, 2, 2), (2, 4), (4, 2), (8,))
    """
    if most == 1:
        return ((ranks,),)
    split = ((size, *rest) for size in range(2, ranks) if ranks % size == 0 for rest in _meshes(ranks // size, most - 1))
    return (*split, (ranks,))


def _cuts(sizes: Sequence[int], dims: Sequence[int]) -> Iterator[tuple[Placement, ...]]:
    """Every list of placements that cuts all of these tensor dimensions, and no other, in some sharding order."""
    for assigned in product((None, *dims), repeat=len(sizes)):
        if {dim for dim in assigned if dim is not None} != set(dims):
            continue
        cutting = [[m for m, dim in enumerate(assigned) if dim == wanted] for wanted in dims]
        for orders in product(*(tuple(permutations(group)) for group in cutting)):
            placed: list[Placement] = [Replicate()] * len(sizes)
            for dim, order in zip(dims, orders, strict=True):
                for place, m in enumerate(order):
                    factor = math.prod(sizes[before] for before in order[:place] if before > m)
                    placed[m] = Shard(dim) if factor == 1 else StridedShard(dim, factor)
            yield tuple(placed)
