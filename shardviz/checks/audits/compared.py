"""The audit on real ranks: what really happened to a model, beside what arithmetic says of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardviz.checks.audits.kinds import Finding, Severity
from shardviz.checks.audits.lines import merged
from shardviz.checks.audits.parameter import Parameter, findings_of
from shardviz.checks.audits.ranks import Held, Seen, probe
from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.report import Audit, examine
from shardviz.checks.audits.trials import NOT_TRIED, Journal, Outcome, try_on
from shardviz.checks.guarding.agreement import ranks_text
from shardviz.core.compare import place_text
from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.runs import runs_text
from shardviz.core.spec import Spec

if TYPE_CHECKING:
    from shardviz.ranks.cluster import Ranks

__all__ = ["RealAudit", "audit_on_ranks"]

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
KINDS: dict[str, tuple[str, str, Severity]] = {
    "full": ("full-tensor-wrong", "full-tensor-wrong", "error"),
    "save": ("checkpoint-refused", "checkpoint-refused", "error"),
    "again": ("checkpoint-loses-elements", "checkpoint-loses-elements", "error"),
    "whole": ("checkpoint-unloadable", "load-shifts-rows", "error"),
    "memory": ("load-refused", "load-shifts-rows", "error"),
    "meta": ("load-refused", "load-shifts-rows", "error"),
    "spread": ("load-refused", "load-shifts-rows", "warning"),
}
"""Per attempt: the kind where it is refused, the kind where values come out wrong, and how severe the former is."""

PASSES = {"build": "sharding-refused", "forward": "forward-refused", "backward": "train-refused"}
"""What is tried of the model as a whole, and the kind where it fails."""


@dataclass(frozen=True)
class RealAudit:
    """What happened on real ranks, and what was predicted. True when something went wrong, or not as predicted.

    Attributes:
        predicted: the audit by arithmetic of the same model.
        found: what really happened to each parameter, as findings.
        model: what really happened to the model as a whole: building it, its forward and its backward pass.
        surprises: where the two differ, in words; and where the ranks hold or use something else than predicted.
        coverage: what was tried of how many, and what was not, in words.
        source: the ranks, in words.
    """

    predicted: Audit
    found: tuple[Parameter, ...]
    model: tuple[Finding, ...]
    surprises: tuple[str, ...]
    coverage: tuple[str, ...]
    source: str

    @property
    def errors(self) -> int:
        """How many errors really happened."""
        return sum(len(one.errors) for one in self.found) + sum(found.severity == "error" for found in self.model)

    def __bool__(self) -> bool:
        return bool(self.errors or self.surprises)

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong, and everything as predicted."""
        return not self

    def __getitem__(self, name: str) -> Parameter:
        for one in self.found:
            if one.name == name:
                return one
        raise SpecError(f"no parameter {name!r} was tried; there are {', '.join(one.name for one in self.found[:8])}")

    @property
    def text(self) -> str:
        """The report in words."""
        lines = [f"on {self.source}: {self.errors} error{'s' * (self.errors != 1)}"]
        if self.model:
            lines += ["the model as a whole", *(_line(found) for found in self.model)]
        for one in self.found:
            lines.append(f"{one.name}: {one.spec}")
            lines += [_line(found) for found in one.findings] or ["  everything is right"]
        lines += [f"not as predicted: {surprise}" for surprise in self.surprises] or ["everything was as predicted"]
        return "\n".join([*lines, *self.coverage])

    def __str__(self) -> str:
        return self.text


def _line(found: Finding) -> str:
    return f"  {found.severity:7} {found.kind}: {found.message}"


def audit_on_ranks(build: Callable[..., Any], args: Sequence[Any], ranks: Ranks, example: Any = None) -> RealAudit:
    """Build a model on every rank and try everything that may lose rows, raise or hang; then compare with the arithmetic."""
    with tempfile.TemporaryDirectory(prefix="shardviz-audit-") as directory:
        seen, journal = try_on(ranks, probe, (build, args, example), directory)
    seen = seen or [Seen()] * ranks.n
    model = tuple(
        Finding(kind, "error", 0, (), _where(journal[what]), f"{_pass(what)}: {told(journal[what])}")
        for what, kind in PASSES.items()
        if what in journal and not all(outcome.right for outcome in journal[what])
    )
    held: dict[str, dict[int, Held]] = {}
    for rank, one in enumerate(seen):
        for mine in one.held:
            held.setdefault(mine.name, {})[rank] = mine
    apart = seen[0].apart
    if not held and not apart and not model:
        raise SpecError("an audit on ranks needs a function that builds a model of DTensors; it built none on any rank")
    release = installed_release()
    specs = {name: next(iter(mine.values())).spec for name, mine in held.items()}
    predicted = examine(list(specs.items()), release)
    found, surprises = [], list[str]()
    for name, mine in held.items():
        outcomes = _outcomes(journal, name)
        findings = tuple(_happened(specs[name], outcomes))
        found.append(Parameter(name, specs[name], findings))
        surprises += [f"{name}: {words}" for words in _surprises(mine, outcomes)]
        foreseen = findings_of(specs[name], release.reports)
        everywhere = len(mine) == ranks.n and all(one.spec.mesh == specs[name].mesh for one in mine.values())
        if everywhere:  # what is predicted is about one mesh of all ranks
            surprises += [f"{name}: {words}" for words in _unlike(findings, foreseen)]
        trained = all(outcome.right for outcome in journal.get("backward", [NOT_TRIED]))
        if "backward" in journal and trained and any(one.kind == "train-refused" for one in foreseen):
            surprises.append(f"{name}: train-refused was predicted, and the backward pass came through")
    model += tuple(Finding("ranks-disagree", "error", 0, (), where, f"{name}: {words}") for name, words, where in apart)
    source = f"{ranks.n} {ranks.backend} ranks, torch {ranks.torch}"
    coverage = tuple(_coverage(seen, len(held), len(apart), journal))
    return RealAudit(predicted, tuple(found), model, tuple(surprises), coverage, source)


