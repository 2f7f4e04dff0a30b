"""Two answers side by side: what differs, rank by rank, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.trace import Buffer, Report, Trace, buffer_text, start, whole_buffer

__all__ = ["Comparison", "Difference", "compare", "disagreements"]


@dataclass(frozen=True)
class Difference:
    """One rank on which two answers differ; `sentence` begins with the rank and says both.

    `step` is the number of the story's step (from 0), or None where stories were not compared.
    """

    rank: int
    sentence: str
    step: int | None = None


@dataclass(frozen=True)
class Comparison:
    """What differs between two answers; false when nothing does."""

    first: str
    second: str
    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __str__(self) -> str:
        head = f"{self.first} against {self.second}: "
        if not self.differences:
            return head + "no difference"
        count = len(self.differences)
        lines = [f"{head}{count} difference{'s' * (count != 1)}", *(d.sentence for d in self.differences)]
        return "\n".join(lines)


def compare(first: Layout | Trace, second: Layout | Trace) -> Comparison:
    """Compare two answers to the same question, element by element.

    Two traces are compared step by step and buffer by buffer; with a layout, what the ranks hold at the start is compared.

    Args:
        first: a layout or a trace.
        second: another one of the same spec.

    Returns:
        The differences, which are false when there are none.

    Raises:
        SpecError: the two are about different specs.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> nine = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")  # one label, two layouts
        >>> print(compare(layout(nine), layout(nine, "left-to-right")))
        sharding-order against left-to-right: 2 differences
        rank 6 has nothing by sharding-order; 8 by left-to-right
        rank 7 has 8 by sharding-order; nothing by left-to-right
    """
    if first.spec != second.spec:
        raise SpecError(f"two answers to different questions cannot be compared: {first.spec} and {second.spec}")
    names = (_name(first), _name(second))
    if isinstance(first, Trace) and isinstance(second, Trace):
        found = list(_stories(first, second, names))
    else:
        found = list(_buffers(first.spec.mesh.ranks, _held(first), _held(second), names))
    return Comparison(*names, tuple(found))


def disagreements(trace: Trace, predicted: Layout) -> tuple[Difference, ...]:
    """Everything on which a recorded run's answers part: predicted, held, reported, and the two reconstructions."""
    ranks = trace.ranks
    found = list(_buffers(ranks, start(predicted), trace.held, ("arithmetic", "what it holds")))
    for rank, buffer, report in zip(ranks, trace.held, trace.reported, strict=False):
        sentence = report_difference(trace.spec.shape, buffer, report)
        if sentence:
            found.append(Difference(rank, f"rank {rank} {sentence}"))
    found += _results(trace, "shardviz's reconstruction")
    if trace.torch is not None:
        found += _results(trace.torch, "full_tensor()")
    return tuple(found)


def report_difference(shape: Sequence[int], held: Buffer, report: Report) -> str:
    """How torch's report differs from what a rank holds, or "": "holds nothing; torch reports row 8"."""
    if report.error:
        return f"holds {place_text(shape, held.shape, _offset(shape, held))}; torch reports nothing but {report.error}"
    offset = _offset(shape, held)
    if held.cells is None and (held.shape, offset) == (report.shape, report.offset):
        return ""
    mine, theirs = place_text(shape, held.shape, offset), place_text(shape, report.shape, report.offset)
    if mine == theirs == "nothing":
        return f"holds nothing at offset {_numbers(offset)}; torch reports nothing at offset {_numbers(report.offset)}"
    if mine == theirs:
        mine, theirs = (f"shape {s} at {o}" for s, o in ((held.shape, offset), (report.shape, report.offset)))
    return f"holds {mine}; torch reports {theirs}"


def place_text(shape: Sequence[int], local_shape: Sequence[int], offset: Sequence[int]) -> str:
    """A shard by its shape and offset, in words: "row 8", "rows 4-7", "rows 0-3, columns 2-4", "nothing"."""
    if not math.prod(local_shape):
        return "nothing"
    names = ["row", "column", *(f"index of dimension {d}:" for d in range(2, len(shape)))]
    parts = []
    for name, size, count, first in zip(names, shape, local_shape, offset, strict=False):
        if count == size and first == 0 and len(shape) > 1:
            continue
        plural = name if count == 1 or name.endswith(":") else f"{name}s"
        parts.append(f"{plural} {first}" if count == 1 else f"{plural} {first}-{first + count - 1}")
    return ", ".join(parts) or ("everything" if shape else "the scalar")


def _offset(shape: Sequence[int], held: Buffer) -> tuple[int, ...]:
    return tuple(runs[0][0] if runs else size for runs, size in zip(held.axes, shape, strict=False))


def _name(answer: Layout | Trace) -> str:
    if isinstance(answer, Layout):
        return answer.reading
    return answer.source.answer if answer.method == "exact" else f"{answer.source.answer} ({answer.method})"


def _held(answer: Layout | Trace) -> tuple[Buffer, ...]:
    return start(answer) if isinstance(answer, Layout) else answer.held


def _stories(first: Trace, second: Trace, names: tuple[str, str]) -> Iterator[Difference]:
    for number, (one, other) in enumerate(zip(first.steps, second.steps, strict=False)):
        yield from _buffers(first.ranks, one.buffers, other.buffers, names, number, one.name)
    for longer, shorter, name in ((first, second, names[1]), (second, first, names[0])):
        for step in longer.steps[len(shorter.steps) :]:
            for rank in first.ranks:
                yield Difference(rank, f"rank {rank} has no step {step.name!r} by {name}", len(shorter.steps))


def _buffers(
    ranks: Sequence[int],
    first: Sequence[Buffer],
    second: Sequence[Buffer],
    names: tuple[str, str],
    step: int | None = None,
    where: str = "",
) -> Iterator[Difference]:
    after = f" after {where!r}" if where else ""
    for rank, one, other in zip(ranks, first, second, strict=True):
        if one != other:
            yield Difference(
                rank,
                f"rank {rank} has {buffer_text(one)} by {names[0]}; {buffer_text(other)} by {names[1]}{after}",
                step,
            )


def _results(trace: Trace, what: str) -> Iterator[Difference]:
    whole = whole_buffer(trace.spec.shape)
    for rank, buffer in zip(trace.ranks, trace.result, strict=True):
        if buffer != whole:
            yield Difference(rank, f"rank {rank} gets {buffer_text(buffer)} from {what}, not the whole tensor in order")
    if trace.end:
        yield from (Difference(rank, f"rank {rank}: {what} ended: {trace.end}") for rank in trace.ranks)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
