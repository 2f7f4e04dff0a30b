"""Run as a program: shard a module on a mesh of pretended ranks, by a plan or its own builder, and print its parameters."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.module import Plan, plans_of
from shardviz.core.mesh import Mesh
from shardviz.core.spec import Spec
from shardviz.tensors.reported import mesh_of

__all__ = ["apply", "build"]


def apply(model: nn.Module, plan: Plan, grid: Grid) -> nn.Module:
    """The plan and FSDP2, put on a model."""
    _pretend(grid.mesh.size)
    mesh = init_device_mesh("cpu", grid.mesh.sizes, mesh_dim_names=grid.mesh.names)
    model = model.to("meta")
    _parallelize(model, plan, grid, mesh)
    if grid.data:
        # FSDP2 refuses a parameter without dimensions, and with it the model; the audit tells it of that parameter alone.
        scalars = {parameter for parameter in model.parameters() if not parameter.ndim}
        fully_shard(model, mesh=mesh_of(mesh, grid.mesh.names[: grid.data]), ignored_params=scalars or None)
    return model


def build(builder: Callable[..., Any], args: tuple[Any, ...], given: Mesh) -> nn.Module:
    """The model that a builder makes on a mesh."""
    _pretend(given.size)
    model = builder(init_device_mesh("cpu", given.sizes, mesh_dim_names=given.names), *args)
    if not isinstance(model, nn.Module):
        raise TypeError(f"it gave a {type(model).__name__}; right would be the model, an nn.Module")
    return model


def _pretend(size: int) -> None:
    dist.init_process_group("fake", rank=0, world_size=size)


def _described(model: nn.Module) -> tuple[list[Any], list[str]]:
    """Every parameter as plain data, and the names of those that are no DTensors."""
    made_by = "fsdp2" if any(isinstance(module, FSDPModule) for module in model.modules()) else None
    found, plain = [], []
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor):
            plain.append(name)
            continue
        spec = Spec.of(parameter)
        placements = [str(placement) for placement in spec.placements]
        found.append([name, spec.shape, spec.mesh.names, spec.mesh.sizes, spec.mesh.ranks, placements, made_by])
    return found, plain


def _parallelize(model: nn.Module, plan: Plan, grid: Grid, mesh: DeviceMesh) -> None:
    if callable(plan):
        plan(model, mesh)
        return
    for name, styles in plans_of(grid, plan):
        parallelize_module(model, mesh_of(mesh, [name]), dict(styles))


def main() -> None:
    """Read the job from standard input, print the parameters as JSON."""
    path, packed = pickle.loads(sys.stdin.buffer.read())
    sys.path.extend(entry for entry in path if entry not in sys.path)
    torch.set_num_threads(1)
    kind, *job = pickle.loads(packed)
    model = build(*job) if kind == "build" else apply(*job)
    print(json.dumps(_described(model)))


if __name__ == "__main__":
    main()
