"""What a picture has to know of buffers: who held an element first, which dimensions tell ranks apart, the pieces to draw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from shardviz.core.runs import Run, Runs, is_padding, is_unknown
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer
from shardviz.picture.scene import CellKind
from shardviz.picture.theme import HUES

__all__ = [
    "Owners",
    "Piece",
    "axis_pieces",
    "coordinate_text",
    "drawn_dims",
    "flat_pieces",
    "held_once",
    "owners",
    "units",
    "unraveled",
]

LISTED = 4096
"""The most elements that are ever looked at one by one, in a buffer that is no product of dimensions."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Slots that belong together along one drawn axis: elements in sequence, padding, or slots of unknown content.

    `start` and `stop` are global indices on the axis' last dimension; `leading` are the indices on the dimensions before it,
    where an axis of the picture stands for several dimensions of the tensor.
    """

    kind: CellKind
    start: int
    stop: int
    leading: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """Number of slots."""
        return self.stop - self.start

    @property
    def span(self) -> tuple[int, ...]:
        """First and past-the-last index, per dimension."""
        return (*(edge for i in self.leading for edge in (i, i + 1)), self.start, self.stop)


@dataclass(frozen=True)
class Owners:
    """Which rank held each element at the start: the lowest one, where several did.

    Attributes:
        edges: per tensor dimension, the indices at which the owner may change.
        first: the owner of each stretch between edges, by the stretches' numbers.
        hues: the hue of each owner.
    """

    edges: tuple[tuple[int, ...], ...]
    first: Mapping[tuple[int, ...], int]
    hues: Mapping[int, int]

    @property
    def many(self) -> bool:
        """Whether there are more owners than hues, so that the rank's number has to be printed."""
        return len(self.hues) > len(HUES)

    def of(self, index: Iterable[int]) -> int | None:
        """The owner of one element; None where no rank held it."""
        return self.first.get(tuple(bisect_right(e, i) - 1 for e, i in zip(self.edges, index, strict=True)))

    def hue(self, rank: int | None) -> int:
        """The hue of an owner, −1 of none."""
        return -1 if rank is None else self.hues.get(rank, -1)

    def cut(self, dim: int, run: Run) -> Iterator[Run]:
        """A run in parts that each have one owner, as far as this dimension decides."""
        edges = self.edges[dim]
        low, place = run[0], bisect_right(edges, run[0])
        while place < len(edges) and edges[place] < run[1]:
            yield (low, edges[place])
            low, place = edges[place], place + 1
        yield (low, run[1])


def owners(spec: Spec, buffers: Sequence[Buffer]) -> Owners:
    """Who holds each element in a story's first buffers, which stand in the mesh's order."""
    held = sorted(zip(spec.mesh.ranks, buffers, strict=True), key=lambda pair: pair[0])
    places: list[tuple[int, tuple[Runs, ...]]] = [
        (rank, axes) for rank, buffer in held for axes in _products(buffer, spec.shape)
    ]
    starts = [{0} for _ in spec.shape]
    for runs_by_dim in {axes for _, axes in places}:
        for found, runs in zip(starts, runs_by_dim, strict=True):
            found.update(edge for run in runs if run[0] >= 0 for edge in run)
    edges = tuple(tuple(sorted(found)) for found in starts)
    numbers = [{edge: number for number, edge in enumerate(along)} for along in edges]
    first: dict[tuple[int, ...], int] = {}
    for rank, axes in places:
        stretches = [
            [number for start, stop in runs if start >= 0 for number in range(place[start], place[stop])]
            for runs, place in zip(axes, numbers, strict=True)
        ]
        for key in product(*stretches):
            first.setdefault(key, rank)
    pending = {rank for rank, buffer in held if buffer.pending and buffer.numel}
    shown = [rank for rank in spec.mesh.ranks if rank in pending.union(first.values())]
    return Owners(edges, first, {rank: number % len(HUES) for number, rank in enumerate(shown)})


