"""The verdict on one parameter: the faults of its dimensions, with ranks, elements and sentences; and what would cure them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from shardviz.checks.audits.checkpoint import checkpoint_faults
from shardviz.checks.audits.kinds import KINDS, Fault, Finding, Place
from shardviz.checks.audits.lines import Question, Reports, fsdp_cut, in_sharding_order, left_to_right, line, question
from shardviz.checks.audits.loads import load_faults
from shardviz.checks.audits.shapes import refused_cut, shape_faults
from shardviz.core.order import split_factor
from shardviz.core.placements import Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.picture.picture import Picture

__all__ = ["Parameter", "findings_of", "inner_cuts", "is_wrong", "on_mesh", "resized"]


@dataclass(frozen=True)
class Parameter:
    """One parameter and what was found.

    Attributes:
        name: its name; "" for a shape that was asked about by itself.
        spec: how it is sharded.
        findings: gravest first.
        cures: in words, the smallest first; empty where nothing is wrong.
    """

    name: str
    spec: Spec
    findings: tuple[Finding, ...]
    cures: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make an audit fail."""
        return tuple(found for found in self.findings if found.severity == "error")

    def draw(self) -> Picture:
        """What each rank holds, with what the installed torch reports of it."""
        from shardviz.checks.audits.picture import draw_reported

        return draw_reported(self.spec)


@lru_cache(maxsize=4096)
def faults_of(asked: Question, reports: Reports, first_dim: bool, fsdp2: bool) -> tuple[Fault, ...]:
    """Everything about one tensor dimension. `first_dim`: it is dimension 0, the only one that FSDP2 cuts unevenly."""
    if not asked.size or not asked.cuts or asked.even:
        return ()
    found = line(asked, reports)
    refused = refused_cut(found) if asked.fsdp and not first_dim else None
    if refused:
        return (refused,)
    return (*checkpoint_faults(found), *load_faults(found), *shape_faults(found, fsdp2))


def findings_of(spec: Spec, reports: Reports) -> tuple[Finding, ...]:
    """What is found about a tensor, gravest first."""
    if not spec.numel:
        return ()
    fsdp = fsdp_cut(spec)
    found: list[Finding] = []
    for dim, size in enumerate(spec.shape):
        asked = question(spec, dim, fsdp)
        faults = faults_of(asked, reports, dim == 0, fsdp is not None)
        if faults:
            ranks = _Ranks(spec, dim, fsdp)
            found += [_finding(fault, ranks, dim, spec.numel // size) for fault in faults]
    if any(one.kind == "sharding-refused" for one in found):  # it does not come to be, so nothing else can happen to it
        found = [one for one in found if one.kind == "sharding-refused"]
    severities = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda one: (severities.index(one.severity), KINDS.index(one.kind))))


def is_wrong(spec: Spec, reports: Reports) -> bool:
    """Whether there is an error: the answer of `findings_of`, without looking at every place where that is not needed."""
    fsdp = fsdp_cut(spec)
    for dim in range(spec.ndim if spec.numel else 0):
        asked = question(spec, dim, fsdp)
        if not asked.cuts or asked.even or (asked.aligned and dim == 0 and reports in (left_to_right, in_sharding_order)):
            continue
        if any(one.severity == "error" for one in faults_of(asked, reports, dim == 0, fsdp is not None)):
            return True
    return False


class _Ranks:
    """The ranks at the places of one tensor dimension."""

    def __init__(self, spec: Spec, dim: int, fsdp: int | None) -> None:
        cuts = [m for m in spec.cuts(dim) if spec.mesh.sizes[m] > 1 or m == fsdp]
        self.at: defaultdict[Place, list[int]] = defaultdict(list)
        for coordinate, rank in zip(spec.mesh.coordinates, spec.mesh.ranks, strict=True):
            self.at[tuple([coordinate[m] for m in cuts])].append(rank)

    def of(self, places: Sequence[Place]) -> tuple[int, ...]:
        """All ranks at some places, in order."""
        return tuple(sorted(rank for place in places for rank in self.at[place]))

    def first(self, place: Place) -> int:
        """The lowest rank at a place."""
        return min(self.at[place])


def _finding(found: Fault, ranks: _Ranks, dim: int, rest: int) -> Finding:
    row = ("row", "column")[dim] if dim < 2 else f"index of dimension {dim}"
    rows = f"{row}s" if dim < 2 else f"indices of dimension {dim}"
    message = found.text.format(*map(ranks.first, found.named), row=row, rows=rows)
    return Finding(found.kind, found.severity, found.number * rest, found.indices, ranks.of(found.places), message)


def resized(spec: Spec, dim: int, size: int) -> Spec:
    """The same placements for another size of one dimension."""
    return Spec((*spec.shape[:dim], size, *spec.shape[dim + 1 :]), spec.mesh, spec.placements, spec.made_by)


def on_mesh(spec: Spec, sizes: Sequence[int]) -> Spec:
    """The same parallelism on a mesh of other sizes: FSDP2's split factor follows them."""
    mesh = dict(zip(spec.mesh.names, sizes, strict=True))
    placements = list(spec.placements)
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, StridedShard | Shard):
            later = [m for m in spec.cuts(placement.dim) if m > mesh_dim]
            before = math.prod(spec.mesh.sizes[m] for m in later)
            if mesh_dim == fsdp_cut(spec) or (isinstance(placement, StridedShard) and split_factor(spec, mesh_dim) == before):
                factor = math.prod(sizes[m] for m in later)
                placements[mesh_dim] = StridedShard(placement.dim, factor) if factor > 1 else Shard(placement.dim)
    return Spec(spec.shape, mesh, placements, spec.made_by)


def inner_cuts(spec: Spec, dim: int) -> int:
    """Into how many pieces everything but FSDP2's cut cuts a dimension."""
    fsdp = fsdp_cut(spec)
    return math.prod(spec.mesh.sizes[m] for m in spec.cuts(dim) if m != fsdp)
