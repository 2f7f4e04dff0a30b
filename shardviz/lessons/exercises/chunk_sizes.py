"""Exercise: the sizes of the chunks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.core.runs import chunk_bounds
from shardviz.lessons.boards import board, rank_rows
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import even_sizes, split_by, stepped_sizes
from shardviz.lessons.functions import Code
from shardviz.picture import Picture


def right(size: int, ranks: int) -> list[int]:
    """By the core's chunk rule."""
    bounds = [chunk_bounds(size, ranks, place) for place in range(ranks)]
    return [stop - start for start, stop in bounds]


def generate(random: Random) -> Iterator[tuple[int, int]]:
    """Every small case, and some large ones."""
    yield from ((size, ranks) for size in range(18) for ranks in range(1, 9))
    yield from ((random.randrange(18, 200_000), random.randrange(1, 65)) for _ in range(12))


def picture(case: tuple[int, int], target: list[int], yours: Any) -> Picture | None:
    """The elements that sizes stand for, rank by rank."""
    size, ranks = case
    if size > 64 or (yours is not None and not (isinstance(yours, list) and all(type(n) is int and n >= 0 for n in yours))):
        return None
    answered = None if yours is None else split_by(range(min(sum(yours), 100)), yours)
    rows = rank_rows(split_by(range(size), target), answered)
    return board(f"{size} elements over {ranks} rank{'s' * (ranks != 1)}", rows, yours is not None)


EXERCISE = Code(
    id="chunk-sizes",
    notebook=2,
    title="the sizes of the chunks",
    text="""
Torch cuts a dimension by one rule: every rank gets ⌈size / ranks⌉ elements until there are no more. The rank at which
they run out gets what is left, and ranks after it get nothing.

Write a function that gives the number of elements on each rank, in the order of the ranks.
""",
    signature="chunk_sizes(size, ranks):",
    stub="""
def chunk_sizes(size, ranks):
    raise NotImplementedError
""",
    hints=(
        "How many elements does a full chunk have? In whole numbers, ⌈a / b⌉ is `-(-a // b)`.",
        "Chunk number i would begin at i times that size, if there were enough elements. How many are left at that place?",
        "A chunk has the smaller of a full chunk and what is left, and never fewer than none: `max(0, min(full, "
        "size - i * full))`.",
    ),
    right=right,
    examples=((5, 4), (6, 4)),
    generate=generate,
    draw=picture,
    done="This rule is why six elements over four ranks leave one rank empty.",
    mistakes=(
        Mistake(
            even_sizes,
            "That is an even spread, as `numpy.array_split` makes it. Torch fills ranks from the front with full "
            "chunks, so the last "
            "ones may get much less than the others, or nothing.",
        ),
        Mistake(
            stepped_sizes,
            "You let only the last rank be short. But the elements may run out earlier: then several ranks get "
            "less than a full chunk.",
        ),
        Mistake(
            lambda size, ranks: [size // ranks] * (ranks - 1) + [size - size // ranks * (ranks - 1)],
            "You round down and give the rest to the last rank. Torch rounds up, so that it is the last ranks that get less.",
        ),
        Mistake(
            lambda size, ranks: [part for part in right(size, ranks) if part],
            "You leave out the empty chunks, as `torch.chunk` itself does. A rank that gets nothing still is a "
            "rank: give it a 0.",
        ),
        Mistake(
            lambda size, ranks: [-(-size // ranks)] * (ranks - 1) + [size + -size // ranks * (ranks - 1)],
            "Your last chunk can be negative: the elements may run out before the last rank.",
        ),
    ),
)
