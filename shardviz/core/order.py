"""The sharding order: in which order mesh dimensions cut a tensor dimension, decoded from split factors."""

from __future__ import annotations

import math

from shardviz.core.errors import ReadingError
from shardviz.core.placements import StridedShard
from shardviz.core.spec import Spec

__all__ = ["cutting_order", "fitting_factors", "split_factor"]


def cutting_order(spec: Spec, tensor_dim: int) -> tuple[int, ...] | None:
    """The mesh dimensions that cut a tensor dimension, first cut first; None where the split factors decode to no order.

    Walks the cutting mesh dimensions from right to left and inserts each at the first place where the product of the mesh
    sizes before it equals its split factor (a plain `Shard` counts as 1). Source: DTensor's explicit shard order
    (pytorch/pytorch#150393, and torch's own decoder from 2.10 on).

    Example:
        >>> from shardviz.core.spec import parse
        >>> cutting_order(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"), 0)  # tp (1) cuts first, then dp (0)
        (1, 0)
        >>> cutting_order(parse("[8] on tp=2: _S(0, 2)"), 0) is None  # no later mesh dimension explains the 2
        True
    """
    order: list[int] = []
    for mesh_dim in reversed(spec.cuts(tensor_dim)):
        place = _place(spec, order, split_factor(spec, mesh_dim))
        if place is None:
            return None
        order.insert(place, mesh_dim)
    return tuple(order)


def required_order(spec: Spec, tensor_dim: int) -> tuple[int, ...]:
    """Like `cutting_order`, where there must be one.

    Raises:
        ReadingError: naming the placement that fits nowhere, and the split factors that would fit.
    """
    order: list[int] = []
    for mesh_dim in reversed(spec.cuts(tensor_dim)):
        place = _place(spec, order, split_factor(spec, mesh_dim))
        if place is None:
            fitting = ", ".join(map(str, fitting_factors(spec, order)))
            raise ReadingError(
                f"{spec.placements[mesh_dim]} on mesh dimension {spec.mesh.names[mesh_dim]!r} decodes to no sharding order on "
                f"{spec.mesh}: its split factor {split_factor(spec, mesh_dim)} is no product of the cuts that come before "
                f"it; factors that would fit: {fitting}"
            )
        order.insert(place, mesh_dim)
    return tuple(order)


def fitting_factors(spec: Spec, order: list[int]) -> tuple[int, ...]:
    """The split factors that a further cut could have, given the order of the cuts to its right."""
    return tuple(
        sorted({math.prod(spec.mesh.sizes[mesh_dim] for mesh_dim in order[:place]) for place in range(len(order) + 1)})
    )


def split_factor(spec: Spec, mesh_dim: int) -> int:
    """The split factor of the placement on a mesh dimension; 1 for a plain cut."""
    placement = spec.placements[mesh_dim]
    return placement.split_factor if isinstance(placement, StridedShard) else 1


def _place(spec: Spec, order: list[int], factor: int) -> int | None:
    product = 1
    for place in range(len(order) + 1):
        if product == factor:  # the first place that fits: mesh dimensions of size 1 tie
            return place
        if place < len(order):
            product *= spec.mesh.sizes[order[place]]
    return None
