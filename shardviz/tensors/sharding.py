"""Reconstruction on real tensors and process groups: the recipe of `core`, carried out with collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch.distributed.device_mesh import DeviceMesh

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.recipe import Gather, Operation, Pad, Reduce, Unpad, Unshuffle, recipe
from shardviz.core.runs import Runs

__all__ = ["reconstruct"]

Observer = Callable[[Operation, torch.Tensor], None]


def reconstruct(local: torch.Tensor, layout: Layout, device_mesh: DeviceMesh, observe: Observer | None = None) -> torch.Tensor:
    """Put a sharded tensor back together on every rank: pad → all-gather → unpad → unshuffle, with exact sizes.

    Every rank of the mesh calls it at the same time.

    Args:
        local: this rank's shard; its shape is the layout's shape for this rank.
        layout: which elements each rank holds.
        device_mesh: torch's mesh of the same ranks, whose process groups carry the data.
        observe: called after every operation with the operation and this rank's buffer.

    Returns:
        The whole tensor, contiguous, of the layout's global shape.

    Raises:
        SpecError: `local` has another shape than the layout gives this rank.

    Source: pytorch/pytorch#150490, with sizes from arithmetic on the global size instead of chunks of what was gathered.
    """
    mesh = layout.spec.mesh
    place = mesh.position(dist.get_rank())
    expected = layout.ranks[place].shape
    if tuple(local.shape) != expected:
        raise SpecError(
            f"rank {dist.get_rank()} holds a shard of shape {tuple(local.shape)}, but by {layout.spec} it holds {expected}"
        )
    buffer = local
    for operation in recipe(layout):
        buffer = _carry_out(operation, buffer, place, device_mesh)
        if observe is not None:
            observe(operation, buffer)
    return buffer.contiguous()


def _carry_out(operation: Operation, buffer: torch.Tensor, place: int, device_mesh: DeviceMesh) -> torch.Tensor:
    match operation:
        case Pad(dim, _, sizes):
            return _pad(buffer, dim, sizes[place])
        case Gather(dim, mesh_dim):
            return _gather(buffer, dim, device_mesh.get_group(mesh_dim))
        case Unpad(dim, _, width, kept):
            return _unpad(buffer, dim, width[place], kept[place])
        case Unshuffle(dim, gathered):
            return _unshuffle(buffer, dim, gathered)
        case Reduce(mesh_dim, op):
            return _reduce(buffer, op, device_mesh.get_group(mesh_dim))


def _pad(buffer: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    missing = size - buffer.shape[dim]
    # functional.pad counts dimensions from the last, two numbers each.
    return functional.pad(buffer, [0, 0] * (buffer.ndim - 1 - dim) + [0, missing]) if missing else buffer


def _gather(buffer: torch.Tensor, dim: int, group: dist.ProcessGroup) -> torch.Tensor:
    sent = buffer.contiguous()
    received = [torch.empty_like(sent) for _ in range(group.size())]
    dist.all_gather(received, sent, group=group)
    return torch.cat(received, dim)


def _unpad(buffer: torch.Tensor, dim: int, width: int, kept: Sequence[int]) -> torch.Tensor:
    return torch.cat([buffer.narrow(dim, i * width, count) for i, count in enumerate(kept)], dim)


def _unshuffle(buffer: torch.Tensor, dim: int, gathered: Runs) -> torch.Tensor:
    """Cut the buffer into its runs and join them in the order of their global indices."""
    pieces = torch.split(buffer, [stop - start for start, stop in gathered], dim)
    order = sorted(range(len(gathered)), key=lambda i: gathered[i])
    return torch.cat([pieces[i] for i in order], dim)


def _reduce(buffer: torch.Tensor, op: str, group: dist.ProcessGroup) -> torch.Tensor:
    operations = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
    operations["product"] = dist.ReduceOp.PRODUCT
    if op not in operations:
        raise SpecError(f"a pending {op!r} cannot be reduced; there are {', '.join(operations)}")
    total = buffer.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, operations[op], group=group)
    return total / group.size() if op == "avg" else total  # gloo has no average
