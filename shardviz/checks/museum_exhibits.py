"""The exhibits of the museum: each in plain torch, called by every rank at the same time.

An exhibit returns whether what came out is right, and what it was, in words; what torch raises goes through. The source of one,
with the helpers that stand first, is the stand-alone script that reproduces a card.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from shardviz.core.placements import StridedShard
from shardviz.tensors.reported import torch_placement

__all__ = ["EXHIBITS"]

Came: TypeAlias = tuple[bool, str]


def strided(dim: int, split_factor: int) -> Any:
    """Torch's strided shard."""
    return torch_placement(StridedShard(dim, split_factor))


class Weight(nn.Module):
    """One parameter."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.weight: Any = nn.Parameter(values)


def named_mesh(**sizes: int) -> DeviceMesh:
    """A mesh of all ranks."""
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def fsdp_over_tp(values: torch.Tensor, dp: int, tp: int) -> Weight:
    """A weight that tensor parallelism cuts along dimension 0, and FSDP2 then."""
    mesh = named_mesh(dp=dp, tp=tp)
    model = Weight(distribute_tensor(values, mesh["tp"], [Shard(0)], src_data_rank=None))
    fully_shard(model, mesh=mesh["dp"])
    return model


@contextmanager
def common_directory() -> Iterator[str]:
    """A directory for a while, the same on every rank."""
    found = [tempfile.mkdtemp(prefix="museum-") if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(found)
    try:
        yield found[0]
    finally:
        if dist.get_rank() == 0:
            shutil.rmtree(found[0], ignore_errors=True)


def everyone(right: bool, said: str) -> Came:
    """Whether it is right on all ranks; in words what the first rank has where it is not."""
    found: list[Came] = [(True, "")] * dist.get_world_size()
    dist.all_gather_object(found, (right, said))
    return next((one for one in found if not one[0]), found[0])


def compare(found: torch.Tensor, right: torch.Tensor) -> Came:
    """Whether a tensor is as it should be, on all ranks; in words what it is, or where it is not."""
    if found.shape != right.shape:
        return everyone(False, f"shape {tuple(found.shape)} instead of {tuple(right.shape)}: {found.flatten()[:20].tolist()}")
    if found.numel() <= 20:
        return everyone(torch.equal(found, right), f"{found.tolist()}")
    wrong = (found != right).flatten(1).any(1) if found.ndim > 1 else found != right
    rows = wrong.nonzero().flatten().tolist()
    return everyone(not rows, f"rows {rows[0]} to {rows[-1]} are wrong, {len(rows)} in all" if rows else "right")


def checkpoint(rows: int, dp: int, tp: int) -> Came:
    """Save a weight of FSDP2 over TP, overwrite it, load it into the same layout."""
    right = torch.arange(float(rows))
    state = {"weight": fsdp_over_tp(right, dp, tp).weight.detach()}
    with common_directory() as directory:
        save(state, checkpoint_id=directory)
        state["weight"].to_local().fill_(-1)
        load(state, checkpoint_id=directory)
        return compare(state["weight"].full_tensor(), right)


def reported(sizes: Sequence[int], placements: Sequence[Any]) -> Came:
    """What a checkpoint would be told of each shard, beside what the shard holds."""
    mesh = named_mesh(**{f"m{number}": size for number, size in enumerate(sizes)})
    rows = torch.arange(9 if placements[1] == strided(0, 2) else 6)
    made = distribute_tensor(rows, mesh, [Replicate()] * mesh.ndim).redistribute(mesh, placements)
    held, (chunk,) = made.to_local().tolist(), made.__create_chunk_list__()
    said = list(range(chunk.offsets[0], chunk.offsets[0] + chunk.sizes[0]))
    return everyone(held == said, f"rank {dist.get_rank()} holds {held} and is reported {said}")


def nested_strides() -> Came:
    """Three cuts of one dimension, the innermost first."""
    return reported((2, 2, 2), (strided(0, 4), strided(0, 2), Shard(0)))


def three_cuts() -> Came:
    """FSDP2 over expert and tensor parallelism."""
    return reported((2, 2, 2), (strided(0, 4), Shard(0), Shard(0)))


def reconstruct(rows: int, dp: int, tp: int) -> Came:
    """Put a weight of FSDP2 over TP together."""
    right = torch.arange(float(rows))
    return compare(fsdp_over_tp(right, dp, tp).weight.detach().full_tensor(), right)


def lone_strided_shard() -> Came:
    """One strided cut over four ranks, put together from its shards."""
    held = ([0, 1, 5], [2, 3, 6], [4, 7], [8])[dist.get_rank()]
    made = DTensor.from_local(
        torch.tensor(held), named_mesh(x=4), [strided(0, 2)], run_check=False, shape=torch.Size([9]), stride=(1,)
    )
    return compare(made.full_tensor(), torch.arange(9))


def strided_scatter() -> Came:
    """Scatter five elements as FSDP2 over TP would have them."""
    made = distribute_tensor(torch.arange(5), named_mesh(dp=2, tp=2), [strided(0, 2), Shard(0)])
    return compare(made.full_tensor(), torch.arange(5))


def flattened_mesh() -> Came:
    """Gather over a mesh that also has a flattened sub-mesh."""
    mesh, right = named_mesh(a=2, b=2), torch.arange(15.0).view(5, 3)
    mesh[("a", "b")]._flatten("ab")
    made = distribute_tensor(right, mesh, [Shard(0), Shard(0)]).redistribute(mesh, [Replicate(), Replicate()])
    return compare(made.to_local()[:, 0].contiguous(), right[:, 0].contiguous())


def uneven_from_local() -> Came:
    """Tell DTensor of columns that are not cut by the chunk rule; they should come back one after the other."""
    rank = dist.get_rank()
    widths = (2, 3, 4, 5)
    parts = [torch.arange(1.0, width + 1).repeat(2, 1) + 10 * number for number, width in enumerate(widths)]
    made = DTensor.from_local(
        parts[rank], named_mesh(x=4), [Shard(1)], run_check=True, shape=torch.Size([2, 14]), stride=(14, 1)
    )
    return compare(made.full_tensor()[0].contiguous(), torch.cat(parts, 1)[0])


def from_local_without_shape() -> Came:
    """Tell DTensor of 3, 3, 3 and 1 rows, and let it find out how many there are."""
    made = DTensor.from_local(torch.ones((3, 3, 3, 1)[dist.get_rank()], 2), named_mesh(x=4), [Shard(0)])
    return everyone(tuple(made.shape) == (10, 2), f"rank {dist.get_rank()} takes the shape for {tuple(made.shape)}")


def uneven_tp_forward() -> Came:
    """Two linear layers of width 5, by column and by row."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False))
    data = torch.rand(1, 5)
    right = model(data)
    parallelize_module(model, named_mesh(tp=2), {"0": ColwiseParallel(), "1": RowwiseParallel()})
    found = model(data)
    return everyone(torch.allclose(found, right), "right" if torch.allclose(found, right) else "another output")


