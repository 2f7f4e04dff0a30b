"""A layout drawn with what the installed torch reports of it, without ranks."""

from __future__ import annotations

from collections.abc import Mapping

from shardviz.checks.audits.kinds import Place
from shardviz.checks.audits.lines import Box, fsdp_cut, line, question
from shardviz.checks.audits.release import installed_release
from shardviz.core.compare import report_difference
from shardviz.core.layout import layout
from shardviz.core.spec import Spec
from shardviz.core.trace import Report, Source, start
from shardviz.picture import Picture, draw_layout

__all__ = ["draw_reported", "misreported", "predicted_reports"]


def draw_reported(spec: Spec) -> Picture:
    """What arithmetic says each rank holds, and, where that differs, what torch reports."""
    made, reports = predicted_reports(spec)
    torch = installed_release().torch
    return draw_layout(made, start(layout(made)), Source("predicted", torch=torch), reports)


def predicted_reports(spec: Spec) -> tuple[Spec, tuple[Report, ...]]:
    """The spec with its origin, as far as that can be told, and what the installed torch reports of every rank.

    Example:
        >>> from shardviz.core.spec import parse
        >>> [report.offset for report in predicted_reports(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)"))[1]][6:]
        [(8,), (9,)]
    """
    release, fsdp = installed_release(), fsdp_cut(spec)
    made = spec.with_made_by(spec.made_by or ("fsdp2" if fsdp is not None else None))
    asked = [question(spec, dim, fsdp) for dim in range(spec.ndim)]
    whole: list[Mapping[Place, Box]] = [{(): Box(one.size, 0)} for one in asked]
    tables = [line(one, release.reports).reported if one.cuts else box for one, box in zip(asked, whole, strict=True)]
    cuts = [[m for m in spec.cuts(dim) if spec.mesh.sizes[m] > 1 or m == fsdp] for dim in range(spec.ndim)]
    reports = []
    for rank, coordinate in zip(spec.mesh.ranks, spec.mesh.coordinates, strict=True):
        boxes = [table[tuple(coordinate[m] for m in along)] for table, along in zip(tables, cuts, strict=True)]
        reports.append(Report(rank, tuple(box.size for box in boxes), tuple(box.first for box in boxes)))
    return made, tuple(reports)


def misreported(spec: Spec) -> int:
    """On how many ranks the installed torch's report differs from what they hold.

    Example:
        >>> from shardviz.core.spec import parse
        >>> misreported(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)"))  # ranks 6 and 7
        2
    """
    made, reports = predicted_reports(spec)
    pairs = zip(start(layout(made)), reports, strict=True)
    return sum(bool(report_difference(made.shape, held, report)) for held, report in pairs)
