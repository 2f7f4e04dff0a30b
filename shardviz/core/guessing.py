"""A person's guess of what a rank holds, against the layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.runs import joined, runs_text

__all__ = ["MOST", "Guess", "judge"]

MOST = 64
"""The most elements of a tensor that can be guessed one by one."""


@dataclass(frozen=True)
class Guess:
    """A guess and what is true, as flat row-major indices of elements.

    Attributes:
        right: guessed, and held by the rank.
        missed: held, and not guessed.
        extra: guessed, and not held.
        sentence: the same in words.
    """

    right: tuple[int, ...]
    missed: tuple[int, ...]
    extra: tuple[int, ...]
    sentence: str


def judge(held: Layout, rank: int, guessed: Iterable[int]) -> Guess:
    """Compare a guess with what a rank holds.

    Args:
        held: the layout, of a tensor of at most `MOST` elements.
        rank: whose elements were guessed.
        guessed: flat row-major indices.

    Raises:
        SpecError: the tensor has too many elements, or the rank is not in the mesh.

    Example:
        >>> from shardviz.core.layout import layout
        >>> judge(layout("[5] on dp=2, tp=2: _S(0, 2), S(0)"), 1, [2, 3]).sentence
        'Rank 1 holds 3. Right: 3. Missed: none. Extra: 2.'
        >>> judge(layout("[4, 6] on dp=2, tp=2: S(0), S(1)"), 0, [0, 1, 2, 3]).sentence
        'Rank 0 holds (0, 0-2), (1, 0-2). Right: (0, 0-2). Missed: (1, 0-2). Extra: (0, 3).'
    """
    shape = held.spec.shape
    if held.spec.numel > MOST:
        raise SpecError(f"a tensor of {held.spec.numel:,} elements: guessing goes up to {MOST}")
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    indices = product(*([i for run in runs for i in range(*run)] for runs in held[rank].runs))
    true = {sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in indices}
    chosen = set(guessed)
    right, missed, extra = (tuple(sorted(found)) for found in (true & chosen, true - chosen, chosen - true))
    holds = _names(sorted(true), shape) or "nothing"
    said = [_names(found, shape) or "none" for found in (right, missed, extra)]
    verdict = "All right. " if not missed and not extra else ""
    sentence = f"{verdict}Rank {rank} holds {holds}. Right: {said[0]}. Missed: {said[1]}. Extra: {said[2]}."
    return Guess(right, missed, extra, sentence)


def _names(found: Sequence[int], shape: Sequence[int]) -> str:
    """Elements by their indices: runs of them along one dimension."""
    if len(shape) < 2:
        return runs_text(joined((i, i + 1) for i in found)) if found else ""
    lines: dict[int, list[int]] = {}
    for flat in found:
        lines.setdefault(flat // shape[-1], []).append(flat % shape[-1])
    return ", ".join(f"({_lead(line, shape)} {runs_text(joined((i, i + 1) for i in along))})" for line, along in lines.items())


def _lead(line: int, shape: Sequence[int]) -> str:
    index: list[int] = []
    for size in reversed(shape[:-1]):
        line, rest = divmod(line, size)
        index.append(rest)
    return "".join(f"{i}," for i in reversed(index))
