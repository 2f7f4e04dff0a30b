"""Where torch gathers over a flattened sub-mesh what was cut dimension by dimension (pytorch/pytorch#194457)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

from shardviz.core.placements import Shard
from shardviz.core.runs import length, strided_chunks
from shardviz.core.spec import Spec

__all__ = ["gathered_wrongly"]

SHOWN = 16
"""The most sizes that a sentence lists."""


def gathered_wrongly(spec: Spec, flattened: Collection[tuple[int, ...]]) -> str:
    """What `full_tensor` gets wrong, in words, or "".

    Torch merges the all-gathers of neighbouring `Shard`s of one tensor dimension where their mesh dimensions also exist as one
    flattened mesh, and then takes every shard to be of the size that one cut over all those ranks would give it.

    Args:
        spec: how the tensor is sharded.
        flattened: the mesh dimensions, in rising order, that also exist as one.

    Example:
        >>> from shardviz.core.spec import parse
        >>> gathered_wrongly(parse("[5] on dp=2, tp=2: S(0), S(0)"), {(0, 1)})  # cut twice: 3 | 2, then 2, 1 | 1, 1
        'gathers it wrongly (full_tensor): dp, tp are flattened into one mesh too, where torch takes 2, 1, 1, 1 for 2, 2, 1, 0'
        >>> gathered_wrongly(parse("[7] on dp=2, tp=2: S(0), S(0)"), {(0, 1)})  # 2, 2 | 2, 1 either way
        ''
    """
    for merged in _merged(spec):
        if merged not in flattened:
            continue
        dim = spec.placements[merged[0]].dim  # type: ignore[union-attr]
        before = [mesh_dim for mesh_dim in spec.cuts(dim) if mesh_dim < merged[0]]
        for size in _sizes([spec.shape[dim]], [spec.mesh.sizes[m] for m in before]):
            held = _sizes([size], [spec.mesh.sizes[m] for m in merged])
            taken = _sizes([size], [len(held)])
            if held != taken:
                names = ", ".join(spec.mesh.names[m] for m in merged)
                return (
                    f"gathers it wrongly (full_tensor): {names} are flattened into one mesh too, where torch takes "
                    f"{_text(held)} for {_text(taken)}"
                )
    return ""


def _merged(spec: Spec) -> Iterator[tuple[int, ...]]:
    """The mesh dimensions of every sequence of two plain cuts or more of one tensor dimension with no other cut between."""
    cutting = [(m, p) for m, p in enumerate(spec.placements) if spec.mesh.sizes[m] > 1 and str(p) != "R"]
    for placement, group in groupby(cutting, key=lambda pair: pair[1]):
        mesh_dims = tuple(mesh_dim for mesh_dim, _ in group)
        if isinstance(placement, Shard) and len(mesh_dims) > 1:
            yield mesh_dims


def _text(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes[:SHOWN])) + ", …" * (len(sizes) > SHOWN)


def _sizes(sizes: list[int], cuts: list[int]) -> list[int]:
    """The sizes of all shards, after cuts into so many each."""
    for count in cuts:
        sizes = [length(part) for size in sizes for part in strided_chunks(((0, size),) if size else (), 1, count)]
    return sizes
