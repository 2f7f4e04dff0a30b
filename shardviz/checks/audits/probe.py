"""What the audit does inside a rank: fill a model with row numbers, and put it through everything that may lose them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from shardviz.checks.audits.ranks import Outcome, Probed
from shardviz.core.layout import layout
from shardviz.core.runs import Runs, joined
from shardviz.core.spec import Spec
from shardviz.tensors.reported import report

__all__ = ["probe"]

UNTOUCHED = -1.0


def probe(build: Callable[..., nn.Module], args: Sequence[Any], directory: str) -> list[Probed]:
    """Build a model on this rank and try everything, parameter by parameter; the other ranks do the same at the same time."""
    model = build(*args)
    made_by = "fsdp2" if any(isinstance(module, FSDPModule) for module in model.modules()) else None
    marked = [
        _Marked.of(name, parameter, made_by) for name, parameter in model.named_parameters() if isinstance(parameter, DTensor)
    ]
    for one in marked:
        one.fill()
    used = _used(model, {one.name: one for one in marked})
    found = []
    for number, one in enumerate(marked):
        place = Path(directory) / str(number)
        save, again = _save_and_load(one, place / "sharded")
        found.append(
            Probed(
                one.name,
                one.spec,
                tuple(one.local.shape),
                report(one.spec, one.parameter.device_mesh, dist.get_rank()),
                used.get(one.name, Outcome("not sharded by FSDP2")),
                _full(one),
                save,
                again,
                _load_whole(one, place / "whole"),
                _set(one, model, broadcast=True),
                _set(one, model, broadcast=False),
                Outcome("not tried"),
            )
        )
    return _with_meta(found, marked, build, args, made_by)


@dataclass(frozen=True)
class _Marked:
    """A parameter whose elements are the numbers of their rows, from 1, along the dimension that has the most cuts."""

    name: str
    parameter: DTensor
    spec: Spec
    dim: int
    runs: Runs

    @classmethod
    def of(cls, name: str, parameter: DTensor, made_by: str | None) -> _Marked:
        spec = Spec.of(parameter).with_made_by(made_by)
        dim = max(range(spec.ndim), key=lambda one: len(spec.cuts(one)), default=0)
        return cls(name, parameter, spec, dim, layout(spec)[dist.get_rank()].runs[dim])

    @property
    def local(self) -> torch.Tensor:
        return self.parameter.to_local().detach()

    def marks(self, runs: Runs, shape: Sequence[int]) -> torch.Tensor:
        """The values of some rows."""
        rows = torch.tensor([row for start, stop in runs for row in range(start, stop)], dtype=torch.float64)
        exact = 2 / torch.finfo(self.parameter.dtype).eps  # integers below are exact in this type
        view = [1] * len(shape)
        view[self.dim] = -1
        return (rows % (exact - 1) + 1).to(self.parameter.dtype).view(view).expand(tuple(shape))

    @property
    def whole(self) -> torch.Tensor:
        return self.marks(((0, self.spec.shape[self.dim]),), self.spec.shape).contiguous()

    def fill(self) -> None:
        """Write what this rank should hold."""
        self.local.copy_(self.marks(self.runs, self.local.shape))

    def wrong(self, tensor: torch.Tensor, runs: Runs) -> Runs:
        """The rows of `runs` that a tensor does not have in their places; all of them where even the shape is wrong."""
        shape = [*tensor.shape]
        if shape[self.dim] != sum(stop - start for start, stop in runs):
            return merged(runs)
        off = tensor.detach().cpu() != self.marks(runs, shape)
        others = [dim for dim in range(off.ndim) if dim != self.dim]
        rows = [row for start, stop in runs for row in range(start, stop)]
        flags = off.any(dim=others) if others else off
        return merged(joined((row, row + 1) for row, bad in zip(rows, flags.tolist(), strict=True) if bad))


def _attempt(call: Callable[[], Runs]) -> Outcome:
    """What a call gave: the rows that came out wrong, or its exception."""
    try:
        return Outcome("", call())
    except BaseException as error:  # a checkpoint's exception is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Outcome(f"{type(error).__name__}: {lines[-1] if lines else 'without text'}"[:300])


def _used(model: nn.Module, marked: dict[str, _Marked]) -> dict[str, Outcome]:
    """What the forward pass sees, one module unsharded at a time."""
    found = {}
    for prefix, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        module.unshard()
        for name, parameter in model.named_parameters():
            if name.startswith(f"{prefix}." if prefix else "") and name in marked and name not in found:
                outcome = _seen(marked[name], parameter)
                if outcome is not None:
                    found[name] = outcome
        module.reshard()
    return found


def _seen(one: _Marked, parameter: torch.Tensor) -> Outcome | None:
    """What an unsharded parameter holds; None where it is still sharded, in a module of its own further down."""
    if not isinstance(parameter, DTensor):
        return _attempt(lambda: one.wrong(parameter, ((0, one.spec.shape[one.dim]),)))
    if parameter.device_mesh.ndim == one.spec.mesh.ndim:
        return None
    inner = Spec.of(parameter).with_made_by(one.spec.made_by)
    runs = layout(inner)[dist.get_rank()].runs[one.dim]
    return _attempt(lambda: one.wrong(parameter.to_local(), runs))


def _full(one: _Marked) -> Outcome:
    return _attempt(lambda: one.wrong(one.parameter.full_tensor(), ((0, one.spec.shape[one.dim]),)))


def _save_and_load(one: _Marked, place: Path) -> tuple[Outcome, Outcome]:
    """Save, overwrite, load into the same layout."""

    def write() -> Runs:
        save({"it": one.parameter}, checkpoint_id=place)
        return ()

    saved = _attempt(write)
    if saved.refused:
        return saved, Outcome("not saved")
    return saved, _load(one, place)


def _load(one: _Marked, place: Path) -> Outcome:
    def read() -> Runs:
        one.local.fill_(UNTOUCHED)
        load({"it": one.parameter}, checkpoint_id=place)
        return one.wrong(one.local, one.runs)

    outcome = _attempt(read)
    one.fill()
    return outcome


def _load_whole(one: _Marked, place: Path) -> Outcome:
    """Load a checkpoint in which everything is right onto this mesh."""
    save({"it": one.whole}, checkpoint_id=place)
    return _load(one, place)


def _set(one: _Marked, model: nn.Module, broadcast: bool) -> Outcome:
    """Load a full state dict into real parameters."""

    def read() -> Runs:
        one.local.fill_(UNTOUCHED)
        _set_state(model, one, broadcast)
        return one.wrong(one.local, one.runs)

    outcome = _attempt(read)
    one.fill()
    return outcome


def _set_state(model: nn.Module, one: _Marked, broadcast: bool) -> Runs:
    state: dict[str, Any] = {one.name: one.whole} if not broadcast or dist.get_rank() == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=broadcast, strict=False)
    set_model_state_dict(model, state, options=options)
    return ()


def _with_meta(
    found: list[Probed], marked: list[_Marked], build: Callable[..., nn.Module], args: Sequence[Any], made_by: str | None
) -> list[Probed]:
    """The same with what a broadcast load into a model on the meta device gives, each parameter in a model of its own."""
    done = []
    for probed, one in zip(found, marked, strict=True):
        with torch.device("meta"):
            empty = build(*args)
        outcome = _attempt(lambda empty=empty, one=one: _set_state(empty, one, broadcast=True))  # type: ignore[misc]
        if not _any(bool(outcome.refused)):
            outcome = _after_meta(empty, one, made_by)
        done.append(probed.with_meta(outcome))
    return done


def _after_meta(model: nn.Module, one: _Marked, made_by: str | None) -> Outcome:
    """What the forward pass of a model sees that was on the meta device and got one parameter."""
    if made_by is None:
        parameter = dict(model.named_parameters())[one.name]
        assert isinstance(parameter, DTensor)
        return _attempt(lambda: one.wrong(parameter.to_local(), one.runs))
    _materialise(model)
    return _used(model, {one.name: one}).get(one.name, Outcome("not sharded by FSDP2"))


def _materialise(model: nn.Module) -> None:
    """Give the parameters that were not loaded memory; FSDP2 unshards those of a module together."""
    device = "cuda" if "nccl" in dist.get_backend() else "cpu"
    for part in model.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            if parameter.is_meta:
                fresh = torch.empty_like(parameter, device=device)
                setattr(part, name, nn.Parameter(fresh, requires_grad=parameter.requires_grad))


def _any(flag: bool) -> bool:
    """Whether it is so on any rank: then none may go on alone."""
    total = torch.tensor(int(flag))
    dist.all_reduce(total)
    return bool(total)
