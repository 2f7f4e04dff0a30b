"""What an audit can find: the kinds of findings, how severe each is, and findings as plain facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from shardviz.core.runs import Runs

__all__ = ["ERRORS", "KINDS", "NOTES", "WARNINGS", "Fault", "Finding", "Place", "Severity", "fault"]

Severity: TypeAlias = Literal["error", "warning", "note"]
Place: TypeAlias = tuple[int, ...]
"""A coordinate on the mesh dimensions that cut one tensor dimension."""

ERRORS = (
    "ranks-disagree",
    "checkpoint-refused",
    "checkpoint-loses-elements",
    "checkpoint-unloadable",
    "load-shifts-rows",
    "load-refused",
    "pretrained-refused",
    "export-wrong-shape",
    "full-tensor-wrong",
    "forward-refused",
    "train-refused",
    "sharding-refused",
)
WARNINGS = ("hangs-on-empty-rank", "ambiguous-label")
NOTES = ("empty-ranks", "padding", "imbalance")
KINDS = (*ERRORS, *WARNINGS, *NOTES)
"""Every kind, gravest first. `load-refused` is a warning where torch refuses a way of loading that need not be taken."""


@dataclass(frozen=True)
class Finding:
    """One thing that the installed torch gets wrong, or that is worth knowing, about one parameter.

    Attributes:
        kind: one of `KINDS`.
        severity: "error" (what makes an audit fail), "warning" or "note".
        elements: how many elements of the global tensor it is about.
        indices: which, as runs of global indices along the tensor dimension that is cut.
        ranks: where.
        message: a sentence.
    """

    kind: str
    severity: Severity
    elements: int
    indices: Runs
    ranks: tuple[int, ...]
    message: str


class Fault(NamedTuple):
    """A finding about one tensor dimension, before anything is known of the other dimensions and the ranks' numbers.

    `text` may name ranks as `{0}`, `{1}`, …: those at the places of `named`; `{rows}` is the word for the dimension's indices.
    """

    kind: str
    severity: Severity
    number: int
    indices: Runs
    places: tuple[Place, ...]
    text: str
    named: tuple[Place, ...] = ()


def fault(kind: str, indices: Runs, places: tuple[Place, ...], text: str, named: tuple[Place, ...] = ()) -> Fault:
    """A fault of the severity that its kind has, as many elements as there are indices."""
    severity: Severity = "error" if kind in ERRORS else "warning" if kind in WARNINGS else "note"
    return Fault(kind, severity, sum(stop - start for start, stop in indices), indices, places, text, named)


def as_warning(found: Fault) -> Fault:
    """The same fault, of a way that need not be taken."""
    return found._replace(severity="warning")
