"""Reconstruction on real tensors and process groups: the recipe of `core`, carried out with groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.recipe import Gather, Operation, Pad, Reduce, Unpad, Unshuffle, recipe
from shardviz.core.runs import joined
from shardviz.tensors.groups import Groups
from shardviz.tensors.pending import averaged
from shardviz.tensors.pieces import locate, pad, take
from shardviz.tensors.splitting import cut

__all__ = ["carry_out", "check_local", "reconstruct"]

Observer = Callable[[Operation, torch.Tensor], None]


def reconstruct(local: torch.Tensor, layout: Layout, device_mesh: DeviceMesh, observe: Observer | None = None) -> torch.Tensor:
    """Put a sharded tensor back together on every rank: pad → all-gather → unpad → unshuffle, with exact sizes.

    Every rank of the mesh calls it at the same time.

    It is differentiable, twice too, and sends nothing backwards: this rank's gradient of the whole tensor is cut back to its
    own shard, and an addend of a pending sum gets all of it (of an average, its part). Where ranks computed different
    losses, adding up their gradients is the caller's. This is what `DTensor.full_tensor()` does by default.

    Args:
        local: this rank's shard, of any dtype and layout in memory; its shape is the layout's shape for this rank.
        layout: which elements each rank holds.
        device_mesh: torch's mesh of the same ranks, whose process groups carry the data.
        observe: called after every operation with the operation and this rank's buffer.

    Returns:
        The whole tensor, contiguous, of the layout's global shape; where there is nothing to do it may share memory with
        `local`.

    Raises:
        SpecError: `local` has another shape than the layout gives this rank, or the meshes differ; in the backward pass, the
            pending reduction is neither a sum nor an average.

    Example:
        With `pieces = layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))`, rank 3 gives `tensor([4])`, every rank gets
        `tensor([0, 1, 2, 3, 4])`: 5 = 2 + 1 + 1 + 1.

    Source: pytorch/pytorch#150490, with sizes from arithmetic on the global size instead of chunks of what was gathered.
    """
    groups = Groups(layout.spec.mesh, device_mesh)
    check_local(local, layout, groups.place)
    whole: torch.Tensor = _Reconstruct.apply(local, layout, groups, observe)  # type: ignore[no-untyped-call]  # torch has no types for it
    return whole


class _Reconstruct(torch.autograd.Function):
    """Forward the recipe, backward a cut."""

    @staticmethod
    def forward(ctx: Any, local: torch.Tensor, layout: Layout, groups: Groups, observe: Observer | None) -> torch.Tensor:
        ctx.layout, ctx.rank = layout, groups.rank
        buffer = local
        for operation in recipe(layout):
            buffer = carry_out(operation, buffer, groups)
            if observe is not None:
                observe(operation, buffer)
        return buffer.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return cut(gradients[0], ctx.layout, ctx.rank) / averaged(ctx.layout), None, None, None


def carry_out(operation: Operation, buffer: torch.Tensor, groups: Groups) -> torch.Tensor:
    """This rank's buffer after one operation of a recipe."""
    place = groups.place
    match operation:
        case Pad(dim, _, sizes):
            return pad(buffer, dim, sizes[place])
        case Gather(dim, mesh_dim):
            return torch.cat(groups.gather(buffer, mesh_dim), dim)
        case Unpad(dim, _, width, kept):
            chunks = enumerate(kept[place])
            return take(buffer, dim, joined((i * width[place], i * width[place] + count) for i, count in chunks))
        case Unshuffle(dim, gathered, _):
            slots = locate(gathered, joined(sorted(gathered)))
            assert slots is not None, "what is sorted is what was gathered"
            return take(buffer, dim, slots)
        case Reduce(mesh_dim, op):
            return groups.reduce(buffer, mesh_dim, op)


def check_local(local: torch.Tensor, layout: Layout, place: int) -> None:
    """Refuse a shard of another shape than the layout's.

    Raises:
        SpecError: the shapes differ.
    """
    held = layout.ranks[place]
    if tuple(local.shape) != held.shape:
        raise SpecError(
            f"rank {held.rank} holds a shard of shape {tuple(local.shape)}, but by {layout.spec} it holds {held.shape}"
        )
