"""Exercise: which rows a checkpoint has lost."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.core.layout import layout
from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.functions import Code
from shardviz.picture import Picture

Chunk = tuple[int, int, int]


def right(size: int, chunks: list[Chunk]) -> list[int]:
    """Rows that no chunk both promises and stores."""
    there = {row for offset, promised, stored in chunks for row in range(offset, offset + min(promised, stored))}
    return [row for row in range(size) if row not in there]


def generate(random: Random) -> Iterator[tuple[int, list[Chunk]]]:
    """Checkpoints as torch 2.11 to 2.15 write them, whole ones, and ones with gaps and overlaps."""
    yield 0, []
    yield 3, []
    for dp, tp in ((2, 2), (3, 2), (4, 2), (3, 3)):
        for size in (0, 2, 5, 7, 9, 11, 13, 17):
            yield size, written(size, dp, tp)
    for _ in range(20):
        size = random.randrange(1, 9)
        yield size, [(random.randrange(size), random.randrange(3), random.randrange(3)) for _ in range(random.randrange(1, 5))]


def written(size: int, dp: int, tp: int) -> list[Chunk]:
    """The chunks of a checkpoint whose offsets and sizes were read from left to right; of equal offsets only one is kept."""
    spec = f"[{size}] on dp={dp}, tp={tp}: _S(0, {tp}), S(0)"
    found: dict[int, Chunk] = {}
    for held, said in zip(layout(spec), layout(spec, "left-to-right"), strict=True):
        found.setdefault(said.offset[0], (said.offset[0], said.shape[0], held.numel))
    return list(found.values())


def picture(case: tuple[int, list[Chunk]], target: list[int], yours: Any) -> Picture | None:
    """The rows that are gone."""
    size, chunks = case
    if yours is not None and not isinstance(yours, list):
        return None
    title = f"Rows of {size} that are gone from {len(chunks)} chunk{'s' * (len(chunks) != 1)}"
    return board(title, [Row("gone", target, yours)], yours is not None, dict.fromkeys(range(-10, 100), 0))


EXERCISE = Code(
    id="missing-rows",
    notebook=8,
    title="which rows are gone?",
    text="""
A checkpoint of a tensor with `size` rows consists of chunks. Of each you know three numbers, `(offset, promised,
stored)`: the row at which it begins, how many rows its entry in the metadata promises, and how many rows are really in
its file.

A row can be loaded if some chunk promises it **and** stores it; of a chunk that stores fewer rows than it promises, its
first rows are there. What a chunk stores beyond its promise, nobody will ever look for.

Give the rows that are gone, in rising order.
""",
    signature="missing_rows(size, chunks):",
    stub="""
def missing_rows(size, chunks):
    raise NotImplementedError
""",
    hints=(
        "Go through the chunks and note which rows are there. What is left of 0 … size - 1 is gone.",
        "Of a chunk, as many rows are there as it both promises and stores: the smaller of the two numbers.",
        "`range(offset, offset + min(promised, stored))` are a chunk's rows. Collect them in a set.",
    ),
    right=right,
    examples=((9, [(0, 4, 4), (4, 4, 4), (8, 1, 0), (9, 0, 1)]),),
    generate=generate,
    draw=picture,
    done="The metadata alone looked whole. Only the files tell.",
    mistakes=(
        Mistake(
            lambda size, chunks: right(size, [(offset, promised, promised) for offset, promised, _ in chunks]),
            "You believe the promises. They look whole; what counts is what the files hold.",
        ),
        Mistake(
            lambda size, chunks: right(size, [(offset, stored, stored) for offset, _, stored in chunks]),
            "You count all that is stored. What a chunk stores beyond its promise is never read: nobody asks for it.",
        ),
        Mistake(
            lambda size, chunks: sorted(
                {row for offset, promised, stored in chunks for row in range(offset + min(promised, stored), offset + promised)}
            ),
            "You look inside the chunks alone. A row that no chunk promises is gone too, and one that another "
            "chunk has is not.",
        ),
        Mistake(
            lambda size, chunks: [row for o, p, s in chunks if s < p for row in range(o, o + p)],
            "You give up a whole chunk because some of it is missing. Its first rows are there.",
        ),
    ),
)