def gathered_too_long() -> Came:
    """Five rows over four ranks, put together."""
    right = torch.arange(50.0).view(5, 10)
    return compare(distribute_tensor(right, named_mesh(x=4), [Shard(0)]).full_tensor(), right)


def set_full(model: nn.Module, values: torch.Tensor, broadcast: bool = True) -> None:
    """Load a full state dict."""
    state: dict[str, Any] = {"weight": values} if not broadcast or dist.get_rank() == 0 else {}
    set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=broadcast))


def pretrained() -> Came:
    """Load the full state dict of rank 0 into parameters on the meta device, and look at what the forward pass sees."""
    right = torch.arange(32001.0)[:, None].repeat(1, 2)
    model = fsdp_over_tp(torch.empty(32001, 2, device="meta"), 4, 2)
    set_full(model, right)
    whole: Any = model
    whole.unshard()
    used = model.weight.to_local().detach()
    begin = 16001 * (dist.get_rank() % 2)
    return compare(used, right[begin : begin + len(used)])


def broadcast_into_real() -> Came:
    """Load the full state dict of rank 0 into parameters that have memory."""
    model, right = fsdp_over_tp(torch.zeros(17), 4, 2), torch.arange(17.0)
    set_full(model, right)
    return compare(model.weight.detach().full_tensor(), right)


def not_broadcast() -> Came:
    """Load a full state dict that every rank has."""
    model, right = fsdp_over_tp(torch.zeros(5), 2, 2), torch.arange(5.0)
    set_full(model, right, broadcast=False)
    return compare(model.weight.detach().full_tensor(), right)


