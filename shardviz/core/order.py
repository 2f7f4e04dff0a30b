"""The sharding order: in which order mesh dimensions cut a tensor dimension, decoded from split factors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shardviz.core.errors import ReadingError
from shardviz.core.placements import Placement, Shard, StridedShard
from shardviz.core.spec import Spec, as_spec

__all__ = ["ExplicitOrder", "cutting_order", "explicit_order", "fitting_factors", "required_order", "split_factor"]


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


@dataclass(frozen=True)
class ExplicitOrder:
    """The sharding order written out, with plain placements only.

    Attributes:
        cuts: per tensor dimension the mesh dimensions that cut it, first cut first.
        flat: one list of (mesh dimension, placement) over all tensor dimensions, replicas and pending reductions included:
            carried out from left to right it gives the layout. It is the mesh order where nothing is strided.
    """

    cuts: tuple[tuple[int, ...], ...]
    flat: tuple[tuple[int, Placement], ...]


def explicit_order(spec: Spec | str) -> ExplicitOrder:
    """Write the sharding order out: what split factors say about order, said by order.

    A cut stands where its mesh dimension does, unless others must come before it; then it follows the last of those.

    Raises:
        ReadingError: a split factor decodes to no order; the message names the factors that would fit.

    Source: pytorch/pytorch#150393 (explicit ordering), here for nested strides and later plain cuts too.

    Example:
        >>> from shardviz.core.spec import parse
        >>> order = explicit_order(parse("[8] on a=2, b=2, c=2: S(0), _S(0, 2), S(0)"))
        >>> order.cuts, [(mesh_dim, str(placement)) for mesh_dim, placement in order.flat]
        (((0, 2, 1),), [(0, 'S(0)'), (2, 'S(0)'), (1, 'S(0)')])
    """
    spec = as_spec(spec)
    cuts = tuple(required_order(spec, dim) for dim in range(spec.ndim))
    flat: list[tuple[int, Placement]] = []
    waiting = [list(order) for order in cuts]
    reached: set[int] = set()
    for mesh_dim, placement in enumerate(spec.placements):
        if not isinstance(placement, Shard | StridedShard):
            flat.append((mesh_dim, placement))
            continue
        reached.add(mesh_dim)
        order = waiting[placement.dim]
        while order and order[0] in reached:
            flat.append((order.pop(0), Shard(placement.dim)))
    return ExplicitOrder(cuts, tuple(flat))


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
