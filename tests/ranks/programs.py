"""What the tests have ranks run: a module of its own, because every rank imports it."""

import os
import signal
import time
import warnings

import torch
import torch.distributed as dist

from shardviz.core.errors import TorchError
from shardviz.ranks import worker


def add_up(x=0):
    total = torch.tensor([float(dist.get_rank() + x)])
    dist.all_reduce(total)
    return dist.get_rank(), float(total)


def pid():
    return os.getpid()


def raise_on(rank, error=ValueError):
    if dist.get_rank() == rank:
        raise error("the shards do not fit")
    dist.barrier()


def exit_on(rank, code):
    if dist.get_rank() == rank:
        print("last words of this rank", flush=True)
        os._exit(code)
    dist.barrier()


def kill_on(rank):
    if dist.get_rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def stall_on(rank):
    if dist.get_rank() == rank:
        time.sleep(600)
    dist.all_reduce(torch.ones(1))


def warn():
    warnings.warn("something torch says", UserWarning, stacklevel=1)
    os.write(2, b"something C++ says\n")
    print("something printed")


def lose_rank_one(spec, device, target=None):
    raise_on(1)


def differ(how):
    me = dist.get_rank()
    if how == "shape":
        dist.all_reduce(torch.ones(1004 if me == 2 else 4))
    elif how == "dtype":
        dist.all_reduce(torch.ones(4, dtype=torch.float64 if me == 2 else torch.float32))
    elif me == 2:  # the order
        dist.broadcast(torch.ones(2), 0)
        dist.all_reduce(torch.ones(3))
    else:
        dist.all_reduce(torch.ones(3))
        dist.broadcast(torch.ones(2), 0)


def raise_on_a_spec(spec, rank):
    raise_on(rank)


def fill_the_log():
    print("x" * 10_000_000, flush=True)


def made_where_fsdp2_has_other_labels(spec):
    make = worker.make

    def other(spec, values, mesh):
        if spec.made_by == "fsdp2":
            raise TorchError("made other placements")
        return make(spec, values, mesh)

    worker.make = other
    try:
        found = worker.answer(spec, "cpu")
        return found and found.made_by
    finally:
        worker.make = make
