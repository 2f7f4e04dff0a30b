"""A story: every rank's buffer after every operation, and where the story comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from shardviz.core.layout import Layout, layout
from shardviz.core.runs import Run, Runs, is_padding, is_unknown, padding, runs_text, unknown
from shardviz.core.spec import Spec

__all__ = ["Buffer", "Report", "Source", "Step", "Trace", "buffer_text", "start", "whole_buffer"]


@dataclass(frozen=True, eq=False)
class Buffer:
    """What one rank's buffer contains, in local order. Buffers of one shape without any element are equal.

    Attributes:
        axes: per tensor dimension the runs of global indices along it; slots of padding are runs that end at 0. A slot of the
            buffer is padding where it is padding on any dimension. Most buffers are such a product of dimensions.
        shape: number of slots per dimension.
        cells: for a buffer that is no product of dimensions (a wrong result, usually): runs of flat global indices in the
            row-major order of the buffer. `axes` is then empty.
        pending: the mesh dimensions over which the buffer holds an addend, not the value.
    """

    axes: tuple[Runs, ...]
    shape: tuple[int, ...]
    cells: Runs | None = None
    pending: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        """Number of slots, padding included."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Buffer):
            return NotImplemented
        return (self.shape, self.pending, self._content) == (other.shape, other.pending, other._content)

    def __hash__(self) -> int:
        return hash((self.shape, self.pending, self._content))

    @property
    def _content(self) -> tuple[Runs, ...] | Runs | None:
        """What tells buffers of one shape apart: nothing, where there are no elements in them."""
        if self.cells is not None:
            return None if all(map(is_padding, self.cells)) else self.cells
        return None if any(all(map(is_padding, runs)) for runs in self.axes) else self.axes

    def flat_runs(self, global_shape: Sequence[int]) -> Iterable[Run]:
        """The slots as runs of flat global indices (row-major over `global_shape`), in the buffer's row-major order.

        The number of runs grows with the slots of all dimensions but the last: for pictures of small tensors and for
        comparisons of small buffers.
        """
        if self.cells is not None:
            yield from self.cells
            return
        if not self.axes:
            yield (0, 1)
            return
        *outer, last = self.axes
        for base, hole in _bases(outer, global_shape):
            for run in last:
                if hole is not None:
                    yield hole(run[1] - run[0])
                elif run[0] < 0:
                    yield run
                else:
                    yield (base + run[0], base + run[1])


