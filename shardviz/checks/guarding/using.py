"""What the forward pass uses: FSDP2's modules are unsharded, one at a time, and each shard is looked for in what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from shardviz.checks.guarding.claims import Claim, alike, size_text
from shardviz.core.forward import forward_spec
from shardviz.core.layout import layout, local_shape_and_offset
from shardviz.core.spec import Spec
from shardviz.core.trace import Report
from shardviz.tensors.reported import report

__all__ = ["Managed", "agreeing", "managed", "misplaced", "reshard"]

Managed = dict[str, tuple[str, ...]]
"""The names of FSDP2's modules, each with those of the parameters that it unshards."""


def reshard(model: nn.Module) -> None:
    """Put away what a forward pass left unsharded, as a save does."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def managed(model: nn.Module, claims: Mapping[str, Claim]) -> Managed:
    """FSDP2's modules, each with its parameters: those below it and below no other one of them."""
    prefixes = [name for name, module in model.named_modules() if isinstance(module, FSDPModule)]
    found: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    for name, claim in claims.items():
        parent = name
        while claim.spec is not None and parent:
            parent = parent.rpartition(".")[0]
            if parent in found:
                found[parent].append(name)
                break
    return {prefix: tuple(names) for prefix, names in found.items() if names}


def agreeing(everyone: Sequence[Managed], claims: Sequence[Mapping[str, Claim]], wrong: set[str]) -> dict[int, list[str]]:
    """The modules that each rank can unshard: all ranks of their meshes have them alike, and nothing is wrong about them."""
    found: dict[int, list[str]] = {}
    for prefix in sorted({prefix for one in everyone for prefix in one}):
        for rank, modules in enumerate(everyone):
            names = modules.get(prefix, ())
            members = {r for name in names for r in _mesh_ranks(claims[rank][name])}
            if names and not wrong.intersection(names) and all(everyone[r].get(prefix) == names for r in members):
                found.setdefault(rank, []).append(prefix)
    return found


def _mesh_ranks(claim: Claim) -> tuple[int, ...]:
    return claim.spec.mesh.ranks if claim.spec else ()


def misplaced(model: nn.Module, prefixes: Sequence[str], modules: Managed, corrected: bool = False) -> dict[str, str]:
    """Unshard modules, one after the other, and say of which parameters this rank's forward pass uses something else.

    The values at the place that torch reports of a shard must be those of the shard. Nothing is written to, and the modules
    are resharded; the ranks of each module's mesh call it at the same time. `corrected`: it is not torch that tells the place.
    """
    found: dict[str, str] = {}
    known: dict[object, _Place | str] = {}
    for prefix in prefixes:
        module = model.get_submodule(prefix)
        assert isinstance(module, FSDPModule)
        shards = {name: model.get_parameter(name) for name in modules[prefix]}
        module.unshard()
        for name, shard in shards.items():
            used = model.get_parameter(name)
            if used is not shard and isinstance(shard, DTensor):
                try:
                    key = (alike(shard), alike(used))
                    if key not in known:
                        known[key] = _place(shard, used, corrected)
                    words = _misplaced(shard, used, known[key])
                except Exception as error:  # the others wait for this rank: it must come to the exchange
                    words = f"cannot be looked for in the forward pass: {type(error).__name__}: {error}"
                if words:
                    found[name] = words
        module.reshard()
    return found


class _Place(NamedTuple):
    """Where torch reports a shard to stand, and where what the forward pass sees begins (None where it is no box)."""

    said: Report
    begin: tuple[int, ...] | None


def _place(shard: DTensor, used: torch.Tensor, corrected: bool) -> _Place | str:
    """Where to look for a shard in an unsharded parameter; or what is wrong with that one's shape."""
    spec, rank = Spec.of(shard), dist.get_rank()
    said = report(spec, shard.device_mesh, rank)
    if corrected:
        own = layout(spec)[rank]
        if any(len(runs) > 1 for runs in own.runs):
            return _Place(said, None)
        said = Report(rank, own.shape, own.offset)
    if isinstance(used, DTensor):
        inner = layout(Spec.of(used))[rank]
        return _Place(said, inner.offset if all(len(runs) < 2 for runs in inner.runs) else None)
    if tuple(used.shape) == spec.shape:
        return _Place(said, (0,) * spec.ndim)
    # A plain tensor that is this rank's part over the other mesh dimensions.
    part, begin = local_shape_and_offset(forward_spec(spec), spec.mesh.coordinate(rank))
    if tuple(used.shape) != part:
        return f"uses {size_text(tuple(used.shape))} where {size_text(part)} or all of it belongs"
    return _Place(said, begin)


def _misplaced(shard: DTensor, used: torch.Tensor, place: _Place | str) -> str:
    """Whether the values at the reported place of an unsharded parameter are those of the shard."""
    if isinstance(place, str):
        return place
    said, begin = place
    local, seen = (one.to_local() if isinstance(one, DTensor) else one for one in (shard, used))
    if said.error or said.shape != tuple(local.shape) or not local.numel() or begin is None:
        return ""  # the sizes have been compared
    there = _box(seen.detach(), said, begin)
    if there is None or not torch.equal(_bytes(there), _bytes(local.detach().to(there.dtype))):
        return f"does not use its shard where it is reported to stand, {size_text(said.shape)} from {said.offset}"
    return ""


def _box(seen: torch.Tensor, said: Report, begin: tuple[int, ...]) -> torch.Tensor | None:
    for dim, (first, size, start) in enumerate(zip(said.offset, said.shape, begin, strict=True)):
        if first < start or first - start + size > seen.shape[dim]:
            return None
        seen = seen.narrow(dim, first - start, size)
    return seen


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor: NaN is equal to itself there, and every type can be compared."""
    return tensor.contiguous().view(-1).view(torch.uint8)
