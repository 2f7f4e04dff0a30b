"""A layout drawn with what the installed torch reports of it, without ranks."""

from __future__ import annotations

from collections.abc import Mapping

from shardviz.checks.audits.kinds import Place
from shardviz.checks.audits.lines import Box, fsdp_cut, line, question
from shardviz.checks.audits.release import installed_release
from shardviz.core.layout import layout
from shardviz.core.spec import Spec
from shardviz.core.trace import Report, Source, start
from shardviz.picture import Picture, draw_layout

__all__ = ["draw_reported"]


def draw_reported(spec: Spec) -> Picture:
    """What arithmetic says each rank holds, and, where that differs, what torch reports."""
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
    return draw_layout(made, start(layout(made)), Source("predicted", torch=release.torch), tuple(reports))
