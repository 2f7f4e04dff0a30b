"""Which elements each rank holds, as runs of global indices; the three readings; the index lens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from shardviz.core.errors import ReadingError, SpecError
from shardviz.core.order import cutting_order, required_order, split_factor
from shardviz.core.runs import Runs, length, position_of, runs_text, strided_chunk, strided_chunks
from shardviz.core.seen import Seen
from shardviz.core.spec import BY_FSDP2, Spec, as_spec
from shardviz.core.whole import whole

__all__ = ["READINGS", "Layout", "Owner", "RankLayout", "Reading", "layout", "local_shape_and_offset"]

Reading: TypeAlias = Literal["sharding-order", "left-to-right", "outer-last"]
READINGS: tuple[Reading, ...] = get_args(Reading)


@dataclass(frozen=True, slots=True)
class RankLayout:
    """What one rank holds.

    Attributes:
        rank: its number.
        coordinate: its place in the mesh, one number per mesh dimension.
        shape: elements held, per tensor dimension.
        offset: global index of the first element held, per tensor dimension; where nothing is held, the dimension's size.
        runs: per tensor dimension the `(start, stop)` runs of global indices held, in local order. The rank holds the
            elements whose index lies in the runs of every dimension.
    """

    rank: int
    coordinate: tuple[int, ...]
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    runs: tuple[Runs, ...]

    @property
    def numel(self) -> int:
        """Number of elements held."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Owner:
    """One place where a global element lives: a rank, its coordinate, and the index in its local tensor.

    `flat` is the position in the local tensor's row-major storage, in elements.
    """

    rank: int
    coordinate: tuple[int, ...]
    local_index: tuple[int, ...]
    flat: int


