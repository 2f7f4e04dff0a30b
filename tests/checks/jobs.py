"""Models as people shard them, that do not come through: built on ranks by the tests of the audit."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from shardviz.ranks.scenarios.models import one_weight


def mesh(*sizes, names=None):
    return DeviceMesh("cpu", torch.arange(dist.get_world_size(), device="cpu").view(sizes), mesh_dim_names=names)


class Word(nn.Module):
    def __init__(self, rows, width=8):
        super().__init__()
        self.word = nn.Embedding(rows, width)

    def forward(self, ids):
        return self.word(ids)


def embedding(rows):
    """An embedding cut by rows over all ranks."""
    plan = {"word": RowwiseParallel(input_layouts=Replicate())}
    return parallelize_module(Word(rows), mesh(dist.get_world_size()), plan)


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(self.up(x).relu())


def perceptron(hidden, dp, tp):
    """FSDP2 over a column-wise layer that hands plain tensors to a row-wise one."""
    both = mesh(dp, tp, names=("dp", "tp"))
    model = parallelize_module(MLP(4, hidden), both["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return fully_shard(model, mesh=both["dp"])


def rows_of_a_grid():
    """Tensor parallelism alone, in each data-parallel row for itself."""
    both = mesh(2, 2, names=("dp", "tp"))
    model = MLP(4, 6)
    style = {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()}
    return parallelize_module(model, both["tp"], style)


def stage():
    """A pipeline of two stages, each on two ranks; only a rank's own layer is there."""
    both = mesh(2, 2, names=("pp", "tp"))
    model = nn.ModuleDict({f"layer{dist.get_rank() // 2}": nn.Linear(5, 5)})
    return parallelize_module(model, both["tp"], {"layer*": ColwiseParallel()})


class Held(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.weight = nn.Parameter(values)
        self.other = nn.Parameter(distribute_tensor(torch.zeros(8, 2), values.device_mesh, [Shard(0)]))


def disagreeing():
    """5, 5, 5 and 2 rows, without a word of the whole."""
    rows = 2 if dist.get_rank() == 3 else 5
    return Held(DTensor.from_local(torch.zeros(rows, 3), mesh(4), [Shard(0)], run_check=False))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(4, 4), nn.Parameter(torch.tensor(1.0))


def scaled():
    """A parameter without dimensions, under FSDP2."""
    return fully_shard(Scaled(), mesh=mesh(4))


def only_two_build():
    """Ranks 2 and 3 cannot build, and the others wait for them."""
    if dist.get_rank() > 1:
        raise ValueError("no room")
    dist.barrier()
    return embedding(8)


def save_each(texts, directory):
    """What a plain save of each comes to, loaded into the same layout again: "refused", "loses elements" or "whole"."""
    found = []
    for number, text in enumerate(texts):
        weight = one_weight(text).weight
        before = weight.to_local().detach().clone()
        try:
            dcp.save({"it": weight}, checkpoint_id=f"{directory}/{number}")
        except dcp.api.CheckpointException:
            found.append("refused")
            continue
        weight.to_local().detach().fill_(-1)
        dcp.load({"it": weight}, checkpoint_id=f"{directory}/{number}")
        found.append("whole" if torch.equal(weight.to_local(), before) else "loses elements")
    return found
