"""The guard: one line inside a job that stops it before the first checkpoint goes wrong. It needs torch and nothing else."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from shardviz.checks.audits.parameter import findings_of
from shardviz.checks.audits.release import installed_release
from shardviz.core.errors import ShardvizError
from shardviz.core.layout import applied_reading, layout, local_shape_and_offset, runs_at
from shardviz.core.spec import Spec, parse
from shardviz.core.trace import Report
from shardviz.tensors.reported import report

__all__ = ["guard"]

SHOWN = 20
"""The most parameters that a message names."""


@dataclass(frozen=True)
class Trouble:
    """What one rank finds wrong with one parameter."""

    name: str
    spec: str
    words: str


def guard(model: nn.Module, *, warn: bool = False) -> tuple[str, ...]:
    """Compare on every rank what is really held and used with what torch reports; call it once, before the first save.

    Every rank calls it at the same time, with its parameters sharded (not inside a forward or backward pass). Modules are
    unsharded one at a time, nothing is written to, and one small exchange tells every rank of every other's findings.

    Args:
        model: a model of DTensors. What is no DTensor is not looked at.
        warn: warn, instead of raising.

    Returns:
        What is wrong, one sentence per parameter; nothing where all is well.

    Raises:
        ShardvizError: on every rank, where a parameter is wrong on any: a checkpoint would be refused or lose rows, or rows
            were shifted by loading.

    Example:
        >>> guard(nn.Linear(2, 2))  # no DTensor in it, so nothing is wrong
        ()
    """
    mine = [*_shapes(model), *_used(model)]
    everyone: list[list[Trouble]] = [mine]
    if dist.is_initialized():
        everyone = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, mine)
    lines = tuple(_sentences(everyone))
    if lines:
        more = f"\n  and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
        message = (
            f"torch {torch.__version__} takes {len(lines)} parameter{'s' * (len(lines) != 1)} for what the ranks do not hold; "
            "checkpoints of this model are not to be trusted:\n  "
            + "\n  ".join(lines[:SHOWN])
            + more
            + "\nSave and load inside shardviz.corrected_offsets(), or pad the dimension; shardviz.audit says to what."
        )
        if not warn:
            raise ShardvizError(message)
        warnings.warn(message, stacklevel=2)
    return lines


def _shapes(model: nn.Module) -> Iterator[Trouble]:
    """The size of every shard against torch's report, and against what FSDP2 and tensor parallelism make."""
    made_by = _made_by(model)
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor):
            continue
        spec = Spec.of(parameter).with_made_by(made_by)
        if dist.get_rank() not in spec.mesh.ranks:
            continue
        shape = tuple(parameter.to_local().shape)
        said = report(spec, parameter.device_mesh, dist.get_rank())
        right, offset = local_shape_and_offset(spec, spec.mesh.coordinate(dist.get_rank()))
        if shape != right:
            words = f"holds {_size(shape)} where {_size(right)} belong: rows were shifted, by loading for instance"
        elif said.error or said.shape != shape:
            words = f"holds {_size(shape)} and is reported {said.error or _size(said.shape)}"
        elif math.prod(shape) and said.offset != offset:
            words = f"holds what begins at {offset} and is reported to begin at {said.offset}"
        elif _scattered(spec):
            words = f"holds rows of several places and is reported to hold {_size(said.shape)} from {said.offset} on"
        else:
            continue
        yield Trouble(name, str(spec), words)


def _scattered(spec: Spec) -> bool:
    """Whether this rank's elements are not one box."""
    place = spec.mesh.coordinate(dist.get_rank())
    return any(len(runs_at(spec, dim, applied_reading(spec, dim), place)) > 1 for dim in range(spec.ndim))


def _used(model: nn.Module) -> Iterator[Trouble]:
    """Unshard one module at a time, and look for this rank's shard where torch reports it to stand."""
    shards = {name: p for name, p in model.named_parameters() if isinstance(p, DTensor)}
    done: set[str] = set()
    for prefix, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        module.unshard()
        for name, parameter in model.named_parameters():
            whole = isinstance(parameter, DTensor) and parameter is shards.get(name)
            if name in shards and name not in done and not whole and name.startswith(f"{prefix}." if prefix else ""):
                done.add(name)
                yield from _misplaced(name, shards[name], parameter)
        module.reshard()


def _misplaced(name: str, shard: DTensor, used: torch.Tensor) -> Iterator[Trouble]:
    """Whether the values at the reported place of an unsharded parameter are those of the shard."""
    spec, local = Spec.of(shard), shard.to_local().detach()
    said = report(spec, shard.device_mesh, dist.get_rank())
    if said.error or said.shape != tuple(local.shape) or not local.numel():
        return  # the sizes have been compared
    seen, begin = used.detach(), (0,) * spec.ndim
    if isinstance(seen, DTensor):
        inner = layout(Spec.of(seen))[dist.get_rank()]
        if any(len(runs) > 1 for runs in inner.runs):
            return  # pieces from several places: the reported box cannot be found in it
        seen, begin = seen.to_local(), inner.offset
    there = _box(seen, said, begin)
    if there is None or not torch.equal(_bytes(there), _bytes(local.to(there.dtype))):
        place = f"{_size(said.shape)} from {said.offset}"
        yield Trouble(name, str(spec), f"does not use its shard where it is reported to stand, {place}")


def _box(seen: torch.Tensor, said: Report, begin: tuple[int, ...]) -> torch.Tensor | None:
    for dim, (first, size, start) in enumerate(zip(said.offset, said.shape, begin, strict=True)):
        if first < start or first - start + size > seen.shape[dim]:
            return None
        seen = seen.narrow(dim, first - start, size)
    return seen


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor: NaN is equal to itself there, and every type can be compared."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def _made_by(model: nn.Module) -> str | None:
    return "fsdp2" if any(isinstance(module, FSDPModule) for module in model.modules()) else None


def _sentences(everyone: list[list[Trouble]]) -> Iterator[str]:
    """Per parameter: the first rank's trouble, how many have any, what follows, and what to do."""
    found: dict[tuple[str, str], dict[int, str]] = {}
    for rank, troubles in enumerate(everyone):
        for one in troubles:
            found.setdefault((one.name, one.spec), {}).setdefault(rank, one.words)
    for (name, text), ranks in found.items():
        first = min(ranks)
        others = f" (and {len(ranks) - 1} more rank{'s' * (len(ranks) > 2)})" if len(ranks) > 1 else ""
        yield f"{name} {text}: rank {first} {ranks[first]}{others}{_outcome(text)}"


def _outcome(text: str) -> str:
    kinds = [one.kind for one in findings_of(parse(text), installed_release().reports) if one.severity == "error"]
    return f"; what follows: {', '.join(dict.fromkeys(kinds))}" if kinds else ""


def _size(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
