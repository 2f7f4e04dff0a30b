"""What the measured ranks run."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from contextlib import nullcontext

__all__ = ["ask", "break_down", "main"]

SPEC = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
PAIRS = 20
STEPS = 8


def ask() -> None:
    """One torchrun rank: the five-element job, as `Ranks.run` asks it of its ranks."""
    import torch.distributed as dist

    from shardviz.core.spec import parse
    from shardviz.ranks import answers

    dist.init_process_group("gloo")
    answers.answer(parse(SPEC), "cpu")
    answers.torch_run(parse(SPEC), "cpu")
    answers.used(parse(SPEC).with_made_by("fsdp2-over-tp"), "cpu")
    dist.destroy_process_group()


def break_down(how: str, rank: int) -> None:
    """Break on one rank while the others are in a collective."""
    import torch
    import torch.distributed as dist

    if dist.get_rank() == rank:
        if how == "raise":
            raise MemoryError
        if how == "exit":
            os._exit(3)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stall":
            time.sleep(600)
        if how == "differ":
            dist.broadcast(torch.ones(1), rank)
    dist.all_reduce(torch.ones(1))


def train() -> None:
    """One torchrun rank: print how much longer a training step takes when it is recorded, as a ratio of neighbours in time."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from shardviz.ranks.line_file import LineFile
    from shardviz.ranks.listening import listening
    from shardviz.ranks.tape import Tape

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    width = 256
    blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)) for _ in range(2)]
    for block in blocks:
        parallelize_module(block, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    model = nn.Sequential(*blocks)
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(512, width)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    tape = Tape(LineFile(os.path.join(sys.argv[2], f"{dist.get_rank()}"), print), dist.get_rank(), dist.get_world_size())

    def seconds(record: bool) -> float:
        dist.barrier()
        with listening(tape) if record else nullcontext():
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            dist.barrier()
            return time.perf_counter() - began

    for record in (False, True, False):
        seconds(record)
    ratios = []
    for pair in range(PAIRS):
        order = (False, True) if pair % 2 else (True, False)
        took = {record: seconds(record) for record in order}
        ratios.append(took[True] / took[False])
    if dist.get_rank() == 0:
        print(statistics.median(ratios))
    dist.destroy_process_group()


def main() -> None:
    """`torchrun -m shardviz.bench.programs ask`, or `train DIRECTORY`."""
    {"ask": ask, "train": train}[sys.argv[1]]()


if __name__ == "__main__":
    main()
