"""How a story ends, in words: right on every rank, or how many slots of how many ranks are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from shardviz.core.layout import layout
from shardviz.core.trace import Buffer, Trace, start, whole_buffer

__all__ = ["outcome"]

LISTED = 100_000
"""The most runs that are compared one by one."""


def outcome(trace: Trace) -> str:
    """One sentence, or two: whether every rank ends with what it should, and else what is wrong and since when.

    Example:
        >>> from shardviz.core.unshuffle import unshuffle
        >>> six = "[6] on dp=2, tp=2: _S(0, 2), S(0)"
        >>> print(outcome(unshuffle(six)))
        Every rank ends with the whole tensor, in order.
        >>> print(outcome(unshuffle(six, "torch-2.8")))
        Wrong on 4 of 4 ranks: 2 of the 6 slots of rank 0 hold something else. It goes wrong in step 4, keep the believed row.
    """
    if trace.end:
        return f"It ended early: {trace.end}"
    aim = start(layout(trace.target)) if trace.target else (whole_buffer(trace.spec.shape),) * trace.spec.mesh.size
    wrong = [place for place, (got, want) in enumerate(zip(trace.result, aim, strict=True)) if got != want]
    if not wrong:
        return f"Every rank ends with {'its part of the target' if trace.target else 'the whole tensor, in order'}."
    first = wrong[0]
    count, slots = _differing(trace.result[first], aim[first], trace.spec.shape), aim[first].numel
    said = f"Wrong on {len(wrong)} of {len(aim)} ranks"
    if count is not None:
        said += f": {count} of the {slots} slots of rank {trace.ranks[first]} hold something else"
    number = trace.wrong_from
    since = "" if number is None else f" It goes wrong in step {number + 1}, {trace.steps[number].name}."
    return f"{said}.{since}"


def _differing(got: Buffer, want: Buffer, shape: Sequence[int]) -> int | None:
    """How many slots of a buffer hold something else than they should; None where that cannot be told, or takes too long."""
    if got.shape != want.shape or got.pending != want.pending:
        return None
    stretches = []
    for buffer in (got, want):
        edges, at = {}, 0
        for run in buffer.flat_runs(shape):
            edges[at] = run
            at += run[1] - run[0]
            if len(edges) > LISTED:
                return None
        stretches.append((edges, at))
    (one, end), (other, _) = stretches
    wrong = 0
    here = there = (0, 0)
    begun = began = 0
    for at, until in pairwise(sorted({*one, *other, end})):
        if at in one:
            here, begun = one[at], at
        if at in other:
            there, began = other[at], at
        if here[0] < 0 or here[0] + at - begun != there[0] + at - began:
            wrong += until - at
    return wrong
