"""What the installed torch says of a sharded tensor; the only file that touches torch's private names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial as TorchPartial
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.placement_types import Placement as TorchPlacement
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

from shardviz.core.errors import TorchError
from shardviz.core.placements import Partial, Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.core.trace import Report

__all__ = ["report", "shape_and_offset_at", "torch_placement", "torch_placements"]


def report(spec: Spec, device_mesh: DeviceMesh, rank: int) -> Report:
    """The shape and offset that torch reports for this rank's shard: what a distributed checkpoint relies on.

    Args:
        spec: the tensor's spec.
        device_mesh: torch's mesh of the same ranks.
        rank: the calling rank, which must be in the mesh.

    Returns:
        The report; where torch raises instead, its `error` says so.
    """
    compute = _private("torch.distributed.tensor._utils", "compute_local_shape_and_global_offset")
    try:
        shape, offset = compute(spec.shape, device_mesh, torch_placements(spec))
    except (RuntimeError, ValueError, AssertionError, NotImplementedError, IndexError) as error:
        return Report(rank, error=f"{type(error).__name__}: {error}".strip(": "))
    return Report(rank, tuple(map(int, shape)), tuple(map(int, offset)))


def shape_and_offset_at(spec: Spec) -> Callable[[Sequence[int]], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Torch's own arithmetic for any coordinate, without ranks: a function from a coordinate to shape and offset."""
    compute = _private("torch.distributed.tensor._utils", "_compute_local_shape_and_global_offset")
    placements = torch_placements(spec)
    return lambda coordinate: compute(spec.shape, spec.mesh.sizes, list(coordinate), placements)


def torch_placements(spec: Spec) -> tuple[TorchPlacement, ...]:
    """A spec's placements as torch's own objects."""
    return tuple(map(torch_placement, spec.placements))


def torch_placement(placement: Placement) -> TorchPlacement:
    """One placement as torch's own object."""
    match placement:
        case Replicate():
            return TorchReplicate()
        case Shard(dim):
            return TorchShard(dim)
        case StridedShard(dim, factor):
            made: TorchPlacement = _private("torch.distributed.tensor.placement_types", "_StridedShard")(
                dim, split_factor=factor
            )
            return made
        case Partial(op):
            return TorchPartial(op)


def group_ranks(name: str) -> tuple[int, ...]:
    """The global ranks of the process group that torch calls by this name, in group order."""
    group = _private("torch.distributed.distributed_c10d", "_resolve_process_group")(name)
    return tuple(dist.get_process_group_ranks(group))


def mesh_of(device_mesh: DeviceMesh, names: Sequence[str]) -> DeviceMesh:
    """The sub-mesh of some dimensions, in the order of the mesh."""
    return device_mesh[names[0]] if len(names) == 1 else device_mesh[tuple(names)]


def replace_offsets(answer: Callable[[Sequence[Any], Sequence[int], Sequence[Any], Sequence[Any]], Any]) -> Callable[[], None]:
    """Put `answer` in the place of torch's own function for the shape and offset of a shard.

    Args:
        answer: of a global shape, a mesh's shape, a coordinate and placements: local shape and offset, or None where torch's
            own function shall answer.

    Returns:
        What puts torch's function back.
    """
    name = "_compute_local_shape_and_global_offset"
    own = _private("torch.distributed.tensor._utils", name)
    module = importlib.import_module(own.__module__)

    def compute(
        global_shape: Sequence[Any],
        mesh_shape: Sequence[int],
        my_coordinate: Any,
        placements: Sequence[Any],
        *rest: Any,
        **more: Any,
    ) -> Any:
        coordinate = [my_coordinate(dim) for dim in range(len(mesh_shape))] if callable(my_coordinate) else my_coordinate
        found = answer(global_shape, mesh_shape, coordinate, placements)
        if found is None:
            return own(global_shape, mesh_shape, my_coordinate, placements, *rest, **more)
        skip_offset = rest[0] if rest else more.get("skip_offset", False)
        return (found[0], ()) if skip_offset else found

    setattr(module, name, compute)
    return lambda: setattr(module, name, own)


def _private(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TorchError(
            f"torch {torch.__version__} has no {module}.{name}, which shardviz relies on; torch 2.11 to 2.15 have it"
        ) from error