def _coverage(seen: Sequence[Seen], tried: int, apart: int, journal: Journal) -> Iterator[str]:
    yield f"{tried} of {tried + apart} sharded parameters were tried"
    plain = max(one.plain for one in seen)
    if plain:
        yield f"{plain} plain parameter{'s' * (plain != 1)} (no DTensor) not tried"
    if "forward" not in journal and "build" in journal and all(outcome.right for outcome in journal["build"]):
        yield "forward and backward not tried: give example=, what the forward pass is called with"
    elif "forward" in journal and "backward" not in journal:
        yield "backward not tried: the forward pass did not come through"


def _pass(what: str) -> str:
    return {"build": "building the model", "forward": "the forward pass", "backward": "the backward pass"}[what]


def told(outcomes: Sequence[Outcome]) -> str:
    """What came of an attempt that went wrong, in words: who raises what, and who waits for them.

    Example:
        >>> told([Outcome(hangs=True), Outcome(hangs=True), Outcome("IndexError: x")])
        'rank 2 raises IndexError: x; ranks 0-1 wait, and were stopped'
    """
    words = []
    raised: dict[str, list[int]] = {}
    for rank, outcome in enumerate(outcomes):
        if outcome.refused:
            raised.setdefault(outcome.refused, []).append(rank)
    for said, ranks in list(raised.items())[:2]:
        words.append(f"{ranks_text(ranks)} {'raises' if len(ranks) == 1 else 'raise'} {said}")
    waiting = [rank for rank, outcome in enumerate(outcomes) if outcome.hangs]
    if waiting:
        one = len(waiting) == 1
        words.append(f"{ranks_text(waiting)} {'waits' if one else 'wait'}, and {'was' if one else 'were'} stopped")
    return "; ".join(words)


def _where(outcomes: Sequence[Outcome]) -> tuple[int, ...]:
    """The ranks that raise; where none does, those that wait."""
    raised = tuple(rank for rank, outcome in enumerate(outcomes) if outcome.refused)
    return raised or tuple(rank for rank, outcome in enumerate(outcomes) if outcome.hangs)


def _outcomes(journal: Journal, name: str) -> dict[str, list[Outcome]]:
    """What came of every attempt with one parameter."""
    found = {what: journal[f"{name}|{what}"] for what in TRIED if f"{name}|{what}" in journal}
    used = journal.get(f"{name}|meta used")
    if used is not None:
        found["meta"] = used
    return found


def _happened(spec: Spec, outcomes: Mapping[str, Sequence[Outcome]]) -> Iterator[Finding]:
    """What went wrong with one parameter, as the kinds of an audit say it."""
    rest = spec.numel // (spec.shape[_dim(spec)] or 1) if spec.ndim else 1
    for attempt, (refused, wrong, severity) in KINDS.items():
        mine = outcomes.get(attempt, [])
        if any(outcome.refused or outcome.hangs for outcome in mine):
            yield Finding(refused, severity, 0, (), _where(mine), f"{TRIED[attempt]}: {told(mine)}")
            continue
        off = [(rank, outcome) for rank, outcome in enumerate(mine) if outcome.wrong]
        if off:
            rows = merged(run for _, outcome in off for run in outcome.wrong)
            message = f"{TRIED[attempt]}: no error, and wrong values in {runs_text(rows, 4)}"
            count = sum(stop - start for start, stop in rows)
            yield Finding(wrong, "error", count * rest, rows, tuple(rank for rank, _ in off), message)


def _surprises(held: Mapping[int, Held], outcomes: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Where the ranks hold or use something else than arithmetic says: then it is shardviz that is wrong."""
    for rank, one in held.items():
        piece = layout(one.spec)[rank]
        if one.shape != piece.shape:
            shown = place_text(one.spec.shape, one.shape, piece.offset)
            yield f"rank {rank} holds {shown}, and not {place_text(one.spec.shape, piece.shape, piece.offset)}"
    for rank, used in enumerate(outcomes.get("used", ())):
        if not used.right:
            words = used.refused or ("it waits" if used.hangs else runs_text(used.wrong, 4))
            yield f"rank {rank} uses wrong rows after unshard(): {words}"


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


def _dim(spec: Spec) -> int:
    return max(range(spec.ndim), key=lambda dim: len(spec.cuts(dim)), default=0)
