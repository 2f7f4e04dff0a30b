"""What the installed torch says of a sharded tensor; the only file that touches torch's private names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Partial as TorchPartial
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.placement_types import Placement as TorchPlacement
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

from shardviz.core.errors import TorchError
from shardviz.core.mesh import Mesh
from shardviz.core.placements import Partial, Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.core.trace import Report

__all__ = [
    "CheckpointHooks",
    "Hook",
    "checkpoint_hooks",
    "report",
    "shape_and_offset_at",
    "torch_placement",
    "torch_placements",
]


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


def flattened_dims(spec: Spec, device_mesh: DeviceMesh) -> frozenset[tuple[int, ...]]:
    """The mesh dimensions that also exist flattened into one mesh, over which torch then gathers at once.

    Args:
        spec: of a tensor on the mesh; the calling rank must be in it.
        device_mesh: torch's mesh.

    Returns:
        Two mesh dimensions or more each time, in rising order.

    Raises:
        TorchError: torch keeps its flattened meshes elsewhere.
    """
    try:
        flat = device_mesh._get_root_mesh()._flatten_mapping.values()  # they have no public list
    except AttributeError as error:
        raise _unknown("it does not tell which meshes were flattened") from error
    groups = {tuple(dist.get_process_group_ranks(one.get_group())) for one in flat if one.ndim == 1}
    if not groups:
        return frozenset()
    here = spec.mesh.coordinate(dist.get_rank())
    return frozenset(
        dims
        for count in range(2, spec.mesh.ndim + 1)
        for dims in combinations(range(spec.mesh.ndim), count)
        if _slice(spec.mesh, here, dims) in groups
    )


def _slice(mesh: Mesh, here: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """The ranks that differ from the one at a coordinate along some mesh dimensions alone."""
    return tuple(
        rank
        for rank, place in zip(mesh.ranks, mesh.coordinates, strict=True)
        if all(place[other] == here[other] for other in range(mesh.ndim) if other not in dims)
    )


class Hook(NamedTuple):
    """A function of torch's that can be replaced: who has it, under which name, and itself."""

    owner: Any
    name: str
    own: Any

    def put(self, function: Any) -> None:
        """Have torch call another function instead; `put(self.own)` undoes it."""
        setattr(self.owner, self.name, function)


class CheckpointHooks(NamedTuple):
    """Where torch's checkpoints and state dicts ask what a DTensor holds.

    Attributes:
        write_items, chunk_list, tensor_shard: the DTensor's own methods.
        distribute: what fills DTensors from whole tensors that were broadcast.
        distribute_all: what makes DTensors of whole tensors that every rank has.
        executors: the classes that save in a thread, and in a process of its own.
        make_items, make_chunks: torch's functions for any tensor that says itself what it holds.
    """

    write_items: Hook
    chunk_list: Hook
    tensor_shard: Hook
    distribute: Hook
    distribute_all: Hook
    executors: tuple[Hook, Hook]
    make_items: Callable[[str, Any], Any]
    make_chunks: Callable[[Any], Any]


def checkpoint_hooks() -> CheckpointHooks:
    """Where torch's checkpoints and state dicts ask what a DTensor holds.

    Raises:
        TorchError: torch's functions are not the known ones.
    """
    helpers, saver = "torch.distributed.checkpoint.planner_helpers", "torch.distributed.checkpoint.state_dict_saver"
    states, asking = "torch.distributed._state_dict_utils", "torch.distributed.checkpoint.state_dict"
    thread, process = (f"_{kind}BasedAsyncCheckpointExecutor" for kind in ("Thread", "Process"))
    return CheckpointHooks(
        _method_hook("__create_write_items__", 3),
        _method_hook("__create_chunk_list__", 1),
        _method_hook("__get_tensor_shard__", 2),
        Hook(importlib.import_module(states), "_distribute_tensors", _taking(3, states, "_distribute_tensors")),
        Hook(importlib.import_module(asking), "_distribute_state_dict", _taking(3, asking, "_distribute_state_dict")),
        (
            Hook(importlib.import_module(saver), thread, _private(saver, thread)),
            Hook(importlib.import_module(saver), process, _private(saver, process)),
        ),
        _taking(2, helpers, "_create_write_items"),
        _taking(1, helpers, "_create_chunk_list"),
    )


def _taking(arguments: int, module: str, name: str) -> Any:
    """A private function that takes at least so many arguments."""
    found = _private(module, name)
    if len(inspect.signature(found).parameters) < arguments:
        raise _unknown(f"{module}.{name} takes other arguments")
    return found


def _method_hook(name: str, arguments: int) -> Hook:
    """One of the methods by which a DTensor describes itself to a checkpoint."""
    found = vars(DTensor).get(name)
    if found is None or len(inspect.signature(found).parameters) != arguments:
        raise _unknown(f"DTensor.{name} is missing, or takes other arguments")
    return Hook(DTensor, name, found)


def _unknown(why: str) -> TorchError:
    return TorchError(f"torch {torch.__version__} is built in a way that shardviz does not know: {why}")


def _private(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TorchError(
            f"torch {torch.__version__} has no {module}.{name}, which shardviz relies on; torch 2.11 to 2.15 have it"
        ) from error
