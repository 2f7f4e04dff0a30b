"""What the tests of whole saves have ranks run: tensors made by plain torch and the definitions, saved and loaded in all ways.

A case is `(name, shape, placements, kind)`: placements as in the oracle; the kind is `"fsdp2"` for what `fully_shard` makes,
and `"left"` for what is read as the definitions say, from left to right where no order is told.
"""

import itertools
import math

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from shardviz.checks.checkpoints.offsets import corrected_offsets
from tests import oracle

STALE = -77.0

LATER = StagingOptions(use_pinned_memory=False, use_shared_memory=False, use_async_staging=True, use_non_blocking_copy=False)
"""A copy of the state that is made in a thread too, so that `async_save` returns before it is there."""

KINDS = {"S": lambda dim: Shard(dim), "SS": lambda dim, factor: _StridedShard(dim, split_factor=factor), "R": Replicate}


def mesh_of(sizes):
    return DeviceMesh("cpu", torch.arange(math.prod(sizes)).view(sizes), mesh_dim_names=tuple("abc"[: len(sizes)]))


def whole_tensor(shape):
    return torch.arange(1.0, 1 + math.prod(shape)).view(shape)


def held(shape, sizes, placements, kind, coordinate):
    """What a rank holds, element by element."""
    part = whole_tensor(shape)
    for dim, indices in enumerate(oracle.holdings(shape, sizes, placements, by_fsdp2=kind == "fsdp2")[tuple(coordinate)]):
        part = part.index_select(dim, torch.tensor(indices, dtype=torch.int64))
    return part


def placed(shape, sizes, placements, kind, mesh):
    made = [KINDS[name](*rest) for name, *rest in placements]
    part = held(shape, sizes, placements, kind, mesh.get_coordinate())
    return DTensor.from_local(part, mesh, made, run_check=False, shape=torch.Size(shape), stride=whole_tensor(shape).stride())


def sweep(directory, sizes, cases, made_by=None):
    """Save many tensors on the first ranks at once, and load them back; the names that came back other than they were."""
    wrong = []
    mesh, group = mesh_of(sizes), dist.new_group(list(range(math.prod(sizes))))  # all ranks call these
    if dist.get_rank() < math.prod(sizes):
        state = {name: placed(shape, sizes, cuts, kind, mesh) for name, shape, cuts, kind in cases}
        with corrected_offsets(made_by):
            dcp.save(state, checkpoint_id=directory, process_group=group)
        full = {name: torch.full(shape, STALE) for name, shape, _, _ in cases}
        if dist.get_rank() == 0:
            dcp.load(full, checkpoint_id=directory, no_dist=True)
            wrong += [f"{name} in full" for name, shape, _, _ in cases if not torch.equal(full[name], whole_tensor(shape))]
        parts = {name: tensor.to_local().clone() for name, tensor in state.items()}
        for tensor in state.values():
            tensor.to_local().fill_(STALE)
        with corrected_offsets(made_by):
            dcp.load(state, checkpoint_id=directory, process_group=group)
        wrong += [f"{name} in its layout" for name, tensor in state.items() if not torch.equal(tensor.to_local(), parts[name])]
    dist.barrier()
    return wrong


class Weights(nn.Module):
    """Parameters by name."""

    def __init__(self, parameters):
        super().__init__()
        for name, parameter in parameters.items():
            self.register_parameter(name, nn.Parameter(parameter))


PACKED = {
    "packed": ((9, 3), (("SS", 0, 2), ("SS", 0, 2))),
    "even": ((8, 3), (("SS", 0, 2), ("SS", 0, 3))),
    "plain": ((9, 3), (("SS", 0, 2), ("S", 0))),
    "experts": ((4, 8), (("S", 0), ("SS", 1, 2))),
}
"""FSDP2 on two ranks over what tensor parallelism on two made of it."""


def fully_sharded(device="cpu"):
    """A model whose parameters FSDP2 sharded, of packed weights among others."""
    mesh = mesh_of((2, 2))
    inner = {}
    for name, (shape, placements) in PACKED.items():
        inner[name] = placed(shape, (2,), placements[1:], "left", mesh["b"])
    model = Weights(inner)
    fully_shard(model, mesh=mesh["a"])
    assert {name: str(p.placements) for name, p in model.named_parameters()} == {
        name: str(tuple(KINDS[kind](*rest) for kind, *rest in placements)) for name, (_, placements) in PACKED.items()
    }
    return model.to_empty(device=device) if device == "meta" else model


