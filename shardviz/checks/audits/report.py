"""The report of an audit: every parameter with what was found, as a table, as words, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from shardviz.checks.audits.coverage import Coverage
from shardviz.checks.audits.cures import cures_of
from shardviz.checks.audits.kinds import KINDS, Finding
from shardviz.checks.audits.parameter import Parameter, findings_of
from shardviz.checks.audits.release import Release
from shardviz.checks.audits.replay import replayed
from shardviz.core.errors import SpecError
from shardviz.core.runs import runs_text
from shardviz.core.spec import Spec

__all__ = ["Audit", "examine"]


@dataclass(frozen=True, repr=False)
class Audit:
    """What torch will get wrong about some parameters. True when something was found, or was not checked.

    Attributes:
        torch: the release.
        mesh: in words.
        parameters: all that were checked, with their findings.
        known_by: how this is known.
        coverage: how many parameters were checked, by whose word.
        reading: how the mesh was read, in words; "" where the placements were given.
    """

    torch: str
    mesh: str
    parameters: tuple[Parameter, ...]
    known_by: str
    coverage: Coverage
    reading: str = ""

    @property
    def errors(self) -> int:
        """How many findings of severity error there are."""
        return sum(len(one.errors) for one in self.parameters)

    @property
    def wrong(self) -> tuple[Parameter, ...]:
        """The parameters that have errors."""
        return tuple(one for one in self.parameters if one.errors)

    @property
    def ok(self) -> bool:
        """Whether everything was checked and nothing is wrong."""
        return not self.errors and self.coverage.complete

    def __bool__(self) -> bool:
        return not self.ok

    def __getitem__(self, name: str) -> Parameter:
        for one in self.parameters:
            if one.name == name:
                return one
        if name in self.coverage.unknown:
            raise SpecError(f"{name} was not checked: it {self.coverage.why}")
        raise SpecError(f"no parameter {name!r} was audited; there are {', '.join(one.name for one in self.parameters[:8])}")

    def json(self) -> dict[str, Any]:
        """The report as plain data, as `shardviz audit --json` prints it."""
        return {
            "torch": self.torch,
            "mesh": self.mesh,
            "reading": self.reading,
            "known_by": self.known_by,
            "coverage": self.coverage.json(),
            "parameters": [
                {
                    "name": one.name,
                    "shape": list(one.spec.shape),
                    "placements": ", ".join(map(str, one.spec.placements)),
                    "findings": [_finding_json(found) for found in one.findings],
                    "cures": list(one.cures),
                }
                for one in self.parameters
            ],
            "errors": self.errors,
            "ok": self.ok,
        }

    @property
    def text(self) -> str:
        """The report in words: what it covers, then errors and warnings, the gravest first; the rest counted."""
        lines = [f"torch {self.torch}, {self.mesh}: {self.verdict} (known by {self.known_by})"]
        lines += [f"read as: {self.reading}"] if self.reading else []
        lines += [f"covered: {self.coverage.text}"] if self.coverage.text else []
        for title, groups in (("errors", self._groups("error")), ("warnings", self._groups("warning"))):
            lines += [f"{title}:"] if groups else []
            for group in groups:
                one, said = group[0], group[0].findings
                others = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
                lines.append(f"  {one.name or 'the shape'}{others}: {one.spec}")
                shown = [found for found in said if found.severity != "note"]
                lines += [f"    {found.severity:7} {found.kind}: {found.message}" for found in shown]
                lines += [f"    cure    {cure}" for cure in one.cures]
        quiet = [one for one in self.parameters if not any(found.severity != "note" for found in one.findings)]
        if len(self.parameters) == 1 and quiet:
            lines.append(f"  {quiet[0].name or 'the shape'}: {quiet[0].spec}")
            lines += [f"    {found.severity:7} {found.kind}: {found.message}" for found in quiet[0].findings]
        elif quiet:
            lines.append(f"{len(quiet)} parameter{'s' * (len(quiet) != 1)} without errors or warnings")
        return "\n".join(lines)

    def _groups(self, severity: str) -> list[list[Parameter]]:
        """Parameters whose gravest finding is of a severity, those with the same spec and findings together, gravest first."""
        alike: dict[tuple[Spec, tuple[Finding, ...]], list[Parameter]] = {}
        for one in self.parameters:
            severities = {found.severity for found in one.findings}
            if severity in severities and not (severity == "warning" and "error" in severities):
                alike.setdefault((one.spec, one.findings), []).append(one)
        return sorted(alike.values(), key=lambda group: (_gravity(group[0].findings), -_lost(group[0].findings)))

    @property
    def verdict(self) -> str:
        """In a few words."""
        count, unknown = len(self.wrong), len(self.coverage.unknown)
        checked = self.coverage.checked
        rest = f", and {unknown} of {self.coverage.total} parameters were not checked" if unknown else ""
        if not self.errors:
            if not checked:
                return f"nothing was checked, of {self.coverage.total} parameters"
            if unknown:
                return f"nothing is wrong with the {checked} that were checked{rest}"
            return f"nothing is wrong{' with what was checked' if self.coverage.gaps else ''}"
        return f"{self.errors} error{'s' * (self.errors != 1)} in {count} of {checked} parameters{rest}"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = []
        for severity in ("error", "warning"):
            for group in self._groups(severity):
                one = group[0]
                more = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
                name = f"<b>{escape(one.name or 'the shape')}</b>{more}: {escape(str(one.spec))}"
                rows.append(f'<tr class="of"><th colspan="5" scope="rowgroup">{name}</th></tr>')
                for found in (each for each in one.findings if each.severity != "note"):
                    indices = escape(runs_text(found.indices, 4)) if found.indices else ""
                    rows.append(
                        f"<tr><td>{found.severity}</td><td>{found.kind}</td><td>{found.elements:,}</td>"
                        f'<td>{indices}</td><td class="what">{escape(found.message)}</td></tr>'
                    )
                cures = [f'<tr><td>cure</td><td class="what" colspan="4">{escape(cure)}</td></tr>' for cure in one.cures]
                rows += cures
        titles = ("severity", "kind", "elements", "indices", "what")
        heads = "".join(f'<th scope="col">{title}</th>' for title in titles)
        premises = "<br>".join(
            escape(line)
            for line in (
                f"torch {self.torch}, {self.mesh}: {self.verdict}",
                f"read as: {self.reading}" if self.reading else "",
                f"covered: {self.coverage.text}" if self.coverage.text else "",
            )
            if line
        )
        caption = f'<caption style="{_CAPTION}">{premises}</caption>'
        body = f"<tr>{heads}</tr>{''.join(rows)}" if rows else ""
        return f'<style scoped>{_STYLE}</style><table class="shardviz-audit">{caption}{body}</table>'


_CAPTION = "caption-side: top; text-align: left; font-weight: bold"
_STYLE = (
    ".shardviz-audit td, .shardviz-audit th {text-align: left !important; vertical-align: top; white-space: nowrap} "
    ".shardviz-audit .what, .shardviz-audit .of th {white-space: normal; min-width: 24em; max-width: 60em} "
    ".shardviz-audit .of th {font-weight: normal; padding-top: 0.8em}"
)


def _gravity(findings: Sequence[Finding]) -> int:
    return min((KINDS.index(one.kind) for one in findings), default=len(KINDS))


def _lost(findings: Sequence[Finding]) -> int:
    return max((one.elements for one in findings), default=0)


def examine(
    specs: Iterable[tuple[str, Spec]],
    release: Release,
    mesh: str = "",
    extra: Iterable[tuple[str, Finding]] = (),
    coverage: Coverage | None = None,
    reading: str = "",
) -> Audit:
    """Audit named specs; `extra` are findings of other origin, by parameter."""
    named = list(specs)
    more: dict[str, list[Finding]] = {}
    for name, finding in extra:
        more.setdefault(name, []).append(finding)
    covered = coverage or Coverage(len(named))
    if release.gathers_by_size:
        told = [(name, *replayed(spec)) for name, spec in named]
        for name, wrong, _ in told:
            if wrong is not None:
                more.setdefault(name, []).append(wrong)
        covered = replace(covered, gaps=(*covered.gaps, *sorted({gap for *_, gap in told if gap})))
    parameters = []
    for name, spec in named:
        findings = tuple(sorted((*more.get(name, ()), *findings_of(spec, release.reports)), key=_order))
        errors = frozenset(found.kind for found in findings if found.severity == "error")
        parameters.append(Parameter(name, spec, findings, cures_of(spec, release.reports, errors) if errors else ()))
    where = mesh or _meshes(spec for _, spec in named)
    return Audit(release.torch, where, tuple(parameters), release.known_by, covered, reading)


def _order(found: Finding) -> tuple[int, int]:
    return ("error", "warning", "note").index(found.severity), KINDS.index(found.kind)


def _meshes(specs: Iterable[Spec]) -> str:
    """The meshes of several parameters, the largest alone where they are parts of it."""
    found = {str(spec.mesh): spec.mesh.size for spec in specs}
    return max(found, key=lambda one: (found[one], len(one)), default="no mesh")


def _finding_json(found: Finding) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "severity": found.severity,
        "elements": found.elements,
        "indices": [list(run) for run in found.indices],
        "ranks": list(found.ranks),
        "message": found.message,
    }
