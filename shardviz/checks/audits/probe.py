"""What the audit does inside a rank: fill a model with row numbers, and put it through everything that may lose them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from shardviz.checks.audits.lines import merged
from shardviz.checks.audits.ranks import Held, Seen
from shardviz.checks.audits.trials import Trials
from shardviz.checks.guarding.agreement import agreement
from shardviz.checks.guarding.claims import Claim, claims_of, size_text, tensors_of
from shardviz.core.layout import layout
from shardviz.core.runs import Runs, joined, length
from shardviz.core.spec import Spec
from shardviz.tensors.reported import report

__all__ = ["probe"]

UNTOUCHED = -1.0


def probe(trials: Trials, build: Callable[..., nn.Module], args: Sequence[Any], example: Any) -> Seen:
    """Build a model on this rank and try everything, parameter by parameter; the other ranks do the same at the same time.

    Args:
        trials: performs the attempts.
        build: builds the model; it is called again for each attempt at a model on the meta device.
        args: its arguments.
        example: what the forward pass is called with; None where it is not tried.
    """
    built: list[nn.Module] = []

    def make() -> Runs:
        built.append(build(*args))
        return ()

    if not trials("build", make, again=True):
        return Seen()
    (model,) = built
    claims = {name: claim for name, claim in claims_of(model, tensors_of(model)).items() if claim.spec or claim.unread}
    everyone = trials.gather(claims)
    apart = dict(_apart(everyone))
    parameters = dict(model.named_parameters())
    fit = {name: claim for name, claim in claims.items() if name not in apart}
    job = _Job(trials, build, args, model, _groups(everyone), dist.get_world_size())
    marked = {name: _Marked.of(name, parameters[name], claim) for name, claim in fit.items()}
    for one in marked.values():
        one.fill()
    for number, name in enumerate(dict.fromkeys(name for rank in everyone for name in rank)):
        if name not in apart:
            everywhere = all(name in rank for rank in everyone)
            _try_one(job, name, marked.get(name), everywhere, trials.directory / str(number))
    if example is not None:
        _try_passes(trials, model, example)
    held = tuple(
        Held(name, one.spec, tuple(one.local.shape), report(one.spec, one.parameter.device_mesh, dist.get_rank()))
        for name, one in marked.items()
    )
    return Seen(held, len(parameters) - len(claims), tuple((name, *said) for name, said in apart.items()))


def _apart(everyone: Sequence[Mapping[str, Claim]]) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """The names that the ranks do not have alike, or not as their placements say: in words, and where."""
    alike = agreement([{name: replace(claim, trouble="", cure="") for name, claim in one.items()} for one in everyone])
    for name, found in alike.items():
        if found.troubles:
            yield name, (found.troubles[0].words, found.troubles[0].ranks)
            continue
        for rank, claims in enumerate(everyone):
            claim = claims.get(name)
            if claim and claim.spec and claim.held != layout(claim.spec)[rank].shape:
                right = size_text(layout(claim.spec)[rank].shape)
                yield name, (f"rank {rank} holds {size_text(claim.held)}, and its placements give it {right}", (rank,))
                break


def _groups(everyone: Sequence[Mapping[str, Claim]]) -> dict[tuple[int, ...], Any]:
    """A process group for the ranks of every mesh; every rank makes all of them, in the same order."""
    sets = {tuple(sorted(claim.spec.mesh.ranks)) for claims in everyone for claim in claims.values() if claim.spec}
    return {ranks: None if len(ranks) == len(everyone) else dist.new_group(list(ranks)) for ranks in sorted(sets)}


@dataclass(frozen=True)
class _Job:
    """What all attempts have in common."""

    trials: Trials
    build: Callable[..., nn.Module]
    args: Sequence[Any]
    model: nn.Module
    groups: Mapping[tuple[int, ...], Any]
    world: int

    def empty(self) -> nn.Module:
        """The same model on the meta device."""
        with torch.device("meta"):
            return self.build(*self.args)


def _try_one(job: _Job, name: str, one: _Marked | None, everywhere: bool, place: Path) -> None:
    """Everything about one parameter; a rank that does not have it, has no part in the attempts."""
    trials, model = job.trials, job.model

    def attempt(what: str, call: Callable[[_Marked], Runs] | None) -> bool:
        return trials(f"{name}|{what}", None if one is None or call is None else (lambda: call(one)))

    if one is not None:
        mine = place / f"of-rank-{min(one.spec.mesh.ranks)}"
        group = job.groups[tuple(sorted(one.spec.mesh.ranks))]
        owner = _owner(model, name)
    else:
        mine, group, owner = place, None, None
    attempt("used", (lambda it: _used(model, owner, it)) if owner is not None else None)
    attempt("full", lambda it: it.wrong(it.parameter.full_tensor(), it.every))
    if attempt("save", lambda it: _save(it.parameter, mine / "sharded", group)):
        attempt("again", lambda it: _load(it, mine / "sharded", group))
    if attempt("prepare", lambda it: _save(it.whole, mine / "whole", group)):
        attempt("whole", lambda it: _load(it, mine / "whole", group))
    if not everywhere:  # these are broadcast to all ranks
        return
    attempt("memory", lambda it: _set(it, model, broadcast=True))
    attempt("spread", lambda it: _set(it, model, broadcast=False))
    empty: list[nn.Module] = []

    def fill_empty(it: _Marked) -> Runs:
        empty.append(job.empty())
        return _set_state(empty[0], it, broadcast=True)

    if attempt("meta", fill_empty):
        attempt("meta used", lambda it: _used_after(empty, it, fill_empty))


def _owner(model: nn.Module, name: str) -> str | None:
    """The FSDP2 module that unshards a parameter: the nearest one above it."""
    prefix = name
    while prefix:
        prefix = prefix.rpartition(".")[0]
        if isinstance(model.get_submodule(prefix), FSDPModule):
            return prefix
    return None


@dataclass(frozen=True)
class _Marked:
    """A parameter whose elements are the numbers of their rows, from 1, along the dimension that has the most cuts."""

    name: str
    parameter: DTensor
    spec: Spec
    dim: int
    runs: Runs

    @classmethod
    def of(cls, name: str, parameter: torch.Tensor, claim: Claim) -> _Marked:
        """Of a parameter about which the ranks agree."""
        spec = claim.spec
        assert isinstance(parameter, DTensor)
        assert spec is not None
        dim = max(range(spec.ndim), key=lambda one: len(spec.cuts(one)), default=0)
        runs = layout(spec)[dist.get_rank()].runs
        return cls(name, parameter, spec, dim, runs[dim] if runs else ((0, 1),))

    @property
    def local(self) -> torch.Tensor:
        return self.parameter.to_local().detach()

    def marks(self, runs: Runs, shape: Sequence[int]) -> torch.Tensor:
        """The values of some rows."""
        rows = torch.tensor([row for start, stop in runs for row in range(start, stop)], dtype=torch.float64)
        exact = 2 / torch.finfo(self.parameter.dtype).eps  # integers below are exact in this type
        view = [1] * len(shape)
        if view:
            view[self.dim] = -1
        return (rows % (exact - 1) + 1).to(self.parameter.dtype).view(view).expand(tuple(shape))

    @property
    def every(self) -> Runs:
        """All rows."""
        return ((0, self.spec.shape[self.dim] if self.spec.ndim else 1),)

    @property
    def whole(self) -> torch.Tensor:
        return self.marks(self.every, self.spec.shape).contiguous()

    def fill(self) -> None:
        """Write what this rank should hold."""
        self.local.copy_(self.marks(self.runs, self.local.shape))

    def wrong(self, tensor: torch.Tensor, runs: Runs) -> Runs:
        """The rows of `runs` that a tensor does not have in their places; all of them where even the shape is wrong."""
        shape = [*tensor.shape]
        if len(shape) != self.spec.ndim or (shape and shape[self.dim] != length(runs)):
            return merged(runs)
        off = tensor.detach().cpu() != self.marks(runs, shape)
        others = [dim for dim in range(off.ndim) if dim != self.dim]
        rows = [row for start, stop in runs for row in range(start, stop)]
        flags = off.any(dim=others) if others else off.view(-1)
        return merged(joined((row, row + 1) for row, bad in zip(rows, flags.tolist(), strict=True) if bad))


def _used(model: nn.Module, owner: str, one: _Marked) -> Runs:
    """What the forward pass sees, with its module unsharded."""
    module = model.get_submodule(owner)
    assert isinstance(module, FSDPModule)
    module.unshard()
    seen = model.get_parameter(one.name)
    if not isinstance(seen, DTensor):
        wrong = one.wrong(seen, one.every)
    else:
        inner = Spec.of(seen).with_made_by(one.spec.made_by)
        wrong = one.wrong(seen.to_local(), layout(inner)[dist.get_rank()].runs[one.dim])
    module.reshard()
    return wrong


def _save(tensor: torch.Tensor, place: Path, group: Any) -> Runs:
    save({"it": tensor}, checkpoint_id=place, process_group=group)
    return ()


def _load(one: _Marked, place: Path, group: Any) -> Runs:
    """What a checkpoint leaves of it, once every element was overwritten."""
    one.local.fill_(UNTOUCHED)
    try:
        load({"it": one.parameter}, checkpoint_id=place, process_group=group)
        return one.wrong(one.local, one.runs)
    finally:
        one.fill()


def _set(one: _Marked, model: nn.Module, broadcast: bool) -> Runs:
    """Load a full state dict into real parameters."""
    one.local.fill_(UNTOUCHED)
    try:
        _set_state(model, one, broadcast)
        return one.wrong(one.local, one.runs)
    finally:
        one.fill()


def _set_state(model: nn.Module, one: _Marked, broadcast: bool) -> Runs:
    state: dict[str, Any] = {one.name: one.whole} if not broadcast or dist.get_rank() == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=broadcast, strict=False)
    set_model_state_dict(model, state, options=options)
    return ()


def _used_after(empty: list[nn.Module], one: _Marked, fill: Callable[[_Marked], Runs]) -> Runs:
    """What the forward pass of a model sees that was on the meta device and got one parameter."""
    if not empty:  # it was filled by a former call
        fill(one)
    (model,) = empty
    owner = _owner(model, one.name)
    if owner is None:
        parameter = model.get_parameter(one.name)
        assert isinstance(parameter, DTensor)
        return one.wrong(parameter.to_local(), one.runs)
    _materialise(model)
    return _used(model, owner, one)


def _materialise(model: nn.Module) -> None:
    """Give the parameters that were not loaded memory; FSDP2 unshards those of a module together."""
    device = "cuda" if "nccl" in dist.get_backend() else "cpu"
    for part in model.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            if parameter.is_meta:
                fresh = torch.empty_like(parameter, device=device)
                setattr(part, name, nn.Parameter(fresh, requires_grad=parameter.requires_grad))


def _try_passes(trials: Trials, model: nn.Module, example: Any) -> None:
    """The forward and the backward pass, with small values in every parameter."""
    out: list[Any] = []

    def forward() -> Runs:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
                local.copy_(0.1 * torch.randn(local.shape, generator=generator))
        inputs = example(model) if callable(example) else example
        if isinstance(inputs, Mapping):
            given = model(**inputs)
        else:
            given = model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
        for tensor in tensors_in(given):
            wait_for(tensor)
        out.append(given)
        return ()

    def backward() -> Runs:
        if not out:  # the forward pass was a former call's
            forward()
        _loss(out[0]).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                wait_for(parameter.grad)
        return ()

    if trials("forward", forward):
        trials("backward", backward)


def _loss(out: Any) -> torch.Tensor:
    """The loss that a model gives, or the sum of all its results."""
    loss = getattr(out, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    sums = [tensor.sum() for tensor in tensors_in(out) if tensor.requires_grad]
    if not sums:
        raise TypeError("the forward pass gives no tensor that has a gradient")
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return total


def tensors_in(out: Any) -> Iterator[torch.Tensor]:
    """The tensors in what a forward pass gives."""
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, Mapping):
        for value in out.values():
            yield from tensors_in(value)
    elif isinstance(out, tuple | list):
        for value in out:
            yield from tensors_in(value)


def wait_for(tensor: torch.Tensor) -> None:
    """Wait for the collective whose result it may be; torch itself waits no sooner than it is used."""
    local = tensor.detach()
    (local.to_local() if isinstance(local, DTensor) else local).clone()