@dataclass(frozen=True, repr=False)
class Layout:
    """Every rank's part of one tensor. `layout[rank]` is a rank's; iteration follows the mesh in row-major order.

    Attributes:
        spec: the question.
        readings: the reading applied, per tensor dimension.
        ranks: what each rank holds, in the mesh's order.
        seen: of a live tensor, what ranks were seen to hold; no part of the answer: layouts that differ in it are equal.
    """

    spec: Spec
    readings: tuple[Reading, ...]
    ranks: tuple[RankLayout, ...] = field(repr=False)
    seen: tuple[Seen, ...] = field(default=(), repr=False, compare=False)

    @property
    def reading(self) -> str:
        """The reading applied; where tensor dimensions differ, one per dimension that is cut, joined by commas."""
        cut = [reading for dim, reading in enumerate(self.readings) if self.spec.cuts(dim)]
        return ", ".join(cut) if len(set(cut)) > 1 else cut[0] if cut else READINGS[0]

    def __getitem__(self, rank: int) -> RankLayout:
        return self.ranks[self.spec.mesh.position(rank)]

    def __len__(self) -> int:
        return len(self.ranks)

    def __iter__(self) -> Iterator[RankLayout]:
        return iter(self.ranks)

    def owners(self, index: Sequence[int]) -> tuple[Owner, ...]:
        """Every place where a global element lives.

        Args:
            index: global index, one number per tensor dimension.

        Raises:
            SpecError: the tensor has no such element.

        Example:
            >>> from shardviz.core.spec import parse
            >>> [o.rank for o in layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")).owners((4,))]
            [3]
        """
        _check_index(index, self.spec.shape, "the global tensor")
        found = []
        for held in self.ranks:
            local = tuple(position_of(runs, i) for runs, i in zip(held.runs, index, strict=True))
            if None not in local:
                place = tuple(i for i in local if i is not None)
                found.append(Owner(held.rank, held.coordinate, place, _flat(place, held.shape)))
        return tuple(found)

    def global_index(self, rank: int, local_index: Sequence[int]) -> tuple[int, ...]:
        """The global index of a local element.

        Raises:
            SpecError: the rank is not in the mesh, or holds no such element.

        Example:
            >>> from shardviz.core.spec import parse
            >>> layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")).global_index(3, (0,))
            (4,)
        """
        held = self[rank]
        _check_index(local_index, held.shape, f"the local tensor of rank {rank}")
        return tuple(_element(runs, i) for runs, i in zip(held.runs, local_index, strict=True))

    @cached_property
    def misfits(self) -> dict[int, str]:
        """The ranks that were seen to hold or to believe something else than is computed, each with how, in words."""
        found = {one.rank: one.misfit(self[one.rank].shape, self.spec.shape) for one in self.seen}
        return {rank: words for rank, words in found.items() if words}

    @property
    def seen_text(self) -> str:
        """Of which ranks the local shape was seen, in words; "" where nobody was looked at."""
        if not self.seen:
            return ""
        if len(self.seen) == len(self):
            return f"all {len(self)} local shapes seen"
        return f"the local shape of rank {self.seen[0].rank} seen, of {len(self) - len(self.seen)} others not"

    @cached_property
    def note(self) -> str:
        """Where the label stands for two layouts, which reading this is and which is the other; else ""."""
        from shardviz.core.readings import reading_note  # readings.py builds on this module

        return reading_note(self.spec, self.readings)

    @property
    def heading(self) -> str:
        """The first line of its text: the question, the reading applied, and what a reader must know of it."""
        return f"{self.spec} ({', '.join(filter(None, (self.note or self.reading, self.seen_text)))})"

    @cached_property
    def text(self) -> str:
        """The layout in words, one line per rank: what alternative texts and terminals show."""
        lines = [self.heading]
        lines += [f"rank {r.rank} {r.coordinate}: {_runs_text(r)}" for r in self.ranks]
        lines += [f"rank {rank} {words}" for rank, words in self.misfits.items()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<layout of {self.spec}, read as {self.reading}: print or draw it>"


def layout(spec: Spec | str | Any, reading: str = "auto") -> Layout:
    """Which elements each rank holds.

    Args:
        spec: the question, or its notation; or a live DTensor, whose local shape here is seen beside (`Layout.misfits`). No
            other rank is asked: `draw(dtensor, everywhere=True)` asks them.
        reading: how the placements are turned into indices. `"sharding-order"` decodes the split factors into the order in
            which the mesh dimensions cut (what FSDP2 over TP physically does); `"left-to-right"` applies the placements in
            mesh order (how torch's `_StridedShard` splits); `"outer-last"` reads all but the leftmost cut first (FSDP2 over
            a packed weight). `"auto"` chooses per tensor dimension: sharding order where it decodes, else outer-last for a
            tensor that FSDP2 made, else left to right.

    Returns:
        The layout of all ranks. Time and memory grow with ranks and runs, never with elements.

    Raises:
        ReadingError: the asked-for reading does not apply to these placements.
        SpecError: there is no such reading.

    Example:
        >>> from shardviz.core.spec import parse
        >>> for r in layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")):  # tp cuts 012 | 34, then dp cuts each
        ...     print(r.rank, r.shape, r.offset, r.runs)
        0 (2,) (0,) (((0, 2),),)
        1 (1,) (3,) (((3, 4),),)
        2 (1,) (2,) (((2, 3),),)
        3 (1,) (4,) (((4, 5),),)
    """
    if not isinstance(spec, Spec | str) and hasattr(spec, "placements"):
        from shardviz.core.live import layout_here  # live.py builds on this module

        return layout_here(spec, reading)
    spec = as_spec(spec)
    if reading != "auto" and reading not in READINGS:
        raise SpecError(f"there is no reading {reading!r}; there are auto, {', '.join(READINGS)}")
    applied = tuple(applied_reading(spec, dim) if reading == "auto" else _named(reading) for dim in range(spec.ndim))
    tables = [_table(spec, dim, name) for dim, name in enumerate(applied)]
    ranks = tuple(
        RankLayout(rank, coordinate, *_per_dim(coordinate, tables))
        for rank, coordinate in zip(spec.mesh.ranks, spec.mesh.coordinates, strict=True)
    )
    return Layout(spec, applied, ranks)


def local_shape_and_offset(spec: Spec | str, coordinate: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and offset of one rank's shard: what a distributed checkpoint relies on, without the other ranks.

    Args:
        spec: the question.
        coordinate: the rank's place in the mesh, one number per mesh dimension.

    Returns:
        Elements held and global index of the first of them, per tensor dimension; where a dimension is empty, the offset is
        its size (another one could collide with a real shard, pytorch/pytorch#150862).

    Raises:
        SpecError: the mesh has no such coordinate.

    Example:
        >>> from shardviz.core.spec import parse
        >>> fifteen = parse("[15, 5] on dp=4, tp=2: _S(0, 2), S(0)")  # tp: 8 | 7 rows, dp cuts 8 into 2, 2, 2, 2
        >>> local_shape_and_offset(fifteen, (3, 1)), local_shape_and_offset(fifteen, (1, 0))
        (((1, 5), (14, 0)), ((2, 5), (2, 0)))
    """
    spec = as_spec(spec)
    sizes = spec.mesh.sizes
    if not isinstance(coordinate, Sequence) or any(whole(place) is None for place in coordinate):
        raise SpecError(f"a coordinate is one number per mesh dimension, such as {(0,) * len(sizes)}; got {coordinate!r}")
    if len(coordinate) != len(sizes) or any(not 0 <= place < size for place, size in zip(coordinate, sizes, strict=True)):
        raise SpecError(f"the mesh {spec.mesh} has no coordinate {tuple(coordinate)}")
    held = [_held(runs_at(spec, dim, applied_reading(spec, dim), coordinate), size) for dim, size in enumerate(spec.shape)]
    return tuple(h.shape for h in held), tuple(h.offset for h in held)


def applied_reading(spec: Spec, tensor_dim: int) -> Reading:
    """The reading that `auto` chooses for a tensor dimension."""
    if cutting_order(spec, tensor_dim) is not None:
        return "sharding-order"
    if spec.made_by in BY_FSDP2 and _outer_last_applies(spec, tensor_dim):
        return "outer-last"
    return "left-to-right"


def runs_at(spec: Spec, tensor_dim: int, reading: Reading, coordinate: Sequence[int]) -> Runs:
    """The runs that the rank at a coordinate holds on one tensor dimension: the cuts of a reading, one after the other."""
    size = spec.shape[tensor_dim]
    runs: Runs = ((0, size),) if size else ()
    for cut in cutting_sequence(spec, tensor_dim, reading):
        runs = strided_chunk(runs, cut.pieces, spec.mesh.sizes[cut.mesh_dim], coordinate[cut.mesh_dim])
    return runs


class Cut(NamedTuple):
    """One cut: first into `pieces` (1 for a plain cut), each of which is cut over the ranks of a mesh dimension."""

    mesh_dim: int
    pieces: int


def cutting_sequence(spec: Spec, tensor_dim: int, reading: Reading) -> tuple[Cut, ...]:
    """The cuts of a tensor dimension in the order in which a reading makes them.

    Raises:
        ReadingError: the reading does not apply.

    Example:
        >>> from shardviz.core.spec import parse
        >>> nine = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")
        >>> cutting_sequence(nine, 0, "sharding-order")  # tp, then dp, both plain
        (Cut(mesh_dim=1, pieces=1), Cut(mesh_dim=0, pieces=1))
        >>> cutting_sequence(nine, 0, "left-to-right")  # dp in two pieces, then tp
        (Cut(mesh_dim=0, pieces=2), Cut(mesh_dim=1, pieces=1))
    """
    cuts = spec.cuts(tensor_dim)
    match reading:
        case "sharding-order":
            return tuple(Cut(mesh_dim, 1) for mesh_dim in required_order(spec, tensor_dim))
        case "left-to-right":
            return tuple(Cut(mesh_dim, split_factor(spec, mesh_dim)) for mesh_dim in cuts)
        case "outer-last":
            return _outer_last(spec, tensor_dim, cuts)


def _outer_last(spec: Spec, tensor_dim: int, cuts: tuple[int, ...]) -> tuple[Cut, ...]:
    if not cuts:
        return ()
    if not _outer_last_applies(spec, tensor_dim):
        raise ReadingError(
            f"outer-last does not apply to tensor dimension {tensor_dim} of {spec}: {spec.placements[cuts[0]]} on mesh "
            f"dimension {spec.mesh.names[cuts[0]]!r} has split factor {split_factor(spec, cuts[0])}, and FSDP2 over the "
            f"later cuts would have {math.prod(spec.mesh.sizes[m] for m in cuts[1:])}"
        )
    inner = Spec(spec.shape, spec.mesh, [p if m in cuts[1:] else "R" for m, p in enumerate(spec.placements)])
    decodes = cutting_order(inner, tensor_dim) is not None
    return (*cutting_sequence(inner, tensor_dim, "sharding-order" if decodes else "left-to-right"), Cut(cuts[0], 1))


def _outer_last_applies(spec: Spec, tensor_dim: int) -> bool:
    cuts = spec.cuts(tensor_dim)
    later = math.prod(spec.mesh.sizes[m] for m in cuts[1:])
    return bool(cuts) and split_factor(spec, cuts[0]) == later


class _Held(NamedTuple):
    """What is held on one tensor dimension, and its shape and offset there."""

    shape: int
    offset: int
    runs: Runs


_Table: TypeAlias = tuple[tuple[int, ...], dict[tuple[int, ...], _Held]]
"""The cutting mesh dimensions, and what is held for every combination of coordinates on them: no others matter."""


def _table(spec: Spec, dim: int, reading: Reading) -> _Table:
    size = spec.shape[dim]
    sequence = cutting_sequence(spec, dim, reading)
    pieces: dict[tuple[int, ...], Runs] = {(): ((0, size),) if size else ()}
    for cut in sequence:
        pieces = {
            (*place, index): part
            for place, runs in pieces.items()
            for index, part in enumerate(strided_chunks(runs, cut.pieces, spec.mesh.sizes[cut.mesh_dim]))
        }
    return tuple(cut.mesh_dim for cut in sequence), {place: _held(runs, size) for place, runs in pieces.items()}


def _held(runs: Runs, size: int) -> _Held:
    return _Held(length(runs), runs[0][0] if runs else size, runs)


def _per_dim(
    coordinate: tuple[int, ...], tables: Sequence[_Table]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Runs, ...]]:
    """Shape, offset and runs of the rank at a coordinate, one entry per tensor dimension."""
    held = [table[tuple([coordinate[mesh_dim] for mesh_dim in cuts])] for cuts, table in tables]
    if not held:
        return (), (), ()
    shape, offset, runs = zip(*held, strict=True)
    return shape, offset, runs


def _named(reading: str) -> Reading:
    return next(name for name in READINGS if name == reading)


def _check_index(index: Sequence[int], shape: tuple[int, ...], where: str) -> None:
    if not isinstance(index, Sequence) or any(whole(place) is None for place in index):
        raise SpecError(f"an index has one number per tensor dimension, such as (0,) in one; got {index!r}")
    if len(index) != len(shape) or any(not 0 <= i < size for i, size in zip(index, shape, strict=False)):
        raise SpecError(f"{where} has shape {shape}, so there is no element {tuple(index)}")


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    flat = 0
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return flat


def _element(runs: Runs, position: int) -> int:
    for start, stop in runs:
        if position < stop - start:
            return start + position
        position -= stop - start
    raise AssertionError("the position was checked against the shape")


def _runs_text(held: RankLayout) -> str:
    if not held.numel:
        return "nothing"
    if not held.runs:
        return "the scalar"
    return " x ".join(runs_text(runs) for runs in held.runs)