def export() -> Came:
    """Export to one Hugging Face file."""
    from safetensors.torch import load_file

    right = torch.arange(1.0, 10.0)
    state = {"weight": fsdp_over_tp(right, 4, 2).weight.detach()}
    with common_directory() as directory:
        writer = HuggingFaceStorageWriter(directory, save_distributed=True, enable_consolidation=True)
        save(state, storage_writer=writer)
        dist.barrier()
        (file,) = Path(directory).glob("*.safetensors")
        return compare(load_file(file)["weight"], right)


def infinity_norm() -> Came:
    """Clip by the infinity norm."""
    model = fsdp_over_tp(torch.arange(9.0), 4, 2)
    model.weight.grad = torch.ones_like(model.weight)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=float("inf"))
    return compare(norm.full_tensor() if isinstance(norm, DTensor) else norm, torch.tensor(1.0))


def packed() -> Came:
    """FSDP2 over a weight that packs two: TP takes a part of each."""
    mesh, right = named_mesh(dp=4, tp=2), torch.arange(16.0)
    rank = dist.get_rank() % 2
    mine = torch.cat([right[4 * rank : 4 * rank + 4], right[8 + 4 * rank : 12 + 4 * rank]])
    model = Weight(DTensor.from_local(mine, mesh["tp"], [strided(0, 2)], run_check=False, shape=right.shape, stride=(1,)))
    fully_shard(model, mesh=mesh["dp"])
    return compare(model.weight.detach().full_tensor(), right)


def brought(rows: int, dp: int, tp: int) -> Came:
    """The rows that transformers reads of a checkpoint for each rank, beside those that it holds."""
    from transformers.distributed.sharding_utils import DtensorShardOperation

    whole = torch.arange(float(rows))
    weight = fsdp_over_tp(whole, dp, tp).weight.detach()
    held, read, refusal = weight.to_local().tolist(), list[float](), None
    loader: Any = DtensorShardOperation(weight)
    try:
        read = loader.shard_tensor(whole).tolist()
    except IndexError as error:
        refusal = error
    came = everyone(held == read, f"rank {dist.get_rank()} holds {held} and is brought {read}")
    if refusal is not None:  # not before all ranks have met
        raise refusal
    return came


HELPERS: tuple[Any, ...] = (
    Weight,
    named_mesh,
    fsdp_over_tp,
    common_directory,
    everyone,
    compare,
    checkpoint,
    reported,
    reconstruct,
    set_full,
)

EXHIBITS: dict[str, tuple[int, Callable[..., Came], tuple[Any, ...]]] = {
    "checkpoint-loses-an-element": (8, checkpoint, (9, 4, 2)),
    "checkpoint-loses-an-element-smallest": (6, checkpoint, (7, 3, 2)),
    "vocabulary-cannot-be-saved": (8, checkpoint, (32001, 4, 2)),
    "nested-strides": (8, nested_strides, ()),
    "reconstruction-repeats-a-zero": (4, reconstruct, (6, 2, 2)),
    "padding-is-not-at-the-end": (4, lone_strided_shard, ()),
    "strided-scatter": (4, strided_scatter, ()),
    "flattened-mesh": (4, flattened_mesh, ()),
    "uneven-from-local": (4, uneven_from_local, ()),
    "from-local-without-shape": (4, from_local_without_shape, ()),
    "uneven-tp-forward": (2, uneven_tp_forward, ()),
    "gathered-too-long": (4, gathered_too_long, ()),
    "pretrained-rows-shifted": (8, pretrained, ()),
    "broadcast-into-materialised": (8, broadcast_into_real, ()),
    "full-state-dict-without-broadcast": (4, not_broadcast, ()),
    "export-grows-a-row": (8, export, ()),
    "inf-norm-hangs": (8, infinity_norm, ()),
    "three-cuts": (8, three_cuts, ()),
    "packed-gate-and-up": (8, packed, ()),
    "transformers-refuses-19-rows": (6, brought, (19, 3, 2)),
    "transformers-index-error": (6, brought, (8, 3, 2)),
}
"""Per runnable card: how many ranks, the exhibit, its arguments."""
