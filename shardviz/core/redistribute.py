"""The predicted story of a redistribution: undo the cuts that differ, the last one first, then make the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardviz.core.layout import Cut, Layout, cutting_sequence, layout
from shardviz.core.mesh import Mesh
from shardviz.core.placements import Partial, Placement, Shard
from shardviz.core.play import ITEMSIZE, START, along, apply, describe, first_step
from shardviz.core.recipe import Reduce, Unshuffle, gathered, payload
from shardviz.core.runs import chunk, joined, length, strided_chunk
from shardviz.core.spec import Spec, as_spec
from shardviz.core.trace import Buffer, Source, Step, Trace, start

__all__ = ["redistribute"]


def redistribute(spec: Spec | str, placements: str | Sequence[Any], reading: str = "auto") -> Trace:
    """Predict how a tensor gets from its placements to others on the same mesh, with the least that is exact.

    Cuts that both placements begin with stay. The others are undone in reverse (all-gather) and the new ones made (each rank
    keeps its chunk, nothing is sent). Where an undone cut and a new one are over the same mesh dimension, they are one
    all-to-all; where a pending reduction becomes a plain cut, it is a reduce-scatter; before a strided cut it is an
    all-reduce.

    Args:
        spec: where the tensor starts, or its notation.
        placements: where it is to go, one placement per mesh dimension, as a `Spec` takes them.
        reading: how both are read; see `layout`.

    Returns:
        A trace from the one layout to the other.

    Raises:
        SpecError: the placements describe no sharding of this tensor on this mesh.
        ReadingError: the reading does not apply to one of the two.

    Example:
        >>> from shardviz.core.spec import parse
        >>> def steps(text, placements):
        ...     return [step.name for step in redistribute(parse(text), placements).steps[1:]]
        >>> steps("[8, 8] on dp=2, tp=2: _S(0, 2), S(0)", "R, S(0)")  # tp cut first and stays
        ['all-gather over dp']
        >>> steps("[8, 8] on tp=2: S(0)", "S(1)")
        ['all-to-all over tp']
        >>> steps("[8] on tp=2: P", "S(0)"), steps("[8] on tp=2: P", "_S(0, 2)")
        (['reduce-scatter over tp'], ['all-reduce over tp', 'cut by tp'])
    """
    spec = as_spec(spec)
    source, target = layout(spec, reading), layout(Spec(spec.shape, spec.mesh, placements, spec.made_by), reading)
    state = _State(source)
    steps = [first_step(START, state.buffers)]
    for change in _fused(_changes(source, target), target.spec):
        steps += state.make(change)
    return Trace(spec, Source("predicted", notice=source.note), "redistribute", tuple(steps), target=target.spec)


@dataclass(frozen=True)
class _Undo:
    """Undo a cut: all-gather over its mesh dimension."""

    dim: int
    cut: Cut


@dataclass(frozen=True)
class _Make:
    """Make a cut: every rank keeps its part."""

    dim: int
    cut: Cut


@dataclass(frozen=True)
class _Exchange:
    """Undo a cut and make another over the same mesh dimension: all-to-all."""

    undo: _Undo
    make: _Make


@dataclass(frozen=True)
class _ReduceScatter:
    """Reduce the addends of a mesh dimension, each rank only its own part."""

    op: str
    make: _Make


@dataclass(frozen=True)
class _Addend:
    """Become an addend of a pending reduction."""

    mesh_dim: int
    op: str


_Change = _Undo | _Make | _Exchange | _ReduceScatter | Reduce | _Addend


def _changes(source: Layout, target: Layout) -> list[_Change]:
    """What has to be done, one thing after the other: reductions, cuts undone, cuts made, new addends."""
    undone, made = [], []
    for dim in range(source.spec.ndim):
        had = cutting_sequence(source.spec, dim, source.readings[dim])
        wanted = cutting_sequence(target.spec, dim, target.readings[dim])
        common = 0
        while common < min(len(had), len(wanted)) and had[common] == wanted[common]:
            common += 1
        undone.append([_Undo(dim, cut) for cut in reversed(had[common:])])
        made.append([_Make(dim, cut) for cut in wanted[common:]])
    changed = [m for m, (a, b) in enumerate(zip(source.spec.placements, target.spec.placements, strict=True)) if a != b]
    reduces = [Reduce(m, op) for m, op in _pending(source.spec.placements, reversed(changed))]
    addends = [_Addend(m, op) for m, op in _pending(target.spec.placements, changed)]
    return [*reduces, *_merged(undone, rightmost=True), *_merged(made, rightmost=False), *addends]


def _pending(placements: Sequence[Placement], mesh_dims: Iterable[int]) -> Iterator[tuple[int, str]]:
    for mesh_dim in mesh_dims:
        placement = placements[mesh_dim]
        if isinstance(placement, Partial):
            yield mesh_dim, placement.op


def _merged(queues: list[list[Any]], rightmost: bool) -> Iterator[Any]:
    """The changes of all tensor dimensions as one list; each keeps its order, the mesh dimension decides between them."""
    while waiting := [queue for queue in queues if queue]:
        chosen = (max if rightmost else min)(waiting, key=lambda queue: queue[0].cut.mesh_dim)
        yield chosen.pop(0)


def _fused(changes: list[_Change], target: Spec) -> list[_Change]:
    """Join what one collective does at once: the last cut undone with a first one made, a reduction with the cut after it."""
    changes = list(changes)
    made = [change for change in changes if isinstance(change, _Make)]
    firsts = [m for m in made if not any(other.dim == m.dim for other in made[: made.index(m)])]
    undone = [change for change in changes if isinstance(change, _Undo)]
    for make in firsts:
        mesh_dim = make.cut.mesh_dim
        if undone and undone[-1].cut == make.cut == Cut(mesh_dim, 1) and undone[-1].dim != make.dim:
            place = changes.index(undone[-1])
            if not any(_undoes(change, make.dim) for change in changes[place:]):
                changes.remove(make)
                changes[place] = _Exchange(undone.pop(), make)
                continue
        reduce = next((c for c in changes if isinstance(c, Reduce) and c.mesh_dim == mesh_dim), None)
        if reduce is not None and make.cut.pieces == 1 and isinstance(target.placements[mesh_dim], Shard):
            changes[changes.index(make)] = _ReduceScatter(reduce.op, make)
            changes.remove(reduce)
    return changes


def _undoes(change: _Change, dim: int) -> bool:
    return isinstance(change, _Undo | _Exchange) and (change.undo if isinstance(change, _Exchange) else change).dim == dim


class _State:
    """Every rank's buffer while the changes are made."""

    def __init__(self, source: Layout) -> None:
        self.spec = source.spec
        self.buffers = start(source)

    @property
    def mesh(self) -> Mesh:
        return self.spec.mesh

    def make(self, change: _Change) -> list[Step]:
        """Make a change; the steps that it takes."""
        match change:
            case _Undo(dim, cut):
                return self._undo(dim, cut)
            case _Make(dim, cut):
                return [self._cut(dim, cut)]
            case _Exchange(undo, make):
                return [self._exchange(undo, make)]
            case _ReduceScatter(op, make):
                return [self._reduce_scatter(op, make)]
            case Reduce(mesh_dim, _):
                return [self._operate(change)] if self.mesh.sizes[mesh_dim] > 1 else []
            case _Addend(mesh_dim, op):
                return [self._addend(mesh_dim, op)] if self.mesh.sizes[mesh_dim] > 1 else []

    def _undo(self, dim: int, cut: Cut) -> list[Step]:
        if self.mesh.sizes[cut.mesh_dim] == 1:
            return []
        held = [buffer.axes[dim] for buffer in self.buffers]
        steps = [self._operate(operation) for operation in gathered(self.mesh, dim, cut.mesh_dim, held)]
        orders = {buffer.axes[dim] for buffer in self.buffers}
        if any(order != joined(sorted(order)) for order in orders):
            steps.append(self._sort(dim))
        return steps

    def _operate(self, operation: Any) -> Step:
        after = apply(operation, self.buffers, self.spec)
        step = describe(operation, self.spec, self.buffers, after, ITEMSIZE)
        self.buffers = after
        return step

    def _sort(self, dim: int) -> Step:
        """Put what every rank has on a dimension into the order of the global indices; groups may have different parts."""
        after = tuple(along(b, dim, joined(sorted(b.axes[dim]))) for b in self.buffers)
        told = describe(Unshuffle(dim, self.buffers[0].axes[dim]), self.spec, self.buffers, after, ITEMSIZE)
        self.buffers = after
        return told

    def _cut(self, dim: int, cut: Cut) -> Step:
        self.buffers = self._parts(dim, cut)
        name = self.mesh.names[cut.mesh_dim]
        sentence = f"Every rank keeps its own part of tensor dimension {dim} along {name}; nothing is sent."
        return self._step(f"cut by {name}", "local", sentence, dim, cut.mesh_dim, [0] * self.mesh.size)

    def _exchange(self, undo: _Undo, make: _Make) -> Step:
        mesh_dim, name = make.cut.mesh_dim, self.mesh.names[make.cut.mesh_dim]
        before = self.buffers
        for operation in gathered(self.mesh, undo.dim, mesh_dim, [buffer.axes[undo.dim] for buffer in before]):
            self.buffers = apply(operation, self.buffers, self.spec)
        self.buffers = self._parts(make.dim, make.cut)
        sent = [
            (had.numel - had.numel // max(had.shape[make.dim], 1) * has.shape[make.dim]) * ITEMSIZE
            for had, has in zip(before, self.buffers, strict=True)
        ]
        sentence = (
            f"Every rank of a {name} group sends each of the others its part along tensor dimension {make.dim}, and so gets "
            f"all of its own along dimension {undo.dim}."
        )
        return self._step(f"all-to-all over {name}", "collective", sentence, make.dim, mesh_dim, sent)

    def _reduce_scatter(self, op: str, make: _Make) -> Step:
        mesh_dim, name = make.cut.mesh_dim, self.mesh.names[make.cut.mesh_dim]
        before = self.buffers
        self.buffers = tuple(
            replace(b, pending=tuple(m for m in b.pending if m != mesh_dim)) for b in self._parts(make.dim, make.cut)
        )
        members = self.mesh.sizes[mesh_dim]
        widest = (_padded(had, make.dim, members) for had in before)
        sent = [payload(shape, ITEMSIZE, members) for shape in widest]
        sentence = (
            f"The {op} over the addends of each {name} group is taken part by part: a rank ends with its own chunk of tensor "
            f"dimension {make.dim}."
        )
        return self._step(f"reduce-scatter over {name}", "collective", sentence, make.dim, mesh_dim, sent)

    def _addend(self, mesh_dim: int, op: str) -> Step:
        self.buffers = tuple(replace(b, pending=tuple(sorted({*b.pending, mesh_dim}))) for b in self.buffers)
        name = self.mesh.names[mesh_dim]
        sentence = f"What the ranks of a {name} group have becomes addends whose {op} is the value; nothing is sent."
        return self._step(f"addends over {name}", "local", sentence, None, mesh_dim, [0] * self.mesh.size)

    def _parts(self, dim: int, cut: Cut) -> tuple[Buffer, ...]:
        size = self.mesh.sizes[cut.mesh_dim]
        return tuple(
            along(b, dim, strided_chunk(b.axes[dim], cut.pieces, size, coordinate[cut.mesh_dim]))
            for b, coordinate in zip(self.buffers, self.mesh.coordinates, strict=True)
        )

    def _step(self, name: str, kind: Any, sentence: str, dim: int | None, mesh_dim: int, sent: list[int]) -> Step:
        groups = self.mesh.groups(mesh_dim) if kind == "collective" else ()
        return Step(name, kind, sentence, self.buffers, groups, tuple(sent), dim, mesh_dim)


def _padded(buffer: Buffer, dim: int, members: int) -> tuple[int, ...]:
    """The shape of the largest chunk of a buffer: every rank's part is padded to it."""
    return (*buffer.shape[:dim], length(chunk(buffer.axes[dim], members, 0)), *buffer.shape[dim + 1 :])
