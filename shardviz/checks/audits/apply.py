"""Run as a program: apply a plan and FSDP2 to a module on a mesh of pretended ranks, and print what its parameters are."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.module import Plan, plans_of
from shardviz.core.spec import Spec
from shardviz.tensors.reported import mesh_of

__all__ = ["apply"]


def apply(model: nn.Module, plan: Plan, grid: Grid) -> list[Any]:
    """What every parameter is after the plan and FSDP2, as plain data."""
    dist.init_process_group("fake", rank=0, world_size=grid.mesh.size)
    mesh = init_device_mesh("cpu", grid.mesh.sizes, mesh_dim_names=grid.mesh.names)
    model = model.to("meta")
    _parallelize(model, plan, grid, mesh)
    if grid.data:
        fully_shard(model, mesh=mesh_of(mesh, grid.mesh.names[: grid.data]))
    made_by = "fsdp2" if grid.data else None
    found = []
    for name, parameter in model.named_parameters():
        if isinstance(parameter, DTensor):
            spec = Spec.of(parameter)
            placements = [str(placement) for placement in spec.placements]
            found.append([name, spec.shape, spec.mesh.names, spec.mesh.sizes, spec.mesh.ranks, placements, made_by])
    return found


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
    model, plan, grid = pickle.loads(packed)
    torch.set_num_threads(1)
    print(json.dumps(apply(model, plan, grid)))


if __name__ == "__main__":
    main()
