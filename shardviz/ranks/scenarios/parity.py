"""Training on ranks beside training in a single process."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from shardviz.core.mesh import Mesh
from shardviz.ranks.scenarios import Training
from shardviz.ranks.scenarios.models import device_mesh, parallelize, whole_stack

__all__ = ["training", "unlike"]

BATCH = 4


def training(width: int, sizes: Mapping[str, int], reshard: bool, recompute: bool, steps: int) -> Training:
    """See `scenarios.training`."""
    mesh = Mesh(dict(sizes))
    replicas = math.prod(size for name, size in sizes.items() if name != "tp")
    mine = dist.get_rank() // sizes.get("tp", 1)  # the model's dimension is the last: its ranks see the same data
    alone = whole_stack(width, 3, 3, middle=4)
    model = parallelize(whole_stack(width, 3, 3, middle=4), device_mesh(mesh), reshard)
    model.recompute = recompute
    before = unlike(model, alone)
    optimizers = [torch.optim.Adam(one.parameters(), lr=1e-2, foreach=False) for one in (model, alone)]
    losses, reference = [], []
    for step in range(steps):
        data = [_batch(width, step, replica) for replica in range(replicas)]
        loss = _loss(model(data[mine]))
        loss.backward()
        losses.append(loss.item())
        each = [_loss(alone(batch)) for batch in data]
        (torch.stack(each).sum() / replicas).backward()  # FSDP2 averages the gradients
        reference.append(each[mine].item())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return Training(tuple(losses), tuple(reference), before, unlike(model, alone))


def unlike(model: nn.Module, alone: nn.Module) -> tuple[str, ...]:
    """The parameters that are not, put together, those of a single process; and those that are no DTensors."""
    right = dict(alone.named_parameters())
    return tuple(
        name
        for name, parameter in model.named_parameters()
        if not isinstance(parameter, DTensor) or not torch.allclose(parameter.full_tensor(), right[name], rtol=1e-9, atol=1e-12)
    )


def _batch(width: int, step: int, replica: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + replica)
    return torch.rand(BATCH, width, generator=generator, dtype=torch.float64).to(_device())


def _loss(out: torch.Tensor) -> torch.Tensor:
    whole = out.full_tensor() if isinstance(out, DTensor) else out
    return (whole - 1).square().sum()


def _device() -> str:
    return "cuda" if "nccl" in dist.get_backend() else "cpu"
