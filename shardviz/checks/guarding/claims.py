"""What one rank says of every tensor it has under a name, and what it can find wrong by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from shardviz.checks.guarding.flattened import gathered_wrongly
from shardviz.core.errors import SpecError
from shardviz.core.layout import applied_reading, local_shape_and_offset, runs_at
from shardviz.core.live import explained
from shardviz.core.spec import Spec
from shardviz.tensors.reported import flattened_dims, report

RELOAD = "load it again inside `with shardviz.corrected_offsets():`, and do not save what is in memory now"
"""What to do about rows that were shifted. An audit foretells them, so its cures hold for the next time."""

__all__ = ["RELOAD", "Claim", "alike", "claims_of", "size_text", "tensors_of"]


@dataclass(frozen=True)
class Claim:
    """What one rank says of a tensor.

    Attributes:
        shape: the global shape; of a tensor that is no DTensor, its own.
        dtype: in torch's words.
        held: the local shape.
        spec: how it is sharded; None of a tensor that is no DTensor.
        trouble: what the rank finds wrong by itself, in words, or "".
        cure: what to do about it, where the audit's cures are no help, or "".
        unread: why nothing more is known of it, or "".
    """

    shape: tuple[int, ...]
    dtype: str
    held: tuple[int, ...]
    spec: Spec | None = None
    trouble: str = ""
    cure: str = ""
    unread: str = ""

    @property
    def text(self) -> str:
        """What it is, in the notation."""
        return str(self.spec) if self.spec else f"[{', '.join(map(str, self.shape))}] (no DTensor)"


def tensors_of(what: nn.Module | Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The parameters of a module, or the tensors of a (nested) state dict, by name.

    Raises:
        SpecError: it is neither.
    """
    if isinstance(what, nn.Module):
        return dict(what.named_parameters())
    if not isinstance(what, Mapping):
        raise SpecError(f"a model or a state dict was expected, to look at its tensors by name; got {type(what).__name__}")
    return dict(_flat(what, ""))


def _flat(state: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    for key, value in state.items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")


def claims_of(
    what: nn.Module | Mapping[str, Any], tensors: Mapping[str, torch.Tensor], corrected: bool = False
) -> dict[str, Claim]:
    """This rank's claims. What it is no part of is left out, and whatever goes wrong is said in the claim, never raised.

    Args:
        what: the model, or the state dict.
        tensors: its tensors by name.
        corrected: whether torch's checkpoints are told what the ranks hold, whatever it reports.
    """
    fsdp2 = isinstance(what, nn.Module) and any(isinstance(module, FSDPModule) for module in what.modules())
    known: dict[object, Claim | None] = {}  # tensors alike are looked at once
    found = {}
    for name, tensor in tensors.items():
        try:
            key = alike(tensor)
            if key not in known:
                known[key] = _claim(tensor, fsdp2, corrected)
            claim = known[key]
        except Exception as error:  # the others wait for this rank: it must come to the exchange
            claim = Claim((), _dtype(tensor), (), unread=f"{type(error).__name__}: {error}")
        if claim is not None:
            found[name] = claim
    return found


def alike(tensor: torch.Tensor) -> object:
    """What two tensors have in common whose claims are the same."""
    if not isinstance(tensor, DTensor):
        return tensor.dtype, tensor.shape
    order = getattr(getattr(tensor, "_spec", None), "shard_order", None)
    return tensor.dtype, tensor.shape, id(tensor.device_mesh), tensor.placements, order, tensor.to_local().shape


def _claim(tensor: torch.Tensor, fsdp2: bool, corrected: bool) -> Claim | None:
    shape = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return Claim(shape, _dtype(tensor), shape)
    spec, held = Spec.of(tensor), tuple(tensor.to_local().shape)
    if dist.get_rank() not in spec.mesh.ranks:
        return None
    # A state dict does not tell who made it.
    spec = spec.with_made_by("fsdp2") if fsdp2 else explained(spec, spec.mesh.coordinate(dist.get_rank()), held)
    return Claim(shape, _dtype(tensor), held, spec, *_trouble(spec, tensor, held, corrected))


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _trouble(spec: Spec, tensor: DTensor, held: tuple[int, ...], corrected: bool) -> tuple[str, str]:
    """The shard against torch's report, and against what the placements mean: what is wrong, and a cure of its own."""
    rank = dist.get_rank()
    said = report(spec, tensor.device_mesh, rank)
    right, offset = local_shape_and_offset(spec, spec.mesh.coordinate(rank))
    if held != right:
        words = f"holds {size_text(held)} where {size_text(right)} belong: "
        if held == said.shape:
            return words + "rows were shifted, by loading for instance", RELOAD
        return words + "no such cut has shards of these sizes", "cut it as the placements say, or say what is held"
    if not corrected and (said.error or said.shape != held):
        return f"holds {size_text(held)} and is reported {said.error or size_text(said.shape)}", ""
    if not corrected and 0 not in held and said.offset != offset:
        return f"holds what begins at {offset} and is reported to begin at {said.offset}", ""
    if not corrected and _scattered(spec):
        return f"holds rows of several places and is reported to hold {size_text(said.shape)} from {said.offset} on", ""
    if spec.pending_dims:
        over = ", ".join(spec.mesh.names[mesh_dim] for mesh_dim in spec.pending_dims)
        return (
            f"holds an addend, to be reduced over {over}: it is no value, and torch saves none such",
            "reduce it first: redistribute it to Replicate or Shard there",
        )
    words = gathered_wrongly(spec, flattened_dims(spec, tensor.device_mesh))
    return words, "redistribute over one of these mesh dimensions first, or do not flatten them" if words else ""


def _scattered(spec: Spec) -> bool:
    """Whether this rank's elements are not one box."""
    place = spec.mesh.coordinate(dist.get_rank())
    return any(len(runs_at(spec, dim, applied_reading(spec, dim), place)) > 1 for dim in range(spec.ndim))


def size_text(shape: tuple[int, ...]) -> str:
    """A shape, as Python prints it."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
