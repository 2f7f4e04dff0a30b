"""Functions with a bug in each: one of them is given to find it. They are shown as they stand here."""

from __future__ import annotations

from typing import Any

from shardviz.lessons.facts import fsdp_over_tp, held

__all__ = ["VARIANTS", "shards"]


def shards(size: int, dp: int, tp: int) -> list[list[Any]]:
    """What an all-gather brings of elements 0 … size - 1: a list per rank, in rank order, padded with `None` to one length."""
    parts = held(fsdp_over_tp(size, dp, tp))
    width = max(map(len, parts))
    return [[*part, *[None] * (width - len(part))] for part in parts]


# The functions are shown to people who have seen plain Python only, so they stand here without types.


def padding_at_the_end(pieces, size, dp, tp):
    """Bring the pieces of one tp coordinate together, then the next; the padding is at the end."""
    found = []
    for t in range(tp):
        for d in range(dp):
            found += pieces[d * tp + t]
    return found[:size]


def dp_cuts_first(pieces, size, dp, tp):
    """Keep as much of each piece as its rank holds, then bring the pieces of one tp coordinate together."""

    def chunk_size(n, count, i):
        full = -(-n // count)
        return max(0, min(full, n - i * full))

    found = []
    for t in range(tp):
        for d in range(dp):
            row = chunk_size(size, dp, d)
            found += pieces[d * tp + t][: chunk_size(row, tp, t)]
    return found


def one_width_for_all(pieces, size, dp, tp):
    """Take the padding away column by column: a column is full, or has what is left of the tensor."""
    column = -(-size // tp)
    found = []
    for t in range(tp):
        together = []
        for d in range(dp):
            together += pieces[d * tp + t]
        found += together[: min(column, size - len(found))]
    return found


def even_spread(pieces, size, dp, tp):
    """Keep of each piece what an even spread gives its rank: sizes differ by one at most."""

    def part_size(n, count, i):
        return n // count + (1 if i < n % count else 0)

    found = []
    for t in range(tp):
        here = part_size(size, tp, t)
        for d in range(dp):
            found += pieces[d * tp + t][: part_size(here, dp, d)]
    return found


def trusts_the_gathered_length(pieces, size, dp, tp):
    """Gather over tp, then over dp, then deal the elements back by chunking what came."""
    gathered = []
    for d in range(dp):
        for t in range(tp):
            gathered += [e for e in pieces[d * tp + t] if e is not None]
    row = -(-len(gathered) // dp)
    rows = [gathered[d * row : (d + 1) * row] for d in range(dp)]
    found = []
    for t in range(tp):
        for piece in rows:
            step = -(-len(piece) // tp)
            found += piece[t * step : (t + 1) * step]
    return found


VARIANTS = (
    (padding_at_the_end, 2, 2),
    (dp_cuts_first, 3, 2),
    (one_width_for_all, 2, 2),
    (one_width_for_all, 3, 2),
    (one_width_for_all, 2, 3),
    (even_spread, 2, 3),
    (even_spread, 3, 2),
    (trusts_the_gathered_length, 2, 2),
    (trusts_the_gathered_length, 2, 3),
)
"""The functions, each with sizes of dp and tp on which it is wrong for some sizes and right for others."""
