"""How a spec becomes a real tensor: by torch itself where torch makes exactly these placements, else placed by shardviz."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_module, distribute_tensor
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module
from torch.distributed.tensor.placement_types import Placement as TorchPlacement

from shardviz.core.errors import TorchError
from shardviz.core.forward import data_dims
from shardviz.core.layout import Layout, layout
from shardviz.core.mesh import Mesh
from shardviz.core.order import cutting_order, split_factor
from shardviz.core.placements import Partial, Shard, StridedShard
from shardviz.core.placements import Replicate as SpecReplicate
from shardviz.core.spec import Spec
from shardviz.tensors.reported import mesh_of, torch_placements
from shardviz.tensors.sharding import cut

__all__ = ["choose_maker", "make", "use"]


def choose_maker(spec: Spec) -> str:
    """How the tensor of a spec is made: the first of `MADE_BY` that makes exactly these placements.

    Example:
        >>> from shardviz.core.spec import parse
        >>> for text in ("_S(0, 2), S(0)", "_S(0, 2), _S(0, 3)", "S(0), S(0)", "P, S(0)"):
        ...     print(choose_maker(parse(f"[12] on dp=2, tp=2: {text}")))
        fsdp2-over-tp
        fsdp2
        distribute_tensor
        from_local
    """
    count = _data_dims(spec)
    if count is not None:
        model = spec.placements[count:]
        if model and all(isinstance(p, Shard | SpecReplicate) for p in model):
            return "fsdp2-over-tp"
        if len(model) <= 1:
            return "fsdp2"
    if any(isinstance(placement, Partial) for placement in spec.placements):
        return "from_local"
    if _strides_divide(spec):
        return "distribute_tensor"
    if all(cutting_order(spec, dim) is not None for dim in range(spec.ndim)):
        return "redistribute"
    return "from_local"


def make(spec: Spec, values: torch.Tensor, device_mesh: DeviceMesh) -> DTensor:
    """Make the tensor of a spec on real ranks; every rank of the mesh calls it at the same time.

    Args:
        spec: the question; its `made_by` says how.
        values: the whole tensor, the same on every rank.
        device_mesh: torch's mesh of the same ranks.

    Returns:
        The DTensor, whose placements are the spec's.

    Raises:
        TorchError: torch made other placements than asked.
    """
    match spec.made_by:
        case "fsdp2-over-tp" | "fsdp2":
            made = _weight(_fully_sharded(spec, values, device_mesh))
            assert isinstance(made, DTensor)
        case "distribute_tensor":
            made = distribute_tensor(values, device_mesh, torch_placements(spec))
        case "redistribute":
            replica = distribute_tensor(values, device_mesh, [Replicate()] * device_mesh.ndim)
            made = replica.redistribute(device_mesh, torch_placements(spec))
        case _:
            made = _from_local(layout(spec), values, device_mesh)
    if Spec.of(made).placements != spec.placements:
        raise TorchError(f"torch {torch.__version__} made {made.placements} instead of {spec}")
    return made


def use(spec: Spec, values: torch.Tensor, device_mesh: DeviceMesh) -> torch.Tensor:
    """What a rank's forward pass sees of a parameter; every rank of the mesh calls it at the same time.

    Args:
        spec: of a parameter that FSDP2 makes.
        values: the whole tensor, the same on every rank.
        device_mesh: torch's mesh of the same ranks.

    Returns:
        This rank's part after `unshard()`: the whole parameter where only FSDP2 cuts it.
    """
    module = _fully_sharded(spec, values, device_mesh)
    assert isinstance(module, FSDPModule)
    module.unshard()
    seen = _weight(module)
    return (seen.to_local() if isinstance(seen, DTensor) else seen).detach()


def _data_dims(spec: Spec) -> int | None:
    """How many leading mesh dimensions FSDP2 would have made (1, or 2 with a replicating one); None where it would not."""
    count = data_dims(spec)
    cut, model = spec.placements[count - 1], spec.placements[count:]
    if not isinstance(cut, Shard | StridedShard) or len(model) > 2 or any(isinstance(p, Partial) for p in model):
        return None
    later = [m for m in spec.cuts(cut.dim) if m >= count]
    factor = math.prod(spec.mesh.sizes[m] for m in later)
    if split_factor(spec, count - 1) != factor or (factor > 1) != isinstance(cut, StridedShard):
        return None
    inner = spec.shape[cut.dim]
    if cut.dim and inner % (factor * spec.mesh.sizes[count - 1]):
        return None  # FSDP2 refuses uneven cuts of other dimensions than the first, and only on some of the ranks
    return count


def _strides_divide(spec: Spec) -> bool:
    """Whether every cut of a dimension that has a strided one divides evenly."""
    for dim in range(spec.ndim):
        if not any(isinstance(spec.placements[m], StridedShard) for m in spec.cuts(dim)):
            continue
        size = spec.shape[dim]
        for mesh_dim in spec.cuts(dim):
            pieces = split_factor(spec, mesh_dim) * spec.mesh.sizes[mesh_dim]
            if size % pieces:
                return False
            size //= spec.mesh.sizes[mesh_dim]
    return True


class _Weight(nn.Module):
    """A module with one parameter: what FSDP2 and tensor parallelism act on."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(values)


