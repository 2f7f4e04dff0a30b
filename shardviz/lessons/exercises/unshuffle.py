"""Exercise: put the gathered pieces of a tensor under FSDP2 over TP into order."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import even_sizes, fsdp_over_tp, held
from shardviz.lessons.functions import Code
from shardviz.picture import Picture

Case = tuple[list[list[int]], int, int, int]


def right(pieces: list[list[int]], size: int, dp: int, tp: int) -> list[int]:
    """Every element goes where the core's layout says that it belongs."""
    found = [0] * size
    for piece, indices in zip(pieces, held(fsdp_over_tp(size, dp, tp)), strict=True):
        for element, index in zip(piece, indices, strict=False):
            found[index] = element
    return found


def generate(random: Random) -> Iterator[Case]:
    """Uneven sizes on small meshes, and some that divide; padding is stale."""
    for dp, tp in ((1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (2, 3), (4, 2), (2, 4)):
        for size in (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 16):
            yield gathered(size, dp, tp, random)


def gathered(size: int, dp: int, tp: int, random: Random) -> Case:
    """Elements that say nothing of their place, in padded pieces by rank."""
    elements = random.sample(range(10, 100), size)
    parts = [[elements[i] for i in indices] for indices in held(fsdp_over_tp(size, dp, tp))]
    width = max(map(len, parts))
    stale = [0, *elements]
    return [[*part, *(random.choice(stale) for _ in range(width - len(part)))] for part in parts], size, dp, tp


def picture(case: Case, target: list[int], yours: Any) -> Picture | None:
    """The elements in order, in the colours of the ranks that they came from."""
    if yours is not None and not isinstance(yours, list):
        return None
    pieces, size, dp, tp = case
    parts = held(fsdp_over_tp(size, dp, tp))
    hues = {target[i]: rank % 8 for rank, part in enumerate(parts) for i in part}
    rows = [Row("result", target, yours)]
    if yours is None:
        sent = [[target[i] for i in part] + [None] * (len(pieces[0]) - len(part)) for part in parts]
        rows = [*(Row(f"rank {rank}", piece) for rank, piece in enumerate(sent)), *rows]
    return board(f"{size} elements from dp={dp}, tp={tp}, in order", rows, yours is not None, hues)


def without_padding(pieces: list[list[int]], size: int, dp: int, tp: int) -> list[list[int]]:
    """What is real of each piece."""
    return [piece[: len(part)] for piece, part in zip(pieces, held(fsdp_over_tp(size, dp, tp)), strict=True)]


def rank_order(pieces: list[list[int]], size: int, dp: int, tp: int) -> list[int]:
    """Without padding, and without unshuffle."""
    return [e for piece in without_padding(pieces, size, dp, tp) for e in piece]


def columns(pieces: list[list[int]], dp: int, tp: int) -> list[int]:
    """In the right order, padding included."""
    return [e for t in range(tp) for d in range(dp) for e in pieces[d * tp + t]]


def even(pieces: list[list[int]], size: int, dp: int, tp: int) -> list[int]:
    """In the right order, with the sizes of an even spread."""
    sizes = [even_sizes(column, dp) for column in even_sizes(size, tp)]
    return [e for t in range(tp) for d in range(dp) for e in pieces[d * tp + t][: sizes[t][d]]]


MISTAKES = (
    Mistake(
        lambda pieces, size, dp, tp: [e for piece in pieces for e in piece],
        "You join the pieces as they came. Two things are left to do: the padding must go, and the pieces are not"
        " in the order of the tensor.",
    ),
    Mistake(
        lambda pieces, size, dp, tp: [e for piece in pieces for e in piece][:size],
        "You join the pieces as they came and cut at the true size. Padding stands behind every piece, not only "
        "at the end, and the order is that of the ranks.",
    ),
    Mistake(
        rank_order,
        "The padding is gone, but the order is that of the ranks: dp, then tp. tp cut first, so whatever has the "
        "same tp coordinate was one piece. That is what the unshuffle is for.",
    ),
    Mistake(
        lambda pieces, size, dp, tp: columns(pieces, dp, tp)[:size],
        "The order is right, but the padding is still in between: you cut it off at the end, and it stands behind every piece.",
    ),
    Mistake(
        lambda pieces, size, dp, tp: columns(pieces, dp, tp),
        "The order is right. Now the padding, and forget no unpad: it stands behind every short piece.",
    ),
    Mistake(
        even,
        "The order is right; the sizes are those of an even spread. How much of a piece is real follows from the "
        "chunk rule, used twice.",
    ),
    Mistake(
        lambda pieces, size, dp, tp: sorted(rank_order(pieces, size, dp, tp)),
        "You sort. The elements of a weight say nothing of their place.",
    ),
)

EXERCISE = Code(
    id="unshuffle",
    notebook=4,
    title="the unshuffle",
    text="""
All ranks of a dp × tp mesh have sent their piece of one tensor. TP had cut it first, then FSDP2 cut what TP left: rank
`d * tp + t` has `chunk(chunk(tensor, tp)[t], dp)[d]`, where `chunk` cuts by torch's chunk rule. `pieces` are in the
order of the ranks, padded at their ends to one length. What padding holds is arbitrary: it cannot be recognised.

Give the `size` elements of the tensor in their order.
""",
    signature="unshuffle(pieces, size, dp, tp):",
    stub="""
def unshuffle(pieces, size, dp, tp):
    raise NotImplementedError
""",
    hints=(
        "Two questions, one after the other: how much of each piece is real, and in which order do the pieces "
        "follow each other?",
        "The first tp coordinate has the beginning of the tensor, spread over all its dp coordinates. So: for "
        "every t, for every d, piece `d * tp + t`.",
        "With `chunk_sizes` from before: `columns = chunk_sizes(size, tp)`, and of piece `d * tp + t` the first "
        "`chunk_sizes(columns[t], dp)[d]` elements are real.",
    ),
    right=right,
    examples=(([[7, 3], [9, 0], [4, 0], [1, 7]], 5, 2, 2),),
    generate=generate,
    draw=picture,
    done="Sizes by arithmetic, order by the cuts: that is the whole unshuffle, and it took torch several releases.",
    mistakes=MISTAKES,
)
