"""One tensor dimension of one parameter: what every place of the mesh holds there, and what torch reports of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

from shardviz.checks.audits.kinds import Place
from shardviz.core.layout import layout
from shardviz.core.order import cutting_order, split_factor
from shardviz.core.placements import Shard, StridedShard
from shardviz.core.runs import Run, Runs, chunk, chunk_bounds, joined, length, piece
from shardviz.core.spec import Spec

__all__ = ["Box", "Line", "Question", "columns", "fsdp_cut", "line", "merged", "question"]


class Box(NamedTuple):
    """What torch reports of a shard on one tensor dimension: its size and its offset."""

    size: int
    first: int

    @property
    def run(self) -> Run:
        """The global indices that a checkpoint takes the shard to have."""
        return self.first, self.first + self.size


class Question(NamedTuple):
    """A tensor dimension and its cuts, apart from everything else: equal questions have equal answers.

    Attributes:
        size: of the tensor dimension.
        cuts: sizes of the mesh dimensions that cut it, from left to right.
        factors: their split factors; 1 for a plain cut.
        fsdp: whether FSDP2 made the leftmost cut.
    """

    size: int
    cuts: tuple[int, ...]
    factors: tuple[int, ...]
    fsdp: bool

    @property
    def spec(self) -> Spec:
        """The same as a spec of one tensor dimension."""
        placements = [Shard(0) if factor == 1 else StridedShard(0, factor) for factor in self.factors]
        return Spec((self.size,), self.cuts, placements, "fsdp2" if self.fsdp else None)

    @property
    def decodes(self) -> bool:
        """Whether the split factors decode to a sharding order."""
        return _decode(self)

    @property
    def even(self) -> bool:
        """Whether every cut divides and there is an order: then nothing is uneven, and every reading says the same."""
        return not self.size % math.prod(self.cuts) and self.decodes

    @property
    def aligned(self) -> bool:
        """Whether only the leftmost cut, made last, may be uneven: then torch reports what is held, as all pieces are alike."""
        inner = math.prod(self.cuts[1:])
        return not self.size % inner and self.factors[0] == inner and self.decodes


@lru_cache(maxsize=4096)
def _decode(asked: Question) -> bool:
    return cutting_order(asked.spec, 0) is not None


Reports: TypeAlias = Callable[[Question], Mapping[Place, Box]]
"""How the installed torch reports the shards of a question."""


@dataclass(frozen=True)
class Line:
    """The answers to a question, place by place: held, what the label says by itself, and what torch reports."""

    question: Question
    held: Mapping[Place, Runs]
    label: Mapping[Place, Runs]
    reported: Mapping[Place, Box]

    @property
    def places(self) -> tuple[Place, ...]:
        """Every coordinate on the cutting mesh dimensions, in the mesh's order."""
        return tuple(self.held)

    def true(self, place: Place) -> bool:
        """Whether the reported box is what the place holds."""
        held, box = self.held[place], self.reported[place]
        return held == (box.run,) if box.size else not held

    @cached_property
    def wrong(self) -> tuple[Place, ...]:
        """The places that torch reports wrongly."""
        return tuple(place for place in self.held if not self.true(place))

    def surplus(self, place: Place) -> int:
        """How many more elements a place holds than torch reports."""
        return length(self.held[place]) - self.reported[place].size

    @cached_property
    def resized(self) -> bool:
        """Whether torch reports a wrong size somewhere."""
        return any(self.surplus(place) for place in self.wrong)

    def rows(self, places: Iterable[Place]) -> Runs:
        """The indices that places hold, sorted."""
        return merged(run for place in places for run in self.held[place])


def question(spec: Spec, dim: int, fsdp: int | None) -> Question:
    """The question that a spec asks about one tensor dimension; `fsdp` is the mesh dimension of FSDP2's cut, or None."""
    cuts = [mesh_dim for mesh_dim in spec.cuts(dim) if spec.mesh.sizes[mesh_dim] > 1 or mesh_dim == fsdp]
    return Question(
        spec.shape[dim],
        tuple(spec.mesh.sizes[mesh_dim] for mesh_dim in cuts),
        tuple(split_factor(spec, mesh_dim) for mesh_dim in cuts),
        bool(cuts) and cuts[0] == fsdp,
    )


@lru_cache(maxsize=4096)
def line(asked: Question, reports: Reports) -> Line:
    """Answer a question."""
    return Line(asked, *tables(asked), reports(asked))


