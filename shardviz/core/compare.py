"""Two answers side by side: what differs, rank by rank, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from shardviz.core.errors import SpecError
from shardviz.core.forward import forward_buffers
from shardviz.core.layout import Layout, layout
from shardviz.core.runs import Runs, length, runs_text
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report, Step, Trace, buffer_text, start, whole_buffer

__all__ = ["Comparison", "Difference", "Differences", "compare", "disagreements"]


@dataclass(frozen=True)
class Difference:
    """One rank on which two answers differ; `sentence` begins with the rank and says both.

    `step` and `other_step` are places in the steps of the two stories, or None where stories were not compared.
    """

    rank: int
    sentence: str
    step: int | None = None
    other_step: int | None = None


class Differences(tuple[Difference, ...]):
    """Differences, one after the other; as every report, it is true where something was found."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self


@dataclass(frozen=True, repr=False)
class Comparison:
    """What differs between two answers; as every report, it is true where something was found.

    Attributes:
        first: the name of one answer.
        second: the name of the other.
        differences: rank by rank, of stories step by step.
        answers: the two.
        note: what is to be said although nothing differs: "same end, other steps", where two stories lead from one start to one
            end by other operations.
    """

    first: str
    second: str
    differences: tuple[Difference, ...]
    answers: tuple[Layout | Trace, Layout | Trace]
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.differences

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __repr__(self) -> str:
        head = f"{self.first} against {self.second}: "
        if not self.differences:
            return head + (self.note or "no difference")
        count = len(self.differences)
        lines = [f"{head}{count} difference{'s' * (count != 1)}", *(d.sentence for d in self.differences)]
        return "\n".join(lines)


def compare(first: Layout | Trace | Spec | str, second: Layout | Trace | Spec | str) -> Comparison:
    """Compare two answers to the same question, element by element.

    Two stories are compared at their start, at their end, and after every operation that both have: steps are paired by what
    they do, not by their numbers. Where start and end agree and the operations on the way are others, nothing is lost: that is
    no difference, and `note` says it. With a layout, what the ranks hold at the start is compared.

    Args:
        first: a layout or a trace; or a spec or its notation, whose layout is meant.
        second: another one of the same spec.

    Returns:
        The differences, which are false when there are none.

    Raises:
        SpecError: the two are about different specs, or one of them is no answer.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> nine = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")  # one label, two layouts
        >>> print(compare(layout(nine), layout(nine, "left-to-right")))
        sharding-order against left-to-right: 2 differences
        rank 6 has nothing by sharding-order; 8 by left-to-right
        rank 7 has 8 by sharding-order; nothing by left-to-right
    """
    first, second = _answer(first), _answer(second)
    if first.spec != second.spec:
        raise SpecError(f"two answers to different questions cannot be compared: {first.spec} and {second.spec}")
    names = (_name(first), _name(second))
    note = ""
    if isinstance(first, Trace) and isinstance(second, Trace):
        found, note = _stories(first, second, names)
    else:
        found = list(_buffers(first.spec.mesh.ranks, _held(first), _held(second), names))
    return Comparison(*names, tuple(found), (first, second), note)


def disagreements(trace: Trace, predicted: Layout | Spec | str | None = None) -> Differences:
    """Everything on which a recorded run's answers part: predicted, held, reported, used, and the two reconstructions.

    Args:
        trace: what real ranks did.
        predicted: the layout that they should have, or the spec of it; by default that of the trace's own spec.

    Raises:
        SpecError: `trace` is no story, or `predicted` is of another spec.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.unshuffle import unshuffle
        >>> six = "[6] on dp=2, tp=2: _S(0, 2), S(0)"  # the method of torch 2.8 stands in for a run that goes wrong
        >>> print(disagreements(unshuffle(six, "torch-2.8"), layout(six))[0].sentence)
        rank 0 gets 0-2 # 3 5 from shardviz's reconstruction, not the whole tensor in order
    """
    if not isinstance(trace, Trace):
        raise SpecError(f"a story was expected, such as Ranks.run gives; got {type(trace).__name__}")
    held = _answer(trace.spec if predicted is None else predicted)
    if held.spec != trace.spec or not isinstance(held, Layout):
        raise SpecError(f"a layout of {trace.spec} was expected, or its spec; got {type(predicted).__name__} of {held.spec}")
    ranks = trace.ranks
    found = list(_buffers(ranks, start(held), trace.held, ("arithmetic", "the recorded run")))
    for rank, buffer, report in zip(ranks, trace.held, trace.reported, strict=False):
        sentence = report_difference(trace.spec.shape, buffer, report)
        if sentence:
            found.append(Difference(rank, f"rank {rank} {sentence}"))
    if trace.used:
        found += _buffers(ranks, forward_buffers(trace.spec), trace.used, ("arithmetic", "the forward pass"))
    found += _results(trace, "shardviz's reconstruction")
    if trace.torch is not None:
        found += _results(trace.torch, "full_tensor()")
    return Differences(found)


