"""What an audit on real ranks finds out, as plain facts; imported on both sides, so no torch at the top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardviz.core.runs import Runs
from shardviz.core.spec import Spec
from shardviz.core.trace import Report

__all__ = ["Outcome", "Probed", "probe"]


@dataclass(frozen=True)
class Outcome:
    """What came of one attempt on one rank: the exception, or "", and the rows that came out wrong."""

    refused: str = ""
    wrong: Runs = ()


@dataclass(frozen=True)
class Probed:
    """What one rank found out about one parameter.

    Attributes:
        name: the parameter.
        spec: how it is sharded.
        shape: of what this rank really holds.
        reported: what torch reports of it.
        used: what the forward pass sees after `unshard()`.
        full: `full_tensor()`.
        save: a distributed checkpoint of it alone.
        again: that checkpoint, loaded into the same layout.
        whole: a right checkpoint, loaded onto this mesh.
        memory: a full state dict broadcast into real parameters.
        spread: a full state dict that every rank has.
        meta: a full state dict broadcast into a model on the meta device, as the forward pass then sees it.
    """

    name: str
    spec: Spec
    shape: tuple[int, ...]
    reported: Report
    used: Outcome
    full: Outcome
    save: Outcome
    again: Outcome
    whole: Outcome
    memory: Outcome
    spread: Outcome
    meta: Outcome

    def with_meta(self, meta: Outcome) -> Probed:
        """The same with the outcome of the last attempt."""
        return replace(self, meta=meta)


def probe(build: Callable[..., Any], args: Sequence[Any], directory: str) -> list[Probed]:
    """Called in a rank: see `probe.probe`."""
    from shardviz.checks.audits import probe

    return probe.probe(build, args, directory)