def packed_trip(directory, how):
    """Save FSDP2's packed weights and their AdamW state in some way; names that come back wrong, in full and in place."""
    model = fully_sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    for parameter in model.parameters():
        parameter.grad = parameter.detach().clone()
    optimizer.step()
    coordinate = mesh_of((2, 2)).get_coordinate()
    with torch.no_grad():  # after the step a weight is no longer what the definitions say it is
        for name, parameter in model.named_parameters():
            shape, placements = PACKED[name]
            parameter.to_local().copy_(held(shape, (2, 2), placements, "fsdp2", coordinate))
            optimizer.state[parameter]["exp_avg"].to_local().copy_(-parameter.to_local())
    moments = {name: optimizer.state[parameter]["exp_avg"] for name, parameter in model.named_parameters()}
    state = {"model": model.state_dict(), "moments": moments}
    with corrected_offsets():
        if how == "save":
            dcp.save(state, checkpoint_id=directory)
            waited = None
        elif how == "hugging":
            flat = {f"{kind}.{name}": tensor for kind, part in state.items() for name, tensor in part.items()}
            writer = dcp.HuggingFaceStorageWriter(directory, save_distributed=True, enable_consolidation=True)
            waited = dcp.save(flat, storage_writer=writer)
        elif how == "staged":
            waited = dcp.async_save(state, checkpoint_id=directory, async_stager=DefaultStager(LATER))
            waited.staging_completion.result(60)
        else:
            waited = dcp.async_save(state, checkpoint_id=directory, async_checkpointer_type=AsyncCheckpointerType[how])
    if how in ("staged", "THREAD", "PROCESS"):
        for parameter in model.parameters():
            parameter.to_local().data.fill_(STALE)  # what happens after async_save returned is not saved
        getattr(waited, "upload_completion", waited).result(60)
    dist.barrier()
    if how == "hugging":
        from safetensors.torch import load_file

        found = load_file(f"{directory}/model-00001-of-00001.safetensors")
    else:
        full = {kind: {name: torch.full(shape, STALE) for name, (shape, _) in PACKED.items()} for kind in ("model", "moments")}
        dcp.load(full, checkpoint_id=directory)
        found = {f"{kind}.{name}": tensor for kind, part in full.items() for name, tensor in part.items()}
    wrong = []
    for name, (shape, _) in PACKED.items():
        wrong += [f"model.{name}"] * (not torch.equal(found[f"model.{name}"], whole_tensor(shape)))
        wrong += [f"moments.{name}"] * (not torch.equal(found[f"moments.{name}"], -whole_tensor(shape)))
    if how == "save":
        return wrong + loaded_in_place(directory, coordinate), without_correction(directory, coordinate)
    return wrong, []


def differing(model, coordinate):
    return [
        name
        for name, parameter in model.named_parameters()
        if not torch.equal(parameter.to_local(), held(PACKED[name][0], (2, 2), PACKED[name][1], "fsdp2", coordinate))
    ]


def emptied():
    model = fully_sharded()
    for parameter in model.parameters():
        parameter.to_local().data.fill_(STALE)
    return model


def loaded_in_place(directory, coordinate):
    """Load into FSDP2's parameters, and give them rank 0's whole tensors; what is not as it should be."""
    model = emptied()
    with corrected_offsets():
        dcp.load({"model": model.state_dict()}, checkpoint_id=directory)
    wrong = [f"{name} loaded" for name in differing(model, coordinate)]
    for device, broadcast in itertools.product(("cpu", "meta"), (True, False)):
        model = emptied() if device == "cpu" else fully_sharded("meta")
        full = {name: whole_tensor(shape) for name, (shape, _) in PACKED.items()}
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=broadcast)
        with corrected_offsets():
            set_model_state_dict(model, {} if broadcast and dist.get_rank() else full, options=options)
        wrong += [f"{name} set on {device}, broadcast {broadcast}" for name in differing(model, coordinate)]
    return wrong


def without_correction(directory, coordinate):
    """What plain torch loads wrongly into the same layout, without a word."""
    model = emptied()
    dcp.load({"model": model.state_dict()}, checkpoint_id=directory)
    return differing(model, coordinate)


def refusals(directory):
    """What is refused, by what was tried."""
    mesh, found = mesh_of((2, 2)), {}
    case = (8,), (2, 2), (("SS", 0, 2), ("SS", 0, 2)), "left", mesh
    writer = dcp.HuggingFaceStorageWriter
    tries = {
        "two layouts": ({"w": placed(*case)}, {"checkpoint_id": f"{directory}/two"}),
        "one file": (
            {"w": placed((4,), (2, 2), (("S", 0), ("R",)), "left", mesh)},
            {"storage_writer": writer(f"{directory}/one")},
        ),
        "no dimension": (
            {"step": torch.tensor(7.0)},
            {"storage_writer": writer(f"{directory}/none", save_distributed=True, enable_consolidation=True)},
        ),
    }
    for name, (state, more) in tries.items():
        try:
            with corrected_offsets():
                dcp.save(state, **more)
            found[name] = ""
        except dcp.api.CheckpointException as error:
            found[name] = str(error)
    try:
        with corrected_offsets():
            dcp.async_save({"w": placed(*case)}, checkpoint_id=f"{directory}/two").result(60)
    except dcp.api.CheckpointException as error:
        found["later"] = str(error)
    return found
