"""What the installed torch says of a sharded tensor; the only file that touches torch's private names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

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
from shardviz.core.placements import Partial, Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.core.trace import Report

__all__ = ["report", "shape_and_offset_at", "torch_placement", "torch_placements"]


_ASKED = ("torch.distributed.tensor._utils", "compute_local_shape_and_global_offset")
_ASKING = {
    "torch.distributed.checkpoint.planner_helpers": ("_create_write_items_for_dtensor", "_create_chunk_from_dtensor"),
    "torch.distributed._state_dict_utils": ("_distribute_tensors",),
}
"""What saves, loads and sets state dicts, and asks for offsets by a name of its own module."""


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
    """Have torch's checkpoints and state dicts ask `answer` for the shape and offset of a shard; nothing else in torch asks it.

    A save is refused where a rank holds another shape than it is about to describe, and an asynchronous one altogether.

    Args:
        answer: of a global shape, a mesh's shape, a coordinate and placements: local shape and offset, or None where torch's
            own function shall answer.

    Returns:
        What puts torch's functions back.

    Raises:
        TorchError: torch's functions are not the known ones.
    """
    own = _private(_ASKED[0], _ASKED[1])
    if tuple(inspect.signature(own).parameters)[:3] != ("global_shape", "mesh", "placements"):
        raise _unknown(f"{_ASKED[1]} takes other arguments")
    for module, users in _ASKING.items():
        if _private(module, _ASKED[1]) is not own:
            raise _unknown(f"{module} has an {_ASKED[1]} of its own")
        for user in users:
            if _ASKED[1] not in inspect.unwrap(_private(module, user)).__code__.co_names:
                raise _unknown(f"{module}.{user} does not ask for offsets")
    planner, saver = "torch.distributed.checkpoint.planner_helpers", "torch.distributed.checkpoint.state_dict_saver"
    describe = _private(planner, "_create_write_items_for_dtensor")

    def compute(global_shape: Sequence[Any], mesh: DeviceMesh, placements: Sequence[Any], *rest: Any, **more: Any) -> Any:
        coordinate = mesh.get_coordinate()
        found = None if coordinate is None else answer(global_shape, mesh.shape, coordinate, placements)
        if found is None:
            return own(global_shape, mesh, placements, *rest, **more)
        skip_offset = rest[0] if rest else more.get("skip_offset", False)
        return (found[0], ()) if skip_offset else found

    def checked(name: str, tensor: DTensor) -> Any:
        item = describe(name, tensor)
        held, said = tuple(tensor.to_local().shape), tuple(item.tensor_data.chunk.sizes)
        if held != said:
            how = f"{tensor.placements} on a mesh of {tuple(tensor.device_mesh.shape)}"
            raise TorchError(f"{name!r} is not saved: by {how} this rank should hold the shape {said}, and it holds {held}")
        return item

    def refuse(*_: object, **__: object) -> Any:
        raise TorchError(
            "corrected_offsets does not cover async_save, which asks for the offsets some time after it returned: use "
            "torch.distributed.checkpoint.save inside the block"
        )

    new: list[tuple[str, str, Callable[..., Any]]] = [(module, _ASKED[1], compute) for module in _ASKING]
    new.append((planner, "_create_write_items_for_dtensor", checked))
    new += [(saver, f"_{kind}BasedAsyncCheckpointExecutor", refuse) for kind in ("Thread", "Process")]
    old = [(module, name, _private(module, name)) for module, name, _ in new]

    def put(functions: Sequence[tuple[str, str, Callable[..., Any]]]) -> None:
        for module, name, function in functions:
            setattr(importlib.import_module(module), name, function)

    put(new)
    return lambda: put(old)


def _unknown(why: str) -> TorchError:
    return TorchError(f"torch {torch.__version__} is built in a way that shardviz does not know: {why}")


def _private(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TorchError(
            f"torch {torch.__version__} has no {module}.{name}, which shardviz relies on; torch 2.11 to 2.15 have it"
        ) from error
