"""What the tests of checkpoints have ranks run, in a light module: models trained and saved by plain torch."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from shardviz.checks.checkpoints.offsets import corrected_offsets
from shardviz.core.spec import Spec, parse
from shardviz.tensors.making import make


class Two(nn.Module):
    """Two layers of one width, cut by column and by row."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def sharded(width, dp, tp, seed=0):
    mesh = DeviceMesh("cpu", torch.arange(dp * tp).view(dp, tp), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(seed)
    model = Two(width)
    plan = {
        "first": ColwiseParallel(use_local_output=False),
        "second": RowwiseParallel(use_local_output=False),
    }
    parallelize_module(model, mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    return model


def trained(width, dp, tp):
    """A model after one step of AdamW: every moment of it is a number."""
    model = sharded(width, dp, tp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    out = model(torch.arange(width, dtype=torch.float32).view(1, width) / width)
    (out * out).sum().backward()
    optimizer.step()
    return model, optimizer


def whole(state):
    """Every tensor of a state dict in full, under the name that a checkpoint gives it."""
    found = {}

    def walk(value, name):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{name}.{key}" if name else str(key))
        elif isinstance(value, DTensor):
            found[name] = value.full_tensor().detach().clone()
        elif isinstance(value, torch.Tensor):
            found[name] = value.detach().clone()

    walk(state, "")
    return found


def save_trained(directory, width, dp, tp, truth, corrected=False):
    """Train, save model and optimizer, and leave what the checkpoint should hold in the file `truth`."""
    model, optimizer = trained(width, dp, tp)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optim": moments}
    right = whole(state)
    with corrected_offsets() if corrected else nullcontext():
        dcp.save(state, checkpoint_id=directory)
    if dist.get_rank() == 0:
        torch.save(right, truth)


def load_into_sharded(directory, width, dp, tp, corrected):
    """Load model and optimizer state onto a mesh; what every tensor then is in full."""
    model = sharded(width, dp, tp, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optim": moments}
    with corrected_offsets() if corrected else nullcontext():
        dcp.load(state, checkpoint_id=directory)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    return {name: tensor.tolist() for name, tensor in whole(state).items()}


def save_specs(directory, texts, storage=None, corrected=False):
    """Save one tensor per spec, numbered from 1; `hf` and `hf-whole` are the Hugging Face writer, apart or in one file."""
    state = {}
    meshes = {}
    for place, text in enumerate(texts):
        spec = parse(text)
        key = (spec.mesh.names, spec.mesh.sizes)
        if key not in meshes:
            meshes[key] = DeviceMesh("cpu", torch.arange(spec.mesh.size).view(spec.mesh.sizes), mesh_dim_names=spec.mesh.names)
        values = torch.arange(1, spec.numel + 1, dtype=torch.float32).view(spec.shape)
        made = make(spec.with_made_by("redistribute"), values, meshes[key])
        state[f"t{place}"] = made.detach()
    writer = None
    if storage:
        writer = dcp.HuggingFaceStorageWriter(directory, save_distributed=True, enable_consolidation=storage == "hf-whole")
    with corrected_offsets() if corrected else nullcontext():
        dcp.save(state, checkpoint_id=directory, storage_writer=writer)


class One(nn.Module):
    """One parameter."""

    def __init__(self, values):
        super().__init__()
        self.weight = nn.Parameter(values)


def save_one(directory, text, truth):
    """Save one trained parameter of FSDP2 over tensor parallelism, and the state of its AdamW."""
    spec = parse(text)
    inner = spec.mesh.names[1:]
    mesh = DeviceMesh("cpu", torch.arange(spec.mesh.size).view(spec.mesh.sizes), mesh_dim_names=spec.mesh.names)
    values = torch.arange(1, spec.numel + 1, dtype=torch.float32).view(spec.shape)
    model = One(distribute_tensor(values, mesh[inner[0]] if len(inner) == 1 else mesh[inner], [TorchShard(0)] * len(inner)))
    fully_shard(model, mesh=mesh[spec.mesh.names[0]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    model.weight.grad = model.weight.detach() * 0.5
    optimizer.step()
    assert Spec.of(model.weight).placements == spec.placements
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optim": moments}
    right = whole(state)
    dcp.save(state, checkpoint_id=directory)
    if dist.get_rank() == 0:
        torch.save(right, truth)