@lru_cache(maxsize=64)
def tables(asked: Question) -> tuple[Mapping[Place, Runs], Mapping[Place, Runs]]:
    """What every place holds, and what the placements say from left to right."""
    if len(asked.cuts) == 2 and asked.factors == (asked.cuts[1], 1):
        return _fsdp_over_tp(asked)
    spec = asked.spec
    held = {one.coordinate: one.runs[0] for one in layout(spec)}
    return held, {one.coordinate: one.runs[0] for one in layout(spec, "left-to-right")}


def _fsdp_over_tp(asked: Question) -> tuple[Mapping[Place, Runs], Mapping[Place, Runs]]:
    """The same for the usual two cuts, faster: from left to right a row of the mesh has together what it holds, in order.

    It is cut anew where its members hold other amounts than the chunk rule gives.
    """
    outer, inner = asked.cuts
    columns = [chunk_bounds(asked.size, inner, t) for t in range(inner)]
    shares = [-(-(stop - start) // outer) for start, stop in columns]
    held: dict[Place, Runs] = {}
    label: dict[Place, Runs] = {}
    for d in range(outer):
        row: list[Runs] = []
        for (start, stop), share in zip(columns, shares, strict=True):
            low, high = min(start + d * share, stop), min(start + (d + 1) * share, stop)
            row.append(((low, high),) if low < high else ())
        sizes = [length(runs) for runs in row]
        again = [high - low for low, high in (chunk_bounds(sum(sizes), inner, t) for t in range(inner))]
        cut = row if again == sizes else [chunk(joined(run for runs in row for run in runs), inner, t) for t in range(inner)]
        held.update({(d, t): runs for t, runs in enumerate(row)})
        label.update({(d, t): runs for t, runs in enumerate(cut)})
    return held, label


def left_to_right(asked: Question) -> Mapping[Place, Box]:
    """How torch reports since 2.10: it reads the placements from left to right, and says where the first element stands."""
    return {place: box_of(runs, asked.size) for place, runs in tables(asked)[1].items()}


def in_sharding_order(asked: Question) -> Mapping[Place, Box]:
    """How 2.8 and 2.9 reported, and the right way where the placements decode."""
    return {place: box_of(runs, asked.size) for place, runs in tables(asked)[0].items()}


def box_of(runs: Runs, size: int) -> Box:
    """The size and the first index of runs; of nothing, the size of the dimension."""
    return Box(length(runs), runs[0][0] if runs else size)


def columns(found: Line) -> dict[Place, tuple[Place, ...]]:
    """The places that share one parameter of FSDP2: by what is behind FSDP2's cut, the places along it."""
    groups: dict[Place, list[Place]] = {}
    for place in found.held:
        groups.setdefault(place[1:], []).append(place)
    return {inner: tuple(members) for inner, members in groups.items()}


def fsdp_cut(spec: Spec) -> int | None:
    """The mesh dimension of FSDP2's cut: the leftmost cut, where the spec is FSDP2's or looks exactly as FSDP2 makes it."""
    cutting = [m for m, placement in enumerate(spec.placements) if isinstance(placement, Shard | StridedShard)]
    if not cutting or spec.made_by in ("distribute_tensor", "redistribute", "from_local"):
        return None
    if spec.made_by:
        return cutting[0]
    first = cutting[0]
    dim = next(placement.dim for placement in (spec.placements[first],) if isinstance(placement, Shard | StridedShard))
    later = math.prod(spec.mesh.sizes[m] for m in spec.cuts(dim) if m > first)
    fits = split_factor(spec, first) == later and first < 2
    strided = isinstance(spec.placements[first], StridedShard)
    return first if fits and (strided or spec.mesh.names[first].startswith(("dp", "fsdp", "data"))) else None


def merged(runs: Iterable[Run]) -> Runs:
    """Runs sorted, and those that touch or overlap made one.

    Example:
        >>> merged([(4, 6), (0, 2), (1, 4), (9, 9)])
        ((0, 6),)
    """
    out: list[Run] = []
    for start, stop in sorted(runs):
        if start == stop:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(stop, out[-1][1]))
        else:
            out.append((start, stop))
    return tuple(out)


def differing(held: Runs, got: Runs) -> Runs:
    """The indices of `held` at whose position `got` has another one, or none.

    Example:
        >>> differing(((0, 4),), ((0, 2), (3, 4)))  # 0 1 2 3 against 0 1 3
        ((2, 4),)
    """
    wrong: list[Run] = []
    position = 0
    for start, stop in held:
        there = piece(got, position, position + stop - start) if got else ()
        at = start
        for low, high in there:
            count = high - low
            if low != at:
                wrong.append((at, at + count))
            at += count
        wrong.append((at, stop))
        position += stop - start
    return merged(wrong)
