"""What runs inside a rank: make a tensor, answer what is held, reported and used of it, and put it together."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from shardviz.core.errors import TorchError
from shardviz.core.layout import layout
from shardviz.core.mesh import Mesh
from shardviz.core.recipe import Operation, Reduce
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer
from shardviz.ranks.answers import Answers, TorchOperation, TorchRun
from shardviz.ranks.recorder import Recorder
from shardviz.tensors.making import choose_maker, make, use
from shardviz.tensors.marks import Marks
from shardviz.tensors.reported import report, torch_placements
from shardviz.tensors.sharding import reconstruct

__all__ = ["answer", "torch_run", "used"]


def answer(spec: Spec, device: str) -> Answers | None:
    """Make the tensor, and record what this rank holds, what torch reports, and shardviz's reconstruction.

    Args:
        spec: the question; its `made_by`, where given, says how to make the tensor.
        device: "cpu" or "cuda".

    Returns:
        This rank's answers; None where it is not in the mesh.
    """
    made = _make(spec, device)
    fits = torch.tensor(int(made is None or _fits(*made[:2])), device=device)
    dist.all_reduce(fits, dist.ReduceOp.MIN)  # whether every rank holds a shard that the reconstruction can start from
    if made is None:
        return None
    spec, dtensor, marks = made
    local = dtensor.to_local().detach()
    pending, reduced = spec.pending_dims, list[tuple[str, int]]()
    held = marks.read(local, pending=pending)
    buffers: list[Buffer] = []

    def observe(operation: Operation, buffer: torch.Tensor) -> None:
        if isinstance(operation, Reduce):
            reduced.append((operation.op, spec.mesh.sizes[operation.mesh_dim]))
        left = pending[: len(pending) - len(reduced)]  # pending sums are reduced from right to left
        buffers.append(marks.read(buffer, reduced, left))

    if fits.item():
        reconstruct(local, layout(spec), dtensor.device_mesh, observe)
    return Answers(str(spec.made_by), held, report(spec, dtensor.device_mesh, dist.get_rank()), tuple(buffers))


def used(spec: Spec, device: str) -> Buffer | None:
    """Make the parameter, and record what this rank's forward pass sees of it.

    Args:
        spec: of a parameter that FSDP2 makes.
        device: "cpu" or "cuda".

    Returns:
        What FSDP2's `unshard()` leaves on this rank; None where it is not in the mesh.
    """
    device_mesh = _device_mesh(spec.mesh, device, dist.group.WORLD)
    if dist.get_rank() not in spec.mesh.ranks:
        return None
    marks = Marks.of(spec)
    return marks.read(use(spec, marks.tensor(device), device_mesh))


def torch_run(spec: Spec, device: str, target: Spec | None) -> TorchRun | None:
    """Make the tensor, and record what torch does on this rank to make it whole, or to redistribute it.

    Args:
        spec: the question.
        device: "cpu" or "cuda".
        target: where `redistribute` is to take it; None for `full_tensor`.

    Returns:
        This rank's record; None where it is not in the mesh.
    """
    made = _make(spec, device)
    if made is None:
        return None
    spec, dtensor, marks = made
    with torch.no_grad(), Recorder(torch.float64) as recorder:
        if target is None:
            result = dtensor.full_tensor()
        else:
            result = dtensor.redistribute(dtensor.device_mesh, torch_placements(target)).to_local()
    pending, reduced = spec.pending_dims, list[tuple[str, int]]()
    operations = []
    for operation in recorder.operations:
        if operation.reduction:
            reduced.append((operation.reduction, len(operation.group)))
        after = marks.read(operation.output, reduced, pending[: len(pending) - len(reduced)])
        operations.append(TorchOperation(operation.name, operation.group, operation.given, operation.reduction, after))
    held = marks.read(dtensor.to_local(), pending=pending)
    return TorchRun(held, tuple(operations), marks.read(result, reduced, target.pending_dims if target else ()))


def _make(spec: Spec, device: str) -> tuple[Spec, DTensor, Marks] | None:
    asked = spec.made_by
    spec = spec.with_made_by(asked or choose_maker(spec))
    device_mesh = _device_mesh(spec.mesh, device, dist.group.WORLD)
    if dist.get_rank() not in spec.mesh.ranks:
        return None
    marks = Marks.of(spec)
    try:
        return spec, make(spec, marks.tensor(device), device_mesh), marks
    except TorchError:
        if asked:
            raise
        # Releases differ in what they call it (2.11 has a plain shard where FSDP2 is over a packed weight, later ones a
        # strided one); where this one has other words for it, shardviz places the shards itself.
        spec = spec.with_made_by("from_local")
        return spec, make(spec, marks.tensor(device), device_mesh), marks


def _fits(spec: Spec, dtensor: DTensor) -> bool:
    """Whether this rank's shard has the shape that the layout gives it."""
    return tuple(dtensor.to_local().shape) == layout(spec)[dist.get_rank()].shape


@lru_cache(maxsize=64)
def _device_mesh(mesh: Mesh, device: str, _group: object) -> DeviceMesh:
    """Torch's mesh of the same ranks; every rank of the process group calls it, also those outside the mesh."""
    return DeviceMesh(device, torch.tensor(mesh.ranks).view(mesh.sizes), mesh_dim_names=mesh.names)
