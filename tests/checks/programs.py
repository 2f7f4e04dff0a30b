"""What the tests of checkpoints have ranks run, in a light module: models trained and saved by plain torch."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._pytree import tree_map_only

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


class Pair(nn.Module):
    """A parameter of one dimension, and a second one of two."""

    def __init__(self, one, two):
        super().__init__()
        self.one, self.two = nn.Parameter(one), nn.Parameter(two)


def paired(text, mesh, start=0.0, device="cpu"):
    """A model of two parameters cut as the text says: by FSDP2 where it makes such cuts, by redistribution otherwise."""
    spec = parse(text)
    values = torch.arange(start + 1, start + 1 + spec.numel, device=device)
    made = []
    for whole_one in (values, torch.stack([values, -values], 1)):
        if "_S" in text.partition(",")[2].partition("), ")[2]:  # nested strides
            made.append(
                make(Spec(whole_one.shape, spec.mesh, spec.placements, made_by="redistribute"), whole_one, mesh).detach()
            )
        else:
            inner = spec.mesh.names[1:]
            made.append(
                distribute_tensor(whole_one, mesh[inner[0]] if len(inner) == 1 else mesh[inner], [TorchShard(0)] * len(inner))
            )
    model = Pair(*made)
    if Spec.of(model.one).placements != spec.placements:
        fully_shard(model, mesh=mesh[spec.mesh.names[0]])
    assert all(Spec.of(parameter).placements == spec.placements for parameter in model.parameters())
    return model, torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)


def members(text):
    """A mesh over the first ranks, and their group; all ranks call it, the others get None."""
    mesh = parse(text).mesh
    ranks = torch.arange(mesh.size)
    made = DeviceMesh("cpu", ranks.view(mesh.sizes), mesh_dim_names=mesh.names), dist.new_group(ranks.tolist())
    return made if dist.get_rank() < mesh.size else None


def stepped(model, optimizer):
    for parameter in model.parameters():
        parameter.grad = parameter.detach() * 0.5
    optimizer.step()


def wrong_names(state, right):
    return [name for name, tensor in whole(state).items() if not torch.equal(tensor, right[name])]


def corrected_trip(directory, text, others):
    """Save with corrected offsets and load in every way; by what is done, the names that came back wrong."""
    found = {}
    joined = members(text)
    right = None
    if joined:
        mesh, group = joined
        model, optimizer = paired(text, mesh)
        stepped(model, optimizer)
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optim": moments}
        right = whole(state)
        with corrected_offsets():
            dcp.save(state, checkpoint_id=directory, process_group=group)
        if dist.get_rank() == 0:
            torch.save(right, f"{directory}/truth")
    dist.barrier()
    right = right or torch.load(f"{directory}/truth")
    for other in (text, *others):
        if joined := members(other):
            mesh, group = joined
            model, optimizer = paired(other, mesh, 1000.0)
            weights, moments = get_state_dict(model, optimizer)
            state = {"model": weights, "optim": moments}
            with corrected_offsets():
                dcp.load(state, checkpoint_id=directory, process_group=group)
                set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
            found[other] = wrong_names(dict(zip(("model", "optim"), get_state_dict(model, optimizer), strict=True)), right)
    found["plain"] = plain_load(directory, text, right)
    if parse(text).mesh.size == dist.get_world_size():
        found["broadcast"] = broadcast(text, members(text)[0], right)
    return found


def plain_load(directory, text, right):
    """Load without corrected offsets into the layout of the save: "raises", or the names that came back wrong."""
    joined = members(text)
    if not joined:
        return "raises"
    mesh, group = joined
    model, _ = paired(text, mesh, 1000.0)
    state = {"model": dict(model.named_parameters())}
    try:
        dcp.load(state, checkpoint_id=directory, process_group=group)
    except dcp.api.CheckpointException:
        return "raises"
    return wrong_names(state, right)


def broadcast(text, mesh, right):
    """Give rank 0's full state to parameters that are there, and to ones on the meta device; what came out wrong."""
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    model, optimizer = paired(text, mesh)
    stepped(model, optimizer)
    weights, moments = (tree_map_only(DTensor, DTensor.full_tensor, state) for state in get_state_dict(model, optimizer))
    if dist.get_rank():
        weights, moments = {}, {}
    model, optimizer = paired(text, mesh, 1000.0)
    with corrected_offsets():
        set_model_state_dict(model, dict(weights), options=options)
        set_optimizer_state_dict(model, optimizer, moments, options=options)
    wrong = wrong_names(dict(zip(("model", "optim"), get_state_dict(model, optimizer), strict=True)), right)
    if "fsdp" in type(model).__name__.lower():
        model, _ = paired(text, mesh, device="meta")
        with corrected_offsets():
            set_model_state_dict(model, weights, options=options)
        wrong += wrong_names({"model": dict(model.named_parameters())}, right)
    return wrong


def save_a_wrong_shard(directory, text):
    """Save a tensor of which one rank holds a row less than its placements say; how that ends, by rank."""
    mesh, _ = members(text)
    state = {"t": paired(text, mesh)[0].one.detach()}
    if dist.get_rank() == 1:
        state["t"]._local_tensor = state["t"].to_local()[:-1]
    try:
        with corrected_offsets():
            dcp.save(state, checkpoint_id=directory)
    except dcp.api.CheckpointException as error:
        return str(error)
    return ""


def save_unequal(directory, parts, whole_shape):
    """Save what each rank's program made with `from_local`, parts of other sizes than equal chunks have."""
    mesh = DeviceMesh("cpu", torch.arange(dist.get_world_size()))
    state = {}
    for place, (sizes, shape) in enumerate(zip(parts, whole_shape, strict=True)):
        rank, before = dist.get_rank(), sum(sizes[: dist.get_rank()])
        rows = torch.arange(1.0, 1 + sum(sizes) * shape[1]).view(-1, shape[1])[before : before + sizes[rank]]
        state[f"t{place}"] = DTensor.from_local(
            rows.clone(), mesh, [TorchShard(0)], run_check=False, shape=torch.Size(shape), stride=(shape[1], 1)
        )
    dcp.save(state, checkpoint_id=directory)
