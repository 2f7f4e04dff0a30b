"""From one layout's shards to another's: gather no further than needed, then cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.placements import Partial, Replicate
from shardviz.core.play import apply
from shardviz.core.recipe import Operation, recipe
from shardviz.core.runs import Runs
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, start
from shardviz.tensors.groups import Groups
from shardviz.tensors.pending import addend, averaged, check_addends
from shardviz.tensors.pieces import locate, take
from shardviz.tensors.reconstruction import carry_out, check_local

__all__ = ["operations_needed", "reshard"]


def reshard(local: torch.Tensor, source: Layout, target: Layout, device_mesh: DeviceMesh) -> torch.Tensor:
    """Turn this rank's shard of one layout into its shard of another, of the same tensor on the same mesh.

    Every rank of the mesh calls it at the same time. The ranks carry out the reconstruction of `source` until each of them
    has what it is to hold, and cut it from there: nothing is sent where they have it from the start, and a whole tensor
    appears only where nothing less will do. All of them know by arithmetic when to stop. A reduction that stays pending
    is left alone where that is possible.

    It is differentiable, twice too: the gradient is resharded back, so every rank calls `backward` at the same time. The
    gradient of an addend of a pending sum is the gradient of the sum, as in DTensor.

    Args:
        local: this rank's shard of `source`.
        source: which elements each rank holds.
        target: which elements each rank is to hold.
        device_mesh: torch's mesh of the same ranks, whose process groups carry the data.

    Returns:
        This rank's shard of `target`, contiguous; it may share memory with `local`. Where a reduction becomes pending,
        addends that reduce to the tensor exactly.

    Raises:
        SpecError: `local` has another shape than `source` gives this rank, the layouts are of different shapes or meshes, or
            no addends can be made for a pending reduction; in the backward pass, a pending reduction is neither a sum nor an
            average.

    Example:
        `[5] on dp=2, tp=2`, from `_S(0, 2), S(0)` (0 1 | 3 | 2 | 4) to `R, S(0)` (0 1 2 | 3 4 | 0 1 2 | 3 4), which is what
        FSDP2 unshards to: the gather over dp is enough, 0 1 with 2 and 3 with 4. To `S(0), R` (0 1 2 | 0 1 2 | 3 4 | 3 4)
        both mesh dimensions are gathered, dp last.
    """
    _check_same(source.spec, target.spec)
    check_addends(target.spec)
    groups = Groups(source.spec.mesh, device_mesh)
    check_local(local, source, groups.place)
    resharded: torch.Tensor = _Reshard.apply(local, source, target, groups, device_mesh)  # type: ignore[no-untyped-call]  # torch has no types for it
    return resharded


class _Reshard(torch.autograd.Function):
    """Forward and backward the same, with the layouts changed round."""

    @staticmethod
    def forward(
        ctx: Any, local: torch.Tensor, source: Layout, target: Layout, groups: Groups, device_mesh: DeviceMesh
    ) -> torch.Tensor:
        ctx.source, ctx.target, ctx.device_mesh = source, target, device_mesh
        operations, buffers = operations_needed(source, target)
        for operation in operations:
            local = carry_out(operation, local, groups)
        held, wanted = buffers[groups.place], target.ranks[groups.place]
        for dim, runs in enumerate(wanted.runs):
            local = take(local, dim, _slots(held.axes[dim], runs))
        return addend(local, target.spec, wanted.coordinate, set(target.spec.pending_dims) - set(held.pending)).contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        of_values = gradients[0] * averaged(ctx.target)
        back = reshard(of_values, _as_values(ctx.target), _as_values(ctx.source), ctx.device_mesh)
        return back / averaged(ctx.source), None, None, None, None


def operations_needed(source: Layout, target: Layout) -> tuple[tuple[Operation, ...], tuple[Buffer, ...]]:
    """The first operations of the reconstruction of `source` after which every rank can cut its shard of `target`.

    Returns:
        The operations, and what every rank's buffer holds after them, in the order of the mesh's ranks.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> sharded, unsharded, whole = (
        ...     layout(parse(f"[5] on dp=2, tp=2: {text}")) for text in ("_S(0, 2), S(0)", "R, S(0)", "R, R")
        ... )
        >>> operations_needed(whole, sharded)[0]  # every rank has everything
        ()
        >>> for operation in operations_needed(sharded, unsharded)[0]:  # 0 1 | 2 over dp, and 3 | 4
        ...     print(operation)
        Pad(tensor_dim=0, mesh_dim=0, sizes=(2, 1, 2, 1))
        Gather(tensor_dim=0, mesh_dim=0)
    """
    before, after = source.spec.placements, target.spec.placements
    kept = {mesh_dim for mesh_dim in source.spec.pending_dims if before[mesh_dim] == after[mesh_dim]}
    # Mesh dimensions whose placement changes come first: to gather over them is often enough.
    sequence = sorted(range(len(before)), key=lambda mesh_dim: (before[mesh_dim] == after[mesh_dim], -mesh_dim))
    operations, buffers = recipe(source, sequence), start(source)
    for count, operation in enumerate(operations):
        if _enough(buffers, target, kept):
            return operations[:count], buffers
        buffers = apply(operation, buffers, source.spec)
    return operations, buffers


def _enough(buffers: Sequence[Buffer], target: Layout, kept: set[int]) -> bool:
    """Whether every rank has what it is to hold, with no reduction pending but those that stay so."""
    return all(
        kept.issuperset(buffer.pending)
        and all(locate(held, runs) is not None for held, runs in zip(buffer.axes, wanted.runs, strict=True))
        for buffer, wanted in zip(buffers, target, strict=True)
    )


def _slots(held: Runs, wanted: Runs) -> Runs:
    slots = locate(held, wanted)
    assert slots is not None, "the operations needed end where everything wanted is held"
    return slots


def _as_values(layout: Layout) -> Layout:
    """The layout of the gradients: where a reduction is pending, every rank has the gradient of its result."""
    spec = layout.spec
    placements = [Replicate() if isinstance(placement, Partial) else placement for placement in spec.placements]
    return replace(layout, spec=Spec(spec.shape, spec.mesh, placements, spec.made_by))


def _check_same(source: Spec, target: Spec) -> None:
    if (source.shape, source.mesh) != (target.shape, target.mesh):
        raise SpecError(f"{source} cannot become {target}: resharding keeps the shape and the mesh")
