"""A whole tensor from one rank to the shards of all: the recipe of reconstruction, read backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.play import apply
from shardviz.core.recipe import Gather, Operation, Pad, Unpad, Unshuffle, recipe
from shardviz.core.spec import Spec
from shardviz.core.trace import start
from shardviz.tensors.groups import Groups
from shardviz.tensors.pending import addend, check_addends
from shardviz.tensors.pieces import pad, take

__all__ = ["scatter"]


def scatter(
    tensor: torch.Tensor | None,
    layout: Layout,
    device_mesh: DeviceMesh,
    source: int | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Give every rank its shard of a tensor that one rank has whole: shuffle → pad → scatter → unpad, with exact sizes.

    Every rank of the mesh calls it at the same time. One mesh dimension after the other, from left to right, is cut by a
    scatter; last come the broadcasts over those that do not cut, so every element travels once to each rank that keeps it or
    passes it on. Autograd does not record it.

    Args:
        tensor: on the source the whole tensor, of any layout in memory. Elsewhere it is not sent: None, or a tensor whose
            dtype is the source's.
        layout: which elements each rank is to hold.
        device_mesh: torch's mesh of the same ranks, whose process groups carry the data.
        source: the rank that has the tensor; by default the first of the mesh.
        dtype: the tensor's dtype; needed where `tensor` is None.

    Returns:
        This rank's shard, unpadded and contiguous; on the source it may share memory with `tensor`. Where a reduction is
        pending, addends that reduce to the tensor exactly (see `addend`).

    Raises:
        SpecError: the tensor has another shape or dtype than said, no dtype is known, the source is not in the mesh, the
            meshes differ, or no addends can be made for a pending reduction.

    Example:
        With `pieces = layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))` and `tensor([0, 1, 2, 3, 4])` on rank 0: over dp
        travel 0 1 3 | 2 4 #, then over tp 0 1 | 3 # and 2 | 4. Rank 3 gets `tensor([4])`.

    Source: torch's `_StridedShard._shard_tensor` and `distribute_tensor`, which in 2.13 assert on uneven strided shards.
    """
    mesh = layout.spec.mesh
    groups = Groups(mesh, device_mesh)
    check_addends(layout.spec)
    origin, here = mesh.coordinate(mesh.ranks[0] if source is None else source), mesh.coordinates[groups.place]
    dtype = dtype or (None if tensor is None else tensor.dtype)
    if dtype is None:
        raise SpecError(f"rank {groups.rank} has no tensor that tells the dtype: give dtype=")
    buffer = _whole(tensor, layout.spec, dtype) if here == origin else None
    # A rank takes part, and then has data, once it differs from the source only along mesh dimensions already sent over.
    unsent = {mesh_dim for mesh_dim, size in enumerate(mesh.sizes) if size > 1}
    for operation, shape in _backwards(layout, groups.place):
        if isinstance(operation, Gather):
            unsent.discard(operation.mesh_dim)
            if all(here[m] == origin[m] for m in unsent):
                parts = None if buffer is None else _parts(buffer, operation, shape, mesh.sizes[operation.mesh_dim])
                buffer = torch.empty(shape, dtype=dtype, device=groups.device)
                groups.scatter(parts, buffer, operation.mesh_dim, origin[operation.mesh_dim])
        elif buffer is not None:
            buffer = _undo(operation, buffer, groups.place, shape)
    for mesh_dim in sorted(unsent):
        unsent.discard(mesh_dim)
        if all(here[m] == origin[m] for m in unsent):
            shape = layout.ranks[groups.place].shape
            buffer = torch.empty(shape, dtype=dtype, device=groups.device) if buffer is None else buffer
            buffer = groups.broadcast(buffer, mesh_dim, origin[mesh_dim])
    assert buffer is not None, "every mesh dimension has been sent over"
    return addend(buffer, layout.spec, here, layout.spec.pending_dims).contiguous()


def _whole(tensor: torch.Tensor | None, spec: Spec, dtype: torch.dtype) -> torch.Tensor:
    if tensor is None:
        raise SpecError("the source rank has no tensor: it must give the whole one")
    if tuple(tensor.shape) != spec.shape or tensor.dtype != dtype:
        raise SpecError(
            f"the source's tensor has shape {tuple(tensor.shape)} and dtype {tensor.dtype}; "
            f"expected are the shape {spec.shape} of {spec} and {dtype}"
        )
    return tensor.detach()


def _backwards(layout: Layout, place: int) -> Iterator[tuple[Operation, tuple[int, ...]]]:
    """The operations of reconstruction, last first, each with the shape of this rank's buffer before it."""
    buffers, steps = start(layout), []
    for operation in recipe(layout):
        steps.append((operation, buffers[place].shape))
        buffers = apply(operation, buffers, layout.spec)
    return reversed(steps)


def _parts(buffer: torch.Tensor, gather: Gather, shape: Sequence[int], members: int) -> list[torch.Tensor]:
    """A gathered buffer as the members' buffers, all of one shape."""
    size = shape[gather.tensor_dim]
    return [buffer.narrow(gather.tensor_dim, i * size, size) for i in range(members)]


def _undo(operation: Operation, buffer: torch.Tensor, place: int, shape: Sequence[int]) -> torch.Tensor:
    """The buffer before a local operation, `shape` its shape."""
    match operation:
        case Unshuffle(dim, gathered, _):
            return take(buffer, dim, gathered)
        case Unpad(dim, _, width, kept):
            return torch.cat([pad(part, dim, width[place]) for part in torch.split(buffer, list(kept[place]), dim)], dim)
        case Pad(dim, _, _):
            return buffer.narrow(dim, 0, shape[dim])
    return buffer  # a reduction: its addends are made of the value, last of all
