"""The audit on real ranks: what really happened to a model, beside what arithmetic says of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardviz.checks.audits.kinds import Finding, Severity
from shardviz.checks.audits.lines import merged
from shardviz.checks.audits.parameter import Parameter, findings_of
from shardviz.checks.audits.ranks import Outcome, Probed, probe
from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.report import Audit, examine
from shardviz.core.compare import place_text
from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.runs import runs_text

if TYPE_CHECKING:
    from shardviz.ranks.cluster import Ranks

__all__ = ["RealAudit", "audit_on_ranks"]

ATTEMPTS = ("used", "full", "save", "again", "whole", "memory", "spread", "meta")
TRIED = {
    "used": "unshard()",
    "full": "full_tensor()",
    "save": "a save",
    "again": "a save, loaded into the same layout",
    "whole": "a whole checkpoint, loaded onto this mesh",
    "memory": "a full state dict, broadcast into real parameters",
    "spread": "a full state dict that every rank has",
    "meta": "a full state dict, broadcast into parameters on the meta device",
}


@dataclass(frozen=True)
class RealAudit:
    """What happened on real ranks, and what was predicted. True when something went wrong, or not as predicted.

    Attributes:
        predicted: the audit by arithmetic of the same model.
        found: what really happened, as findings.
        surprises: where the two differ, in words; and where the ranks hold or use something else than predicted.
        source: the ranks, in words.
    """

    predicted: Audit
    found: tuple[Parameter, ...]
    surprises: tuple[str, ...]
    source: str

    @property
    def errors(self) -> int:
        """How many errors really happened."""
        return sum(len(one.errors) for one in self.found)

    def __bool__(self) -> bool:
        return bool(self.errors or self.surprises)

    @property
    def text(self) -> str:
        """The report in words."""
        lines = [f"on {self.source}: {self.errors} error{'s' * (self.errors != 1)}"]
        for one in self.found:
            lines.append(f"{one.name}: {one.spec}")
            said = [f"  {found.severity:7} {found.kind}: {found.message}" for found in one.findings]
            lines += said or ["  everything is right"]
        lines += [f"not as predicted: {surprise}" for surprise in self.surprises] or ["everything was as predicted"]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


def audit_on_ranks(build: Callable[..., Any], args: Sequence[Any], ranks: Ranks) -> RealAudit:
    """Build a model on every rank and try everything that may lose rows; then compare with the arithmetic."""
    with tempfile.TemporaryDirectory(prefix="shardviz-audit-") as directory:
        answers = ranks.apply(probe, build, tuple(args), directory)
    names = [one.name for one in answers[0]]
    if not names or any([one.name for one in answer] != names for answer in answers):
        raise SpecError("an audit on ranks needs a function that builds, on every rank, the same model of DTensors")
    release = installed_release()
    predicted = examine([(one.name, one.spec) for one in answers[0]], release)
    found, surprises = [], list[str]()
    for number, name in enumerate(names):
        mine = [answer[number] for answer in answers]
        findings = tuple(_happened(mine))
        found.append(Parameter(name, mine[0].spec, findings))
        surprises += [f"{name}: {words}" for words in _surprises(mine)]
        surprises += [f"{name}: {words}" for words in _unlike(findings, findings_of(mine[0].spec, release.reports))]
    return RealAudit(predicted, tuple(found), tuple(surprises), f"{ranks.n} {ranks.backend} ranks, torch {ranks.torch}")


def _happened(mine: Sequence[Probed]) -> Iterator[Finding]:
    """What went wrong with one parameter, as the kinds of an audit say it."""
    rest = mine[0].spec.numel // (mine[0].spec.shape[_dim(mine[0])] or 1)
    kinds: dict[str, tuple[str, str, Severity]] = {
        "full": ("full-tensor-wrong", "full-tensor-wrong", "error"),
        "save": ("checkpoint-refused", "checkpoint-refused", "error"),
        "again": ("checkpoint-loses-elements", "checkpoint-loses-elements", "error"),
        "whole": ("checkpoint-unloadable", "load-shifts-rows", "error"),
        "memory": ("load-refused", "load-shifts-rows", "error"),
        "meta": ("load-refused", "load-shifts-rows", "error"),
        "spread": ("load-refused", "load-shifts-rows", "warning"),
    }
    for attempt, (refused, wrong, severity) in kinds.items():
        outcomes: list[tuple[int, Outcome]] = [(rank, getattr(one, attempt)) for rank, one in enumerate(mine)]
        raised = [(rank, outcome) for rank, outcome in outcomes if outcome.refused and outcome.refused != "not saved"]
        if raised:
            ranks = tuple(rank for rank, _ in raised)
            message = f"{TRIED[attempt]}: rank {ranks[0]} raises {raised[0][1].refused}"
            yield Finding(refused, severity, 0, (), ranks, message)
            continue
        off = [(rank, outcome) for rank, outcome in outcomes if outcome.wrong]
        if off:
            rows = merged(run for _, outcome in off for run in outcome.wrong)
            message = f"{TRIED[attempt]}: no error, and wrong values in {runs_text(rows, 4)}"
            count = sum(stop - start for start, stop in rows)
            yield Finding(wrong, "error", count * rest, rows, tuple(rank for rank, _ in off), message)


def _surprises(mine: Sequence[Probed]) -> Iterator[str]:
    """Where the ranks hold or use something else than arithmetic says: then it is shardviz that is wrong."""
    spec = mine[0].spec
    pieces = layout(spec)
    for rank, one in enumerate(mine):
        if one.shape != pieces[rank].shape:
            held = place_text(spec.shape, one.shape, pieces[rank].offset)
            yield f"rank {rank} holds {held}, and not {place_text(spec.shape, pieces[rank].shape, pieces[rank].offset)}"
        if one.used.wrong or (one.used.refused and "not sharded" not in one.used.refused):
            yield f"rank {rank} uses wrong rows after unshard(): {one.used.refused or runs_text(one.used.wrong, 4)}"


def _unlike(found: Sequence[Finding], predicted: Sequence[Finding]) -> Iterator[str]:
    """Errors and refusals that were predicted and did not happen, or the other way round, by kind and indices."""
    tried = {
        *("full-tensor-wrong", "checkpoint-refused", "checkpoint-loses-elements", "checkpoint-unloadable"),
        *("load-shifts-rows", "load-refused"),
    }
    one = sorted(_key(finding) for finding in found if finding.kind in tried)
    other = sorted(_key(finding) for finding in predicted if finding.kind in tried and "stand under" not in finding.message)
    yield from (f"{key} happened" for key in one if key not in other)
    yield from (f"{key} was predicted" for key in other if key not in one)


def _key(finding: Finding) -> tuple[object, ...]:
    exact = finding.kind in ("checkpoint-loses-elements", "load-shifts-rows")
    ranks = finding.ranks if finding.kind == "load-refused" else ()
    return (finding.kind, finding.severity, finding.indices if exact else (), ranks)


def _dim(one: Probed) -> int:
    return max(range(one.spec.ndim), key=lambda dim: len(one.spec.cuts(dim)), default=0)