def drawn_dims(spec: Spec, buffers: Iterable[Buffer]) -> tuple[int, ...]:
    """The tensor dimensions on which buffers differ from the whole tensor: the others need not be drawn.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> from shardviz.core.trace import start
        >>> spec = parse("[15, 5] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> drawn_dims(spec, start(layout(spec)))  # every rank holds whole rows
        (0,)
    """
    found: set[int] = set()
    for buffer in set(buffers):
        if buffer.cells is not None:
            return tuple(range(spec.ndim))
        for dim, (runs, size) in enumerate(zip(buffer.axes, spec.shape, strict=True)):
            if runs != (((0, size),) if size else ()):
                found.add(dim)
    return tuple(sorted(found)) or tuple(range(min(spec.ndim, 1)))


def axis_pieces(buffer: Buffer, dims: Sequence[int], owned: Owners) -> list[Piece]:
    """A buffer's slots along one axis of a picture, which stands for the dimensions `dims` of a product of dimensions."""
    if not dims:
        return [Piece("element", 0, 1)]
    *outer, last = dims
    inner = [piece for run in buffer.axes[last] for piece in _parts(run, last, owned)]
    if not outer:
        return inner
    leading = [units(axis_pieces(buffer, [dim], owned)) for dim in outer]
    return [
        Piece(_worst(*above, piece), piece.start, piece.stop, tuple(p.start for p in above))
        for above in product(*leading)
        for piece in inner
    ]


def flat_pieces(buffer: Buffer, shape: Sequence[int], owned: Owners) -> list[Piece]:
    """The slots of a buffer that is no product of dimensions, by flat index, in parts that each have one owner."""
    found: list[Piece] = []
    for run in buffer.flat_runs(shape):
        if run[0] < 0 or run[1] - run[0] > LISTED:
            found.append(Piece(_kind(run), *run))
            continue
        low = run[0]
        for index in range(run[0] + 1, run[1]):
            if owned.of(unraveled(index, shape)) != owned.of(unraveled(low, shape)):
                found.append(Piece("element", low, index))
                low = index
        found.append(Piece("element", low, run[1]))
    return found


def units(pieces: Iterable[Piece]) -> list[Piece]:
    """Pieces of one slot each; for few elements only."""
    return [
        replace(p, start=i, stop=i + 1) if p.kind == "element" else Piece(p.kind, -1, 0, p.leading)
        for p in pieces
        for i in range(p.start, p.stop)
    ]


def unraveled(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index, per dimension, of a flat row-major one."""
    index: list[int] = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def coordinate_text(spec: Spec, position: int) -> str:
    """A rank's place in the mesh: `dp 0 · tp 1`."""
    coordinate = spec.mesh.coordinates[position]
    return " · ".join(f"{name} {i}" for name, i in zip(spec.mesh.names, coordinate, strict=True))


def _products(buffer: Buffer, shape: Sequence[int]) -> list[tuple[Runs, ...]]:
    """A buffer's elements as products of runs."""
    if buffer.cells is None:
        return [buffer.axes]
    if len(shape) == 1:
        return [(buffer.cells,)]
    if buffer.numel > LISTED:
        return []
    found = [unraveled(flat, shape) for run in buffer.cells if run[0] >= 0 for flat in range(*run)]
    return [tuple(((i, i + 1),) for i in index) for index in found]


def _parts(run: Run, dim: int, owned: Owners) -> Iterator[Piece]:
    if run[0] < 0:
        yield Piece(_kind(run), *run)
    else:
        yield from (Piece("element", *part) for part in owned.cut(dim, run))


def _kind(run: Run) -> CellKind:
    return "padding" if is_padding(run) else "unknown" if is_unknown(run) else "element"


def _worst(*pieces: Piece) -> CellKind:
    kinds = {piece.kind for piece in pieces}
    return "padding" if "padding" in kinds else "unknown" if "unknown" in kinds else "element"


def held_once(buffers: Sequence[Buffer]) -> dict[Buffer, int]:
    """The position of the first rank that holds each distinct buffer: later ones are its replicas."""
    found: dict[Buffer, int] = {}
    for position, buffer in enumerate(buffers):
        if buffer.numel and not buffer.pending:
            found.setdefault(buffer, position)
    return found
