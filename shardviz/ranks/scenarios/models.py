"""The models of the scenarios, as people shard them: the multi-layer perceptron of torch's own tests, and one bare weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint as recomputed

from shardviz.core.layout import layout
from shardviz.core.mesh import Mesh
from shardviz.core.placements import Replicate, Shard, StridedShard
from shardviz.core.spec import Spec, parse
from shardviz.tensors.reported import mesh_of, torch_placements
from shardviz.tensors.sharding import cut

__all__ = ["MLP", "Stack", "Weight", "device_mesh", "one_weight", "parallelize", "sharded_stack", "whole_stack"]


class MLP(nn.Module):
    """Two layers with a wider one between; the `dim_multiplier` of torch's own tests says how much wider."""

    def __init__(self, dim: int, dim_multiplier: int = 4) -> None:
        super().__init__()
        self.in_proj = nn.Linear(dim, dim_multiplier * dim)
        self.out_proj = nn.Linear(dim_multiplier * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both layers, each with a ReLU."""
        out: torch.Tensor = torch.relu(self.out_proj(torch.relu(self.in_proj(x))))
        return out


class Stack(nn.Sequential):
    """Perceptrons one after the other; with `recompute` their activations are computed again in the backward pass."""

    recompute = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All of them."""
        for part in self:
            x = recomputed(part, x, use_reentrant=False) if self.recompute else part(x)
        return x


def whole_stack(width: int, layers: int, multiplier: int, middle: int | None = None) -> Stack:
    """The same stack in every process, in float64, so that sums in another order do not matter."""
    torch.manual_seed(0)
    wider = [middle if middle and 0 < number < layers - 1 else multiplier for number in range(layers)]
    return Stack(*(MLP(width, times) for times in wider)).double()


def parallelize(model: Stack, mesh: DeviceMesh, reshard: bool = True, left_out: Sequence[str] = ()) -> Stack:
    """Tensor parallelism over `tp`, then FSDP2 over what else the mesh has."""
    names = mesh.mesh_dim_names or ()
    if "tp" in names:
        plan: dict[str, ParallelStyle] = {}
        for number in range(len(model)):
            plan[f"{number}.in_proj"] = ColwiseParallel(use_local_output=False)
            plan[f"{number}.out_proj"] = RowwiseParallel(use_local_output=number == len(model) - 1)
        kept = {name: style for name, style in plan.items() if name.partition(".")[0] not in left_out}
        parallelize_module(model, mesh["tp"], kept)
    data = [name for name in names if name != "tp"]
    if data:
        for part in model:
            fully_shard(part, mesh=mesh_of(mesh, data), reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh_of(mesh, data), reshard_after_forward=reshard)
    return model


def sharded_stack(width: int, mesh: Mapping[str, int], layers: int, multiplier: int) -> Stack:
    """A whole stack, sharded."""
    return parallelize(whole_stack(width, layers, multiplier), device_mesh(Mesh(dict(mesh))))


class Weight(nn.Module):
    """A module with one parameter, which it multiplies with."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)


def device_mesh(mesh: Mesh) -> DeviceMesh:
    """Torch's mesh of the same ranks, on the device that the group is for; the same one for equal meshes."""
    return _device_mesh(mesh, dist.group.WORLD)


@lru_cache(maxsize=32)
def _device_mesh(mesh: Mesh, _group: object) -> DeviceMesh:
    kind = "cuda" if "nccl" in dist.get_backend() else "cpu"
    ranks = torch.tensor(mesh.ranks, device="cpu").view(mesh.sizes)  # named: a model may be made on the meta device
    return DeviceMesh(kind, ranks, mesh_dim_names=mesh.names)


def one_weight(text: str) -> Weight:
    """A model of one parameter whose elements count from 1; on the meta device inside `torch.device("meta")`.

    FSDP2 makes the leftmost cut (with a replica to its left, if any); what is behind it is cut first.
    """
    spec = parse(text)
    mesh = device_mesh(spec.mesh)
    data = 2 if isinstance(spec.placements[0], Replicate) and spec.mesh.ndim > 1 else 1
    names = spec.mesh.names
    values = torch.arange(1, spec.numel + 1, dtype=torch.float32).view(spec.shape)
    if data < spec.mesh.ndim:
        sizes = dict(zip(names[data:], spec.mesh.sizes[data:], strict=True))
        count = math.prod(sizes.values())
        first = dist.get_rank() // count * count
        inner = Spec(spec.shape, Mesh(sizes, range(first, first + count)), spec.placements[data:])
        piece = cut(values, layout(inner), dist.get_rank())
        values = DTensor.from_local(
            piece,
            mesh_of(mesh, names[data:]),
            torch_placements(spec)[data:],
            run_check=False,
            shape=torch.Size(spec.shape),
            stride=torch.empty(spec.shape, device="meta").stride(),
        )
    model = Weight(values)
    outer = spec.placements[data - 1]
    dim = outer.dim if isinstance(outer, Shard | StridedShard) else 0
    fully_shard(model, mesh=mesh_of(mesh, names[:data]), shard_placement_fn=lambda _: TorchShard(dim))
    made = Spec.of(model.weight)
    assert made.placements == spec.placements, f"FSDP2 makes {made}, not {spec}"
    return model
