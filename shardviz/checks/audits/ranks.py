"""What an audit on real ranks finds out, as plain facts; imported on both sides, so no torch at the top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardviz.core.spec import Spec
from shardviz.core.trace import Report

if TYPE_CHECKING:
    from shardviz.checks.audits.trials import Trials

__all__ = ["Held", "Seen", "probe"]


@dataclass(frozen=True)
class Held:
    """What one rank has of one parameter.

    Attributes:
        name: the parameter.
        spec: how it is sharded.
        shape: of what this rank really holds.
        reported: what torch reports of it.
    """

    name: str
    spec: Spec
    shape: tuple[int, ...]
    reported: Report


@dataclass(frozen=True)
class Seen:
    """What one rank says of a model.

    Attributes:
        held: its parameters that are DTensors.
        plain: how many others it has.
        apart: by name, what the ranks do not agree about, in words, and where; these parameters are not tried.
    """

    held: tuple[Held, ...] = ()
    plain: int = 0
    apart: tuple[tuple[str, str, tuple[int, ...]], ...] = ()


def probe(trials: Trials, build: Callable[..., Any], args: Sequence[Any], example: Any) -> Seen:
    """Called in a rank: see `probe.probe`."""
    from shardviz.checks.audits import probe

    return probe.probe(trials, build, args, example)
