"""A spec on real ranks: ask every rank, and put their buffers side by side as a recorded story."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from shardviz.core.errors import RankFailure, RequestError
from shardviz.core.layout import layout
from shardviz.core.placements import Partial
from shardviz.core.play import ITEMSIZE, START, describe, first_step
from shardviz.core.recipe import recipe
from shardviz.core.spec import BY_FSDP2, Spec
from shardviz.core.trace import Source, Step, Trace
from shardviz.ranks import answers
from shardviz.ranks.answers import Answers
from shardviz.ranks.torch_story import torch_story

if TYPE_CHECKING:
    from shardviz.ranks.cluster import Ranks

__all__ = ["LARGEST", "redistribute", "run"]

MISFIT = "torch made shards of other shapes than these placements mean, so there is nothing that could be put together"

REDUCTIONS = ("sum", "avg", "max", "min", "product")

LARGEST = 2_000_000
"""The most elements of a tensor that is run: every rank reads off, after every step, which element stands where."""


def run(ranks: Ranks, spec: Spec) -> Trace:
    """Make the tensor of a spec on real ranks and record its answers; see `Ranks.run`."""
    device = _device(ranks, spec)
    found = _of_mesh(spec, ranks.apply(answers.answer, spec, device))
    spec = spec.with_made_by(found[0].made_by)
    source = _source(ranks, spec)
    try:
        torch = torch_story(spec, source, _of_mesh(spec, ranks.apply(answers.torch_run, spec, device)))
    except RankFailure as failure:  # torch's own reconstruction may raise, or never come back: that is an answer too
        held = first_step(START, tuple(one.held for one in found))
        torch = Trace(spec, source, "full_tensor", (held,), end=str(failure))
    seen = tuple(_of_mesh(spec, ranks.apply(answers.used, spec, device))) if spec.made_by in BY_FSDP2 else ()
    end = "" if found[0].buffers or not recipe(layout(spec)) else MISFIT
    reports = tuple(one.report for one in found)
    return Trace(spec, source, "exact", _steps(spec, found), reports, torch, end, used=seen)


def redistribute(ranks: Ranks, spec: Spec, target: Spec) -> Trace:
    """Record torch's own redistribution; see `Ranks.redistribute`."""
    device = _device(ranks, spec)
    found = _of_mesh(spec, ranks.apply(answers.answer, spec, device))
    spec = spec.with_made_by(found[0].made_by)
    runs = _of_mesh(spec, ranks.apply(answers.torch_run, spec, device, target))
    return torch_story(spec, _source(ranks, spec), runs, target)


def _device(ranks: Ranks, spec: Spec) -> str:
    pending = {placement.op for placement in spec.placements if isinstance(placement, Partial)}
    if len(pending) > 1 or pending - set(REDUCTIONS):
        raise RequestError(f"{spec}: a run can hold one kind of pending reduction, one of {', '.join(REDUCTIONS)}")
    if spec.numel > LARGEST:
        uncut = [str(dim) for dim in range(spec.ndim) if not spec.cuts(dim)]
        hint = f"; nothing cuts dimension {', '.join(uncut)}: a size of 1 there gives the same layout" if uncut else ""
        raise RequestError(
            f"{spec} has {spec.numel:,} elements, and a run marks each of them on every rank, at most {LARGEST:,}{hint}"
        )
    needed = max(spec.mesh.ranks) + 1
    if needed > ranks.n:
        raise RequestError(f"{spec} needs {needed} ranks, and these are {ranks.n}: start Ranks({needed})")
    return "cuda" if ranks.backend == "nccl" else "cpu"


def _source(ranks: Ranks, spec: Spec) -> Source:
    devices = tuple(ranks.devices[rank] for rank in spec.mesh.ranks)
    release = ranks.torch.partition("+")[0]  # "2.13.0+cpu" is the CPU build of 2.13.0
    notice = ", ".join(filter(None, (ranks.notice, layout(spec).note)))
    return Source("held", spec.mesh.size, ranks.backend, release, devices, str(spec.made_by), notice)


def _steps(spec: Spec, found: Sequence[Answers]) -> tuple[Step, ...]:
    buffers = tuple(one.held for one in found)
    steps = [first_step(START, buffers)]
    for number, operation in enumerate(recipe(layout(spec)) if found[0].buffers else ()):
        after = tuple(one.buffers[number] for one in found)
        steps.append(describe(operation, spec, buffers, after, ITEMSIZE))
        buffers = after
    return tuple(steps)


Found = TypeVar("Found")


def _of_mesh(spec: Spec, found: Sequence[Found | None]) -> list[Found]:
    """The answers of the mesh's ranks, in its order."""
    return [one for one in (found[rank] for rank in spec.mesh.ranks) if one is not None]
