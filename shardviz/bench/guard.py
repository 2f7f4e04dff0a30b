"""The guard of a model on eight ranks: what it costs to have every rank compare every parameter with every other."""

from __future__ import annotations

import time
from collections.abc import Iterator

from shardviz.bench.measure import Measurement
from shardviz.ranks.cluster import Ranks

__all__ = ["bench_guard"]

N, PARAMETERS, MODULES = 8, 1000, 100
AIM = 1.0
ROUNDS = 5


def bench_guard() -> Iterator[Measurement]:
    """1,000 small parameters on eight gloo ranks, the slowest rank each time, the best of some rounds."""
    with Ranks(N, timeout=120) as ranks:
        compared, copied, used = (min(map(max, zip(*ranks.apply(guard_seconds, how), strict=True))) for how in HOW)
    about = f"{PARAMETERS:,} parameters on {N} ranks guarded"
    yield Measurement(f"{about}, no copies", compared, "seconds", f"at most {AIM:g}", compared <= AIM)
    yield Measurement(f"{about}, each a copy of another rank's, with checksums", copied, "seconds")
    yield Measurement(f"{about}, in {MODULES} FSDP2 modules that are unsharded", used, "seconds")


HOW = ("cut", "copied", "fsdp2")


def guard_seconds(how: str) -> tuple[float, ...]:
    """On a rank: the seconds of several guards of a model that is sharded in one of the three ways."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard

    from shardviz.checks.guard import guard

    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (N // 2, 2), mesh_dim_names=("dp", "tp"))
    placements = [Shard(0), Replicate() if how == "copied" else Shard(1)]
    layers = [nn.Module() for _ in range(MODULES)]
    for layer in layers:
        for number in range(PARAMETERS // MODULES):
            if how == "fsdp2":
                values = DTensor.from_local(torch.ones(16, 8), mesh["tp"], [Shard(1)], run_check=False)
            else:
                values = DTensor.from_local(torch.ones(4, 8), mesh, placements, run_check=False)
            layer.register_parameter(f"weight{number}", nn.Parameter(values))
        if how == "fsdp2":
            fully_shard(layer, mesh=mesh["dp"])
    model = nn.ModuleList(layers)
    took = []
    for _ in range(ROUNDS):
        dist.barrier()
        began = time.perf_counter()
        guard(model)
        took.append(time.perf_counter() - began)
    return tuple(took)