class _Cut(ParallelStyle):
    """A tensor-parallel style that distributes a module's parameters by one placement."""

    def __init__(self, placement: TorchPlacement) -> None:
        super().__init__()
        self.placement = placement

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def partition(_: str, part: nn.Module, mesh: DeviceMesh) -> None:
            for name, parameter in list(part.named_parameters(recurse=False)):
                part.register_parameter(name, nn.Parameter(distribute_tensor(parameter.data, mesh, [self.placement])))

        return distribute_module(module, device_mesh, partition)


def _fully_sharded(spec: Spec, values: torch.Tensor, device_mesh: DeviceMesh) -> nn.Module:
    count = _data_dims(spec)
    assert count is not None, "choose_maker chose FSDP2"
    model_names, placements = spec.mesh.names[count:], torch_placements(spec)[count:]
    module: nn.Module = _Weight(values)
    if spec.made_by == "fsdp2-over-tp" and len(model_names) == 1:
        parallelize_module(module, mesh_of(device_mesh, model_names), _Cut(placements[0]))
    elif spec.made_by == "fsdp2-over-tp":  # parallelize_module takes one mesh dimension
        module = _Weight(distribute_tensor(values, mesh_of(device_mesh, model_names), placements))
    elif model_names:
        packed = Spec(spec.shape, _sub_mesh(spec.mesh, model_names), spec.placements[count:])
        module = _Weight(_from_local(layout(packed), values, mesh_of(device_mesh, model_names)))
    dim = spec.placements[count - 1].dim  # type: ignore[union-attr]
    fully_shard(module, mesh=mesh_of(device_mesh, spec.mesh.names[:count]), shard_placement_fn=lambda _: TorchShard(dim))
    return module


def _weight(module: nn.Module) -> torch.Tensor:
    return module.get_parameter("weight")


def _from_local(pieces: Layout, values: torch.Tensor, device_mesh: DeviceMesh) -> DTensor:
    """Place the shards by shardviz's own layout; every rank cuts its own from its copy, nothing is sent."""
    coordinate = device_mesh.get_coordinate()
    assert coordinate is not None, "only ranks of the mesh make the tensor"
    rank = pieces.ranks[pieces.spec.mesh.coordinates.index(tuple(coordinate))].rank
    stride = torch.empty(pieces.spec.shape, device="meta").stride()
    return DTensor.from_local(
        cut(values, pieces, rank),
        device_mesh,
        torch_placements(pieces.spec),
        run_check=False,
        shape=torch.Size(pieces.spec.shape),
        stride=stride,
    )


def _sub_mesh(mesh: Mesh, names: Sequence[str]) -> Mesh:
    return Mesh({name: mesh.sizes[mesh.names.index(name)] for name in names})
