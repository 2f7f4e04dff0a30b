"""The predicted story of a split: from the whole tensor to every rank's shard, cut by cut."""

from __future__ import annotations

from shardviz.core.layout import Cut, cutting_sequence, layout
from shardviz.core.play import first_step
from shardviz.core.runs import Runs, chunk_bounds, length, strided_chunk
from shardviz.core.spec import Spec, as_spec
from shardviz.core.trace import Buffer, Source, Step, Trace, start, whole_buffer

__all__ = ["split"]


def split(spec: Spec | str, reading: str = "auto") -> Trace:
    """Predict how the whole tensor is cut into the shards: every mesh dimension in its turn, each rank from its own copy.

    Args:
        spec: the question, or its notation.
        reading: how its placements are read; see `layout`.

    Returns:
        A trace from the whole tensor on every rank to the layout. Nothing is sent.

    Raises:
        ReadingError: the reading does not apply.

    Example:
        >>> from shardviz.core.spec import parse
        >>> from shardviz.core.trace import buffer_text
        >>> for step in split(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")).steps:  # tp: 0 1 2 | 3 4, then dp
        ...     print(step.name, [buffer_text(buffer) for buffer in step.buffers])
        whole tensor ['0-4', '0-4', '0-4', '0-4']
        cut by tp ['0-2', '3 4', '0-2', '3 4']
        cut by dp ['0 1', '3', '2', '4']
    """
    spec = as_spec(spec)
    target = layout(spec, reading)
    whole = whole_buffer(spec.shape)
    held = [[runs] * spec.mesh.size for runs in whole.axes]
    steps = [first_step("Every rank has the whole tensor.", (whole,) * spec.mesh.size, "whole tensor")]
    for dim, applied in enumerate(target.readings):
        for cut in cutting_sequence(spec, dim, applied):
            sentence = _sentence(spec, dim, cut, held[dim][0])
            held[dim] = [_part(spec, cut, runs, place) for place, runs in enumerate(held[dim])]
            name = f"cut by {spec.mesh.names[cut.mesh_dim]}"
            steps.append(Step(name, "local", sentence, _buffers(spec, held), (), (0,) * spec.mesh.size, dim, cut.mesh_dim))
    if spec.pending_dims:
        sentence = "Every rank of a pending reduction takes what it has as its addend."
        steps.append(Step("addends", "local", sentence, start(target), (), (0,) * spec.mesh.size))
    return Trace(spec, Source("predicted"), "split", tuple(steps), target=spec)


def _part(spec: Spec, cut: Cut, runs: Runs, place: int) -> Runs:
    coordinate = spec.mesh.coordinates[place]
    return strided_chunk(runs, cut.pieces, spec.mesh.sizes[cut.mesh_dim], coordinate[cut.mesh_dim])


def _buffers(spec: Spec, held: list[list[Runs]]) -> tuple[Buffer, ...]:
    axes = (tuple(runs[place] for runs in held) for place in range(spec.mesh.size))
    return tuple(Buffer(runs, tuple(map(length, runs))) for runs in axes)


def _sentence(spec: Spec, dim: int, cut: Cut, first: Runs) -> str:
    """What a cut does, with the sizes that the rank at the first coordinate sees."""
    chunks, size = spec.mesh.sizes[cut.mesh_dim], length(first)
    where = f"tensor dimension {dim}"
    if cut.pieces > 1:
        return (
            f"{where[0].upper()}{where[1:]} is cut into {cut.pieces} pieces and each into {chunks} chunks; a rank keeps "
            f"chunk [{spec.mesh.names[cut.mesh_dim]}] of every piece."
        )
    sizes = [stop - start for start, stop in (chunk_bounds(size, chunks, index) for index in range(chunks))]
    shown = ", ".join(map(str, sizes[:8])) + (", …" if chunks > 8 else "")
    step = -(-size // chunks)
    return (
        f"The {size} elements of {where} on rank {spec.mesh.ranks[0]} are cut into {chunks} chunks of "
        f"ceil({size} / {chunks}) = {step}: {shown}."
    )
