"""Reductions that are pending over a mesh dimension: addends that make a value, and what reaches them of its gradient."""

from __future__ import annotations

import math
from collections.abc import Collection

import torch

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.placements import Partial
from shardviz.core.spec import Spec

__all__ = ["addend", "averaged", "check_addends"]

REPEATED = ("avg", "max", "min")
"""Reductions of equal addends that give the addend."""

# Added to −0.0 every number stays what it is, −0.0 too.
NEUTRAL = {"sum": -0.0, "product": 1.0}


def addend(value: torch.Tensor, spec: Spec, coordinate: tuple[int, ...], mesh_dims: Collection[int]) -> torch.Tensor:
    """What the rank at a coordinate holds so that reductions over some mesh dimensions give a value, exactly.

    Of a sum or product the first rank holds the value and the others what changes nothing; of an average, a maximum or a
    minimum every rank holds the value.

    Example:
        >>> from shardviz.core.spec import parse
        >>> five = parse("[1] on dp=2: P(sum)")
        >>> [addend(torch.tensor([5]), five, (i,), [0]).tolist() for i in range(2)]  # 5 = 5 + 0
        [[5], [0]]
    """
    for mesh_dim in mesh_dims:
        placement = spec.placements[mesh_dim]
        if isinstance(placement, Partial) and placement.op in NEUTRAL and coordinate[mesh_dim]:
            return torch.full_like(value, NEUTRAL[placement.op], memory_format=torch.contiguous_format)
    return value


def check_addends(spec: Spec) -> None:
    """Refuse a spec with a pending reduction for which no addends can be made.

    Raises:
        SpecError: there is such a reduction.
    """
    for mesh_dim in spec.pending_dims:
        placement = spec.placements[mesh_dim]
        if isinstance(placement, Partial) and placement.op not in (*NEUTRAL, *REPEATED):
            known = ", ".join((*NEUTRAL, *REPEATED))
            raise SpecError(
                f"{spec}: no addends are known that a pending {placement.op!r} turns into a value; they are of {known}"
            )


def averaged(layout: Layout) -> int:
    """How many addends share the gradient of one element: 1, or the members of the groups over which an average is pending.

    Raises:
        SpecError: a reduction is pending that has no such gradient.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> averaged(layout(parse("[4] on dp=3, tp=2: P(avg), P(sum)")))
        3
    """
    spec = layout.spec
    pending = [(spec.placements[mesh_dim], spec.mesh.sizes[mesh_dim]) for mesh_dim in spec.pending_dims]
    for placement, _ in pending:
        if placement not in (Partial("sum"), Partial("avg")):
            raise SpecError(f"{spec}: gradients pass through a pending sum or avg; through {placement} they do not")
    return math.prod(size for placement, size in pending if placement == Partial("avg"))
