"""The report of an audit: every parameter with what was found, as a table, as words, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from shardviz.checks.audits.cures import cures_of
from shardviz.checks.audits.kinds import Finding
from shardviz.checks.audits.parameter import Parameter, findings_of
from shardviz.checks.audits.release import Release
from shardviz.core.errors import SpecError
from shardviz.core.runs import runs_text
from shardviz.core.spec import Spec

__all__ = ["Audit", "examine"]


@dataclass(frozen=True)
class Audit:
    """What the installed torch will get wrong about some parameters. True when there are errors.

    Attributes:
        torch: the release.
        mesh: in words.
        parameters: all of them, with their findings.
        known_by: how this is known.
    """

    torch: str
    mesh: str
    parameters: tuple[Parameter, ...]
    known_by: str

    @property
    def errors(self) -> int:
        """How many findings of severity error there are."""
        return sum(len(one.errors) for one in self.parameters)

    @property
    def wrong(self) -> tuple[Parameter, ...]:
        """The parameters that have errors."""
        return tuple(one for one in self.parameters if one.errors)

    def __bool__(self) -> bool:
        return bool(self.errors)

    def __getitem__(self, name: str) -> Parameter:
        for one in self.parameters:
            if one.name == name:
                return one
        raise SpecError(f"no parameter {name!r} was audited; there are {', '.join(one.name for one in self.parameters[:8])}")

    def json(self) -> dict[str, Any]:
        """The report as plain data, as `shardviz audit --json` prints it."""
        return {
            "torch": self.torch,
            "mesh": self.mesh,
            "known_by": self.known_by,
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
        }

    @property
    def text(self) -> str:
        """The report in words: parameters with errors and warnings in full, the rest counted."""
        lines = [f"torch {self.torch}, {self.mesh}: {self._verdict} (known by {self.known_by})"]
        quiet = 0
        alike: dict[tuple[Spec, tuple[Finding, ...]], list[Parameter]] = {}
        for one in self.parameters:
            alike.setdefault((one.spec, one.findings), []).append(one)
        for group in alike.values():
            one, more = group[0], len(group) - 1
            said = [found for found in one.findings if found.severity != "note"]
            if not said and len(self.parameters) > 1:
                quiet += len(group)
                continue
            others = f" and {more} more like it" if more else ""
            lines.append(f"{one.name or 'the shape'}{others}: {one.spec}")
            lines += [f"  {found.severity:7} {found.kind}: {found.message}" for found in said or one.findings]
            if one.cures:
                lines.append(f"  cure    {'; '.join(one.cures)}")
        if quiet:
            lines.append(f"{quiet} parameter{'s' * (quiet != 1)} without errors or warnings")
        return "\n".join(lines)

    @property
    def _verdict(self) -> str:
        if not self.errors:
            return "nothing is wrong"
        count = len(self.wrong)
        return f"{self.errors} error{'s' * (self.errors != 1)} in {count} of {len(self.parameters)} parameters"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{escape(one.name)}</td><td>{list(one.spec.shape)}</td><td>{found.severity}</td><td>{found.kind}</td>"
            f"<td>{found.elements:,}</td><td>{escape(runs_text(found.indices, 4)) if found.indices else ''}</td>"
            f"<td>{escape(found.message)}</td></tr>"
            for one in self.parameters
            for found in one.findings
            if found.severity != "note"
        ]
        titles = ("parameter", "shape", "severity", "kind", "elements", "indices", "what")
        heads = "".join(f"<th>{title}</th>" for title in titles)
        caption = escape(f"torch {self.torch}, {self.mesh}: {self._verdict}")
        return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(rows)}</table>"


def examine(
    specs: Iterable[tuple[str, Spec]], release: Release, mesh: str = "", extra: Iterable[tuple[str, Finding]] = ()
) -> Audit:
    """Audit named specs; `extra` are findings of other origin, by parameter."""
    named = list(specs)
    more: dict[str, list[Finding]] = {}
    for name, finding in extra:
        more.setdefault(name, []).append(finding)
    parameters = []
    for name, spec in named:
        findings = (*more.get(name, ()), *findings_of(spec, release.reports))
        errors = frozenset(found.kind for found in findings if found.severity == "error")
        parameters.append(Parameter(name, spec, findings, cures_of(spec, release.reports, errors) if errors else ()))
    return Audit(release.torch, mesh or _meshes(spec for _, spec in named), tuple(parameters), release.known_by)


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
