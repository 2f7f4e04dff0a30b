"""Operations played on buffers of runs: what every rank has after each, and the step that tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardviz.core.recipe import Gather, Operation, Pad, Reduce, Unpad, Unshuffle, payload, reduce_payload
from shardviz.core.runs import Runs, joined, length, padding, runs_text
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Step

__all__ = ["ITEMSIZE", "START", "along", "apply", "describe", "first_step"]

ITEMSIZE = 8
"""Bytes of an element in predicted stories: real runs mark elements with float64 values."""

START = "What each rank holds before anything is sent."


def first_step(sentence: str, buffers: tuple[Buffer, ...], name: str = "local shards") -> Step:
    """The step that a story starts from."""
    return Step(name, "local", sentence, buffers, (), (0,) * len(buffers))


def apply(operation: Operation, buffers: Sequence[Buffer], spec: Spec) -> tuple[Buffer, ...]:
    """Every rank's buffer after an operation."""
    match operation:
        case Pad(dim, _, sizes):
            return tuple(
                along(b, dim, (*b.axes[dim], padding(size - b.shape[dim])) if size > b.shape[dim] else b.axes[dim])
                for b, size in zip(buffers, sizes, strict=True)
            )
        case Gather(dim, mesh_dim):
            after = list(buffers)
            for group in spec.mesh.groups(mesh_dim):
                places = [spec.mesh.position(rank) for rank in group]
                together = joined(run for place in places for run in buffers[place].axes[dim])
                for place in places:
                    after[place] = along(buffers[place], dim, together)
            return tuple(after)
        case Unpad(dim, _, _, _):
            return tuple(along(b, dim, joined(run for run in b.axes[dim] if run[0] >= 0)) for b in buffers)
        case Unshuffle(dim, gathered, _):
            return tuple(along(b, dim, joined(sorted(gathered))) for b in buffers)
        case Reduce(mesh_dim, _):
            return tuple(replace(b, pending=tuple(m for m in b.pending if m != mesh_dim)) for b in buffers)


def describe(operation: Operation, spec: Spec, before: Sequence[Buffer], after: Sequence[Buffer], itemsize: int) -> Step:
    """The step that an operation is, with its sentence, groups and bytes."""
    mesh = spec.mesh
    local = (0,) * mesh.size
    match operation:
        case Pad(dim, mesh_dim, _):
            added = [a.shape[dim] - b.shape[dim] for b, a in zip(before, after, strict=True)]
            short = [rank for rank, count in zip(mesh.ranks, added, strict=True) if count]
            verb = "adds" if len(short) == 1 else "add"
            sentence = (
                f"Ranks that differ in {mesh.names[mesh_dim]} alone must send equal amounts: {ranks_text(short)} {verb} "
                f"{_slots(sorted(set(added) - {0}))} of padding."
            )
            return Step(f"pad over {mesh.names[mesh_dim]}", "local", sentence, tuple(after), (), local, dim, mesh_dim)
        case Gather(dim, mesh_dim):
            groups = mesh.groups(mesh_dim)
            sent = tuple(payload(b.shape, itemsize, mesh.sizes[mesh_dim]) for b in before)
            sentence = (
                f"The {mesh.sizes[mesh_dim]} ranks of each {mesh.names[mesh_dim]} group exchange their buffers; "
                "each joins them in the order of the coordinates."
            )
            name = f"all-gather over {mesh.names[mesh_dim]}"
            return Step(name, "collective", sentence, tuple(after), groups, sent, dim, mesh_dim)
        case Unpad(dim, mesh_dim, _, _):
            sentence = "Sizes are known by arithmetic, so the padding is taken out where it is, chunk by chunk."
            return Step("unpad", "local", sentence, tuple(after), (), local, dim, mesh_dim)
        case Unshuffle(dim, gathered, swapped):
            where = f" of tensor dimension {dim}" if spec.ndim > 1 else ""
            why = "which is not the tensor's"
            if swapped:
                stands, cut = (mesh.names[mesh_dim] for mesh_dim in swapped)
                why = f"where {stands} stands before {cut}; but {cut} cut first"
            sentence = (
                f"All elements{where} are here, in the order of the ranks, {why}: {runs_text(gathered, 8)} becomes "
                f"{runs_text(joined(sorted(gathered)), 8)}. Nothing is sent."
            )
            return Step("unshuffle", "local", sentence, tuple(after), (), local, dim)
        case Reduce(mesh_dim, op):
            groups = mesh.groups(mesh_dim)
            sent = tuple(reduce_payload(b.shape, itemsize, mesh.sizes[mesh_dim]) for b in before)
            sentence = (
                f"Each rank of a {mesh.names[mesh_dim]} group holds an addend; the {op} over the "
                f"{mesh.sizes[mesh_dim]} of them is the value."
            )
            name = f"all-reduce over {mesh.names[mesh_dim]}"
            return Step(name, "collective", sentence, tuple(after), groups, sent, None, mesh_dim)


def along(buffer: Buffer, dim: int, runs: Runs) -> Buffer:
    """A buffer with other runs along one tensor dimension."""
    axes = (*buffer.axes[:dim], runs, *buffer.axes[dim + 1 :])
    shape = (*buffer.shape[:dim], length(runs), *buffer.shape[dim + 1 :])
    return replace(buffer, axes=axes, shape=shape)


def ranks_text(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 6:
        return f"{len(ranks)} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _slots(counts: Sequence[int]) -> str:
    if len(counts) == 1:
        return f"{counts[0]} slot{'s' * (counts[0] != 1)}"
    return f"{counts[0]} to {counts[-1]} slots"