@dataclass(frozen=True)
class Step:
    """One operation, and every rank's buffer after it.

    Attributes:
        name: short, such as "all-gather over tp".
        kind: "collective" where ranks exchange data, "local" otherwise.
        sentence: what happened, for a reader.
        buffers: one per rank, in the mesh's order.
        groups: the ranks of each process group of a collective; empty for a local step.
        bytes: per rank, what it sends: in a group of k ranks, an all-gather of m bytes each sends (k − 1) · m.
        tensor_dim: the tensor dimension it acts on, or None.
        mesh_dim: the mesh dimension of the collective or of its padding, or None.
    """

    name: str
    kind: Literal["local", "collective"]
    sentence: str
    buffers: tuple[Buffer, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    bytes: tuple[int, ...] = ()
    tensor_dim: int | None = None
    mesh_dim: int | None = None


@dataclass(frozen=True)
class Source:
    """Where facts come from.

    Attributes:
        answer: "predicted" (arithmetic), "reported" (the installed torch says so), "held" (the ranks really hold it) or
            "used" (the forward pass sees it).
        ranks: how many real ranks; 0 where none ran.
        backend: "gloo" or "nccl"; "" where no rank ran.
        torch: version of torch; "" where torch was not asked.
        devices: the device of each rank.
        made_by: how the tensor came to be, one of `MADE_BY`; "" where no tensor was made.
        notice: what a reader must know of the run (ranks on the CPU although there are GPUs), or "".
    """

    answer: Literal["predicted", "reported", "held", "used"]
    ranks: int = 0
    backend: str = ""
    torch: str = ""
    devices: tuple[str, ...] = ()
    made_by: str = ""
    notice: str = ""

    @property
    def text(self) -> str:
        """The source line that every picture carries.

        Example:
            >>> Source("held", 4, "gloo", "2.13.0", ("cpu",) * 4, "fsdp2-over-tp").text
            'held by 4 gloo ranks, torch 2.13.0, made by FSDP2 over TP'
            >>> Source("predicted").text
            'predicted'
        """
        parts = [f"{self.answer} by {self.ranks} {self.backend} rank{'s' * (self.ranks != 1)}" if self.ranks else self.answer]
        if self.torch:
            parts.append(f"torch {self.torch}")
        if self.made_by:
            parts.append(_MADE_BY_TEXT.get(self.made_by, f"made by {self.made_by}"))
        if self.notice:
            parts.append(self.notice)
        return ", ".join(parts)


_MADE_BY_TEXT = {
    "fsdp2-over-tp": "made by FSDP2 over TP",
    "fsdp2": "made by FSDP2",
    "distribute_tensor": "made by distribute_tensor",
    "redistribute": "made by redistribute from a replica",
    "from_local": "placed by shardviz (from_local)",
}


@dataclass(frozen=True)
class Report:
    """What torch says one rank holds: `shape` and `offset` per tensor dimension; or `error`, where it only raised."""

    rank: int
    shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    error: str = ""


@dataclass(frozen=True, repr=False)
class Trace:
    """A story from shards to result.

    Attributes:
        spec: the tensor's spec at the start.
        source: where the story comes from.
        method: how it was done: "exact", "reverse-order", "torch-2.8", or "full_tensor" for torch's own.
        steps: the operations, the first of which is the start.
        reported: a recorded story also carries what torch says each rank holds.
        torch: a recorded story also carries torch's own `full_tensor()` on the same ranks.
        used: a recorded story of a parameter that FSDP2 made also carries what each rank's forward pass sees of it, after
            `unshard()`; empty otherwise.
        end: where a story stops before a result: why.
        target: the spec that the story leads to; None where it leads to the whole tensor on every rank.
    """

    spec: Spec
    source: Source
    method: str
    steps: tuple[Step, ...]
    reported: tuple[Report, ...] = ()
    torch: Trace | None = field(default=None, repr=False)
    end: str = ""
    target: Spec | None = None
    used: tuple[Buffer, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, in the order of every step's buffers."""
        return self.spec.mesh.ranks

    def save(self, path: str | Path) -> Path:
        """Write the trace as JSON; `shardviz.load` reads it back.

        Raises:
            FileError: the file cannot be written.
        """
        from shardviz.core.files import save  # files.py builds on this module

        return save(self, path)

    @property
    def held(self) -> tuple[Buffer, ...]:
        """What each rank holds at the start."""
        return self.steps[0].buffers

    @property
    def result(self) -> tuple[Buffer, ...]:
        """What each rank has at the end."""
        return self.steps[-1].buffers

    def holds(self, predicted: Layout) -> bool:
        """Whether the ranks hold, at the start, what a layout says."""
        return self.held == start(predicted)

    @cached_property
    def right(self) -> bool:
        """Whether every rank ends with what it should: the whole tensor in order, or its shard by the target."""
        whole = (whole_buffer(self.spec.shape),) * self.spec.mesh.size
        aim = start(layout(self.target)) if self.target else whole
        return not self.end and self.result == aim

    @cached_property
    def wrong_from(self) -> int | None:
        """The number (from 0) of the first step that went wrong: it lost an element, or is the end and that is not right."""
        if self.right:
            return None
        for number, (before, now) in enumerate(pairwise(self.steps), 1):
            if self.target is None and any(map(_loses, before.buffers, now.buffers)):
                return number
        return len(self.steps) - 1

    @cached_property
    def text(self) -> str:
        """The story in words: what alternative texts and terminals show."""
        lines = [f"{self.spec}: {self.source.text}"]
        for number, step in enumerate(self.steps, 1):
            sent = f" ({sum(step.bytes)} bytes sent)" if step.kind == "collective" else ""
            lines.append(f"{number}. {step.name}{sent}: {step.sentence}")
            lines += [f"   rank {rank}: {buffer_text(b)}" for rank, b in zip(self.ranks, step.buffers, strict=True)]
        return "\n".join([*lines, self.end] if self.end else lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<story of {self.spec} in {len(self.steps)} steps, {self.source.text}: print or draw it>"


def start(held: Layout) -> tuple[Buffer, ...]:
    """The buffers of a story's first step: what each rank holds by a layout."""
    pending = held.spec.pending_dims
    return tuple(Buffer(rank.runs, rank.shape, pending=pending) for rank in held)


def whole_buffer(shape: Sequence[int]) -> Buffer:
    """The buffer of a rank that has the whole tensor, in order."""
    return Buffer(tuple(((0, size),) if size else () for size in shape), tuple(shape))


def buffer_text(buffer: Buffer) -> str:
    """A buffer in words: `0 1 3 #`, where # is padding and ? no element; dimensions are separated by `x`."""
    parts = [runs_text(runs) for runs in (buffer.axes or (buffer.cells or (),))]
    text = " x ".join(parts) if buffer.shape else "the scalar"
    return f"addend of {text}" if buffer.pending else text


def _loses(before: Buffer, after: Buffer) -> bool:
    """Whether an element that a rank had is gone after a step."""
    if before.cells is not None or after.cells is not None:
        had, has = before.cells, after.cells
        return had is not None and has is not None and _missing(had, has)
    return any(map(_missing, before.axes, after.axes))


def _missing(had: Runs, has: Runs) -> bool:
    """Whether an element of one list of runs is in no run of another."""
    return any(
        sum(min(stop, high) - max(start, low) for low, high in _disjoint(has) if low < stop and start < high) < stop - start
        for start, stop in had
        if start >= 0
    )


def _disjoint(runs: Runs) -> Runs:
    """The same elements, in order and each once."""
    out: list[Run] = []
    for start, stop in sorted(run for run in runs if run[0] >= 0):
        low = max(start, out[-1][1]) if out else start
        if low < stop:
            out.append((low, stop))
    return tuple(out)


_Hole: TypeAlias = Callable[[int], Run]


def _bases(outer: Sequence[Runs], shape: Sequence[int]) -> Iterable[tuple[int, _Hole | None]]:
    """Flat index of the first element of every row, and the kind of slot if the whole row is padding or unknown."""
    if not outer:
        yield 0, None
        return
    stride = math.prod(shape[len(outer) :])
    for base, hole in _bases(outer[:-1], shape):
        for run in outer[-1]:
            kind = hole or (padding if is_padding(run) else unknown if is_unknown(run) else None)
            for index in range(run[0], run[1]):
                yield (0, kind) if kind else (base + index * stride, None)
