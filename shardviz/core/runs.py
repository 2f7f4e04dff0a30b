"""Arithmetic on runs: ordered half-open intervals of global indices, cut without ever listing an element."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from shardviz.core.errors import SpecError

__all__ = [
    "MOST_PIECES",
    "Run",
    "Runs",
    "chunk",
    "chunk_bounds",
    "is_padding",
    "is_unknown",
    "joined",
    "length",
    "padding",
    "piece",
    "position_of",
    "run_text",
    "runs_text",
    "strided_chunk",
    "strided_chunks",
    "unknown",
]

MOST_PIECES = 1 << 16
"""The most pieces of a strided cut: each is described one by one."""

Run: TypeAlias = tuple[int, int]
"""`(start, stop)`: the global indices start, …, stop − 1 of one tensor dimension."""

Runs: TypeAlias = tuple[Run, ...]
"""What a rank holds on one tensor dimension, in local order; neighbours that continue each other are one run."""


def padding(count: int) -> Run:
    """The run that stands for `count` slots of padding: it ends at 0 and begins below it."""
    return (-count, 0)


def unknown(count: int) -> Run:
    """The run that stands for `count` slots whose content is no element: it ends at −1."""
    return (-count - 1, -1)


def is_padding(run: Run) -> bool:
    """Whether a run is padding: elements added so that every member of a group sends the same amount."""
    return run[1] == 0 and run[0] < 0


def is_unknown(run: Run) -> bool:
    """Whether a run is neither elements nor padding: memory that nothing was written to, or a value that marks no element."""
    return run[1] == -1


def chunk_bounds(size: int, chunks: int, index: int) -> Run:
    """The chunk rule of `torch.chunk` as DTensor applies it: ceil(size / chunks) elements each, then the rest, then nothing.

    Example:
        >>> [chunk_bounds(5, 4, i) for i in range(4)]  # ceil(5 / 4) = 2: sizes 2, 2, 1, 0
        [(0, 2), (2, 4), (4, 5), (5, 5)]
    """
    step = -(-size // chunks)
    return min(index * step, size), min((index + 1) * step, size)


def length(runs: Iterable[Run]) -> int:
    """Number of elements in runs."""
    return sum(stop - start for start, stop in runs)


def joined(runs: Iterable[Run]) -> Runs:
    """Runs without the empty ones, and with neighbours that continue each other made one.

    Example:
        >>> joined([(0, 2), (3, 3), (2, 4), (6, 7), padding(1), padding(2), (0, 1)])
        ((0, 4), (6, 7), (-3, 0), (0, 1))
    """
    out: list[Run] = []
    for start, stop in runs:
        if start == stop:
            continue
        if out and start >= 0 and out[-1][1] == start and out[-1][0] >= 0:
            out[-1] = (out[-1][0], stop)
        elif out and start < 0 and out[-1][1] == stop:  # padding after padding, unknown after unknown
            out[-1] = (out[-1][0] + start - stop, stop)
        else:
            out.append((start, stop))
    return tuple(out)


def piece(runs: Iterable[Run], first: int, last: int) -> Runs:
    """The part of runs at the positions first, …, last − 1 of their list of elements.

    Example:
        >>> piece(((0, 2), (6, 9)), 1, 4)  # 0 1 6 7 8 → 1 6 7
        ((1, 2), (6, 8))
        >>> piece(((0, 2), padding(3)), 1, 4)  # 0 1 # # # → 1 # #
        ((1, 2), (-2, 0))
    """
    out: list[Run] = []
    before = 0
    for start, stop in runs:
        low, high = max(first - before, 0), min(last - before, stop - start)
        if low < high:
            out.append((start + low, start + high) if start >= 0 else (stop - (high - low), stop))
        before += stop - start
        if before >= last:
            break
    return joined(out)


def chunk(runs: Runs, chunks: int, index: int) -> Runs:
    """Chunk `index` of `chunks` of the list of elements."""
    return piece(runs, *chunk_bounds(length(runs), chunks, index))


def strided_chunk(runs: Runs, pieces: int, chunks: int, index: int) -> Runs:
    """Cut into `pieces`, each of those into `chunks`; keep chunk `index` of every piece.

    This is how torch's `_StridedShard` splits a tensor (2.10 and later).

    Example:
        >>> strided_chunk(((0, 9),), 2, 4, 0)  # 0..4 | 5..8 → ceil(5 / 4) = 2 of the first, 1 of the second
        ((0, 2), (5, 6))
    """
    if pieces == 1:
        return chunk(runs, chunks, index)
    total = length(runs)
    if min(pieces, total) > MOST_PIECES:
        count = min(pieces, total)
        raise SpecError(
            f"a split factor of {pieces} cuts {total} elements into {count} pieces; at most {MOST_PIECES} can be described"
        )
    kept: list[Run] = []
    for number in range(min(pieces, total)):  # pieces past the last element are empty
        kept.extend(chunk(piece(runs, *chunk_bounds(total, pieces, number)), chunks, index))
    return joined(kept)


def strided_chunks(runs: Runs, pieces: int, chunks: int) -> list[Runs]:
    """All of them: `strided_chunk` for every index. One run cut plainly, the usual case, is arithmetic alone."""
    if pieces == 1 and len(runs) == 1:
        ((start, stop),) = runs
        step = -(-(stop - start) // chunks)
        bounds = [min(start + index * step, stop) for index in range(chunks + 1)]
        return [((low, high),) if low < high else () for low, high in pairwise(bounds)]
    return [strided_chunk(runs, pieces, chunks, index) for index in range(chunks)]


def position_of(runs: Iterable[Run], index: int) -> int | None:
    """Where a global index stands in the list of elements, or None where it is not held."""
    before = 0
    for start, stop in runs:
        if start <= index < stop:
            return before + index - start
        before += stop - start
    return None


def run_text(run: Run) -> str:
    """One run in words.

    Example:
        >>> [run_text(r) for r in ((4, 5), (4, 6), (4, 9), padding(1), padding(3), unknown(1))]
        ['4', '4 5', '4-8', '#', '#×3', '?']
    """
    start, stop = run
    if start < 0:
        sign = "#" if is_padding(run) else "?"
        return sign if stop - start == 1 else f"{sign}×{stop - start}"
    if stop - start == 1:
        return str(start)
    return f"{start} {start + 1}" if stop - start == 2 else f"{start}-{stop - 1}"


def runs_text(runs: Runs, most: int | None = None) -> str:
    """Runs in words, at most `most` of them; "nothing" where there are none.

    Example:
        >>> runs_text(((0, 2), (3, 4), (7, 9)), most=2)
        '0 1 3 …'
    """
    shown = " ".join(run_text(run) for run in runs[:most])
    return f"{shown} …" if most is not None and len(runs) > most else shown or "nothing"
