"""What a picture has to know of buffers: who held an element first, which dimensions tell ranks apart, the pieces to draw."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from shardviz.core.mesh import Mesh
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

FACETS = 16
"""The most leading indices that are drawn one by one."""

LISTED = 4096
"""The most elements that are ever looked at one by one, in a buffer that is no product of dimensions."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Slots that belong together along one drawn axis: elements in sequence, padding, or slots of unknown content.

    `start` and `stop` are global indices on the axis' last dimension; `leading` are runs on the dimensions before it, where an
    axis of the picture stands for several dimensions of the tensor: single indices while they are few.
    """

    kind: CellKind
    start: int
    stop: int
    leading: tuple[Run, ...] = ()

    @property
    def length(self) -> int:
        """Number of slots."""
        return math.prod(stop - start for start, stop in (*self.leading, (self.start, self.stop)))

    @property
    def span(self) -> tuple[int, ...]:
        """First and past-the-last index, per dimension."""
        return (*(edge for run in self.leading for edge in run), self.start, self.stop)


@dataclass(frozen=True)
class Owners:
    """Which ranks held each element at the start; its owner is the lowest of them.

    Time and memory grow with ranks and runs: per dimension it is known who holds an index, and an element's holders are those
    that hold its index on every dimension.

    Attributes:
        ranks: all ranks, in rising order; a set of them is an integer whose bit i stands for the i-th.
        edges: per tensor dimension, the indices at which the holders may change.
        holders: per tensor dimension and stretch between edges, the ranks that hold it.
        listed: the holders of elements that were looked at one by one, in buffers that are no product of dimensions.
        hues: the hue of each owner.
        pending: the mesh dimensions over which ranks held addends at the start: whatever is not pending over them later is a
            sum, and no rank's own.
    """

    ranks: tuple[int, ...]
    edges: tuple[tuple[int, ...], ...]
    holders: tuple[tuple[int, ...], ...]
    listed: Mapping[tuple[int, ...], int]
    hues: Mapping[int, int]
    pending: frozenset[int] = frozenset()

    @property
    def many(self) -> bool:
        """Whether owners share a hue, so that the rank's number has to be printed."""
        return len(set(self.hues.values())) < len(self.hues)

    def of(self, index: Sequence[int]) -> int | None:
        """The owner of one element; None where no rank held it."""
        bits = self._bits(index)
        return self.ranks[(bits & -bits).bit_length() - 1] if bits else None

    def all_of(self, index: Sequence[int]) -> list[int]:
        """All ranks that held an element."""
        bits = self._bits(index)
        return [rank for place, rank in enumerate(self.ranks) if bits >> place & 1] if bits else []

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

    def _bits(self, index: Sequence[int]) -> int:
        bits = (1 << len(self.ranks)) - 1
        for along, edges, i in zip(self.holders, self.edges, index, strict=True):
            place = bisect_right(edges, i) - 1
            bits &= along[place] if 0 <= place < len(along) else 0
        return bits | self.listed.get(tuple(index), 0)


def owners(spec: Spec, buffers: Sequence[Buffer]) -> Owners:
    """Who holds each element in a story's first buffers, which stand in the mesh's order."""
    held = sorted(zip(spec.mesh.ranks, buffers, strict=True), key=lambda pair: pair[0])
    along: list[dict[Runs, int]] = [{} for _ in spec.shape]
    listed: dict[tuple[int, ...], int] = {}
    for place, (_, buffer) in enumerate(held):
        axes = (buffer.cells,) if buffer.cells is not None and spec.ndim == 1 else buffer.axes
        for found, runs in zip(along, axes, strict=False):
            found[runs] = found.get(runs, 0) | 1 << place
        if not axes and buffer.numel <= LISTED:
            for index in _elements(buffer, spec.shape):
                listed[index] = listed.get(index, 0) | 1 << place
    edges, holders = [], []
    for dim, found in enumerate(along):
        seen = {edge for runs in found for run in runs if run[0] >= 0 for edge in run}
        seen.update(edge for index in listed for edge in (index[dim], index[dim] + 1))
        edges.append(tuple(sorted({0, *seen})))
        holders.append(_holders(found, edges[-1]))
    first = {spec.mesh.ranks[position] for position in held_once(buffers).values()}
    pending = {rank for rank, buffer in held if buffer.pending and buffer.numel}
    shown = [rank for rank in spec.mesh.ranks if rank in first | pending]
    of_rank = mesh_hues(spec.mesh)
    hues = {rank: of_rank[rank] for rank in shown}
    over = frozenset(dim for buffer in buffers for dim in buffer.pending)
    return Owners(tuple(rank for rank, _ in held), tuple(edges), tuple(holders), listed, hues, over)


def mesh_hues(mesh: Mesh) -> dict[int, int]:
    """The hue of every rank, whatever it holds: the same in all pictures.

    The rank's number decides; in a small mesh of distant ranks, of which two would look alike, their places in it.
    """
    hues = {rank: rank % len(HUES) for rank in mesh.ranks}
    if len(set(hues.values())) < mesh.size <= len(HUES):
        return {rank: place for place, rank in enumerate(mesh.ranks)}
    return hues


def _holders(found: Mapping[Runs, int], edges: Sequence[int]) -> tuple[int, ...]:
    """Per stretch between edges the ranks that hold it."""
    numbers = {edge: number for number, edge in enumerate(edges)}
    bits = [0] * len(edges)
    for runs, ranks in found.items():
        for start, stop in runs:
            for number in range(numbers[start], numbers[stop]) if start >= 0 else ():
                bits[number] |= ranks
    return tuple(bits)


def _elements(buffer: Buffer, shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for run in buffer.cells or ():
        yield from (unraveled(flat, shape) for flat in range(*run) if run[0] >= 0)


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
    leading = [_facets(axis_pieces(buffer, [dim], owned)) for dim in outer]
    return [
        Piece(_worst(*above, piece), piece.start, piece.stop, tuple((p.start, p.stop) for p in above))
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


def _parts(run: Run, dim: int, owned: Owners) -> Iterator[Piece]:
    if run[0] < 0:
        yield Piece(_kind(run), *run)
    else:
        yield from (Piece("element", *part) for part in owned.cut(dim, run))


def _facets(pieces: list[Piece]) -> list[Piece]:
    return units(pieces) if sum(piece.length for piece in pieces) <= FACETS else pieces


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