def report_difference(shape: Sequence[int], held: Buffer, report: Report) -> str:
    """How torch's report differs from what a rank holds, or "": "holds nothing; torch reports row 8"."""
    if report.error:
        return f"holds {held_text(shape, held)}; torch reports nothing but {report.error}"
    if _agrees(shape, held, report):
        return ""
    mine, theirs = held_text(shape, held), place_text(shape, report.shape, report.offset)
    if mine == theirs == "nothing":
        theirs = f"shape ({_numbers(report.shape)}) at offset ({_numbers(report.offset)})"
        return f"holds nothing, shape ({_numbers(held.shape)}); torch reports {theirs}"
    return f"holds {mine}; torch reports {theirs}"


def held_text(shape: Sequence[int], held: Buffer) -> str:
    """What a rank holds, in words: "row 8", "rows 0 1 5", "rows 0-3, columns 2-4", "nothing"."""
    if not held.numel:
        return "nothing"
    if held.cells is not None:
        return buffer_text(held)
    return _axes_text(shape, held.axes)


def place_text(shape: Sequence[int], local_shape: Sequence[int], offset: Sequence[int]) -> str:
    """A shard by its shape and offset, in words: "row 8", "rows 4-7", "rows 0-3, columns 2-4", "nothing"."""
    if not math.prod(local_shape):
        return "nothing"
    return _axes_text(shape, [((first, first + size),) for first, size in zip(offset, local_shape, strict=True)])


def _axes_text(shape: Sequence[int], axes: Sequence[Runs]) -> str:
    """Runs per dimension, in words; dimensions that are whole are left out where another is not."""
    parts = []
    for dim, (size, runs) in enumerate(zip(shape, axes, strict=True)):
        if runs == ((0, size),) and len(shape) > 1:
            continue
        name = ("row", "column")[dim] if dim < 2 else f"index of dimension {dim}"
        plural = "" if length(runs) == 1 else "s" if dim < 2 else ":"
        parts.append(f"{name}{plural} {runs_text(runs)}")
    return ", ".join(parts) or ("everything" if shape else "the scalar")


def _agrees(shape: Sequence[int], held: Buffer, report: Report) -> bool:
    """Whether a report, which is one block, is what is held; of an empty dimension the offset is the dimension's size."""
    if held.cells is not None or held.shape != report.shape:
        return False
    if not held.numel:  # where nothing is held, the other dimensions' offsets cannot be read off
        return all(first == size for first, size, count in zip(report.offset, shape, held.shape, strict=True) if not count)
    blocks = zip(held.axes, report.offset, report.shape, strict=True)
    return all(runs == ((first, first + size),) for runs, first, size in blocks)


def _name(answer: Layout | Trace) -> str:
    if isinstance(answer, Layout):
        return answer.reading
    return answer.source.answer if answer.method == "exact" else f"{answer.source.answer} ({answer.method})"


def _held(answer: Layout | Trace) -> tuple[Buffer, ...]:
    return start(answer) if isinstance(answer, Layout) else answer.held


def _answer(given: Layout | Trace | Spec | str) -> Layout | Trace:
    if isinstance(given, Layout | Trace):
        return given
    if isinstance(given, Spec | str):
        return layout(given)
    raise SpecError(f"a layout, a story, a spec or its notation was expected; got {type(given).__name__}")


def _stories(first: Trace, second: Trace, names: tuple[str, str]) -> tuple[list[Difference], str]:
    """What differs at the start, after operations that both have, and at the end; or what is to be said where nothing does."""
    ranks = first.ranks
    pairs = _paired(first.steps, second.steps)
    same = len(pairs) == len(first.steps) == len(second.steps)
    if not same and (first.held, first.result, first.end) == (second.held, second.result, second.end):
        return [], "same end, other steps"
    found = []
    for number, other in pairs:
        one, two = first.steps[number], second.steps[other]
        where = one.name if number or other else ""
        found += [replace(d, other_step=other) for d in _buffers(ranks, one.buffers, two.buffers, names, number, where)]
    if pairs[-1] != (len(first.steps) - 1, len(second.steps) - 1):
        ends = _buffers(ranks, first.result, second.result, names, len(first.steps) - 1)
        found += [replace(d, sentence=f"{d.sentence} at the end", other_step=len(second.steps) - 1) for d in ends]
    if first.end != second.end:
        for trace, name in ((first, names[0]), (second, names[1])):
            found += [Difference(rank, f"rank {rank} ends early by {name}: {trace.end}") for rank in ranks if trace.end]
    return found, ""


def _paired(first: Sequence[Step], second: Sequence[Step]) -> list[tuple[int, int]]:
    """The steps that do the same, in the order of both stories. The starts are a pair."""
    does, did = ([(s.kind, s.name, s.tensor_dim, s.mesh_dim) for s in steps[1:]] for steps in (first, second))
    blocks = SequenceMatcher(None, does, did, autojunk=False).get_matching_blocks()
    return [(0, 0), *((b.a + i + 1, b.b + i + 1) for b in blocks for i in range(b.size))]


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
        why = trace.end.strip().splitlines()[-1].strip()  # of a traceback, what was raised
        yield from (Difference(rank, f"rank {rank}: {what} ended: {why}") for rank in trace.ranks)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
