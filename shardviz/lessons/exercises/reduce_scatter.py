"""Exercise: what a reduce-scatter leaves on each rank."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.lessons.boards import board, rank_rows
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import chunks, even_sizes, split_by
from shardviz.lessons.functions import Code
from shardviz.picture import Picture


def total(addends: list[list[int]]) -> list[int]:
    """The sum of all ranks' addends, position by position."""
    return [sum(column) for column in zip(*addends, strict=True)]


def right(addends: list[list[int]]) -> list[list[int]]:
    """The chunks of the sum."""
    return chunks(total(addends), len(addends))


def generate(random: Random) -> Iterator[tuple[list[list[int]]]]:
    """Up to nine elements on up to five ranks."""
    for ranks in range(1, 6):
        for size in range(10):
            yield ([random.sample(range(1, 40), size) for _ in range(ranks)],)


def picture(case: tuple[list[list[int]]], target: list[list[int]], yours: Any) -> Picture | None:
    """What every rank has afterwards."""
    return board(
        f"After a reduce-scatter over {len(case[0])} rank{'s' * (len(case[0]) != 1)}",
        rank_rows(target, yours),
        yours is not None,
    )


EXERCISE = Code(
    id="reduce-scatter",
    notebook=9,
    title="a reduce-scatter",
    text="""
After a matrix product over a dimension that is cut, every rank has an **addend**: a list as long as the result, of
which only the sum over all ranks is the value. A reduce-scatter adds the lists up, position by position, and leaves
each rank its own chunk of the sum (the chunk rule, over as many chunks as there are ranks).

`addends` has one list per rank, all equally long. Give what each rank has afterwards.
""",
    signature="reduce_scatter(addends):",
    stub="""
def reduce_scatter(addends):
    raise NotImplementedError
""",
    hints=(
        "Two steps: the sum of all lists, and a cut. The order does not matter for the result.",
        "`zip(*addends)` gives position by position what every rank has there.",
        "With the chunk rule from before: `full = -(-len(total) // ranks)`, and rank i keeps `total[i * full : (i"
        " + 1) * full]`.",
    ),
    right=right,
    examples=(([[1, 2, 3, 4, 5], [10, 20, 30, 40, 50]],),),
    generate=generate,
    draw=picture,
    done="Half an all-reduce: the all-gather that would follow is often not needed.",
    mistakes=(
        Mistake(
            lambda addends: [chunks(addend, len(addends))[rank] for rank, addend in enumerate(addends)],
            "Every rank keeps a chunk of its own addend. An addend is not the value: only the sum over all ranks is.",
        ),
        Mistake(
            lambda addends: [total(addends) for _ in addends],
            "That is an all-reduce: every rank has the whole sum. A reduce-scatter leaves each its chunk.",
        ),
        Mistake(
            lambda addends: split_by(total(addends), even_sizes(len(total(addends)), len(addends))),
            "The sum is right, the cut is an even spread. Chunks are full from the front.",
        ),
        Mistake(
            lambda addends: [[value / len(addends) for value in part] for part in right(addends)],
            "That is the mean. The reduction here is a sum.",
        ),
    ),
)
