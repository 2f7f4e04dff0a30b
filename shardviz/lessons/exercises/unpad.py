"""Exercise: take the padding out of what an all-gather brought."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import fsdp_over_tp, split_by
from shardviz.lessons.functions import Code
from shardviz.picture import Picture


def right(gathered: list[int], sizes: list[int]) -> list[int]:
    """Every piece begins a width after the one before, and its size says how much of it is real."""
    width = max(sizes)
    return [e for place, size in enumerate(sizes) for e in gathered[place * width : place * width + size]]


def generate(random: Random) -> Iterator[tuple[list[int], list[int]]]:
    """Pieces as large as FSDP2 over TP makes them; padding holds what was there before, often a copy of an element."""
    for dp, tp in ((1, 1), (2, 1), (1, 3), (2, 2), (3, 2), (4, 2), (2, 4)):
        for size in (0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 13):
            yield gathered_from([rank.shape[0] for rank in fsdp_over_tp(size, dp, tp)], random)


def gathered_from(sizes: list[int], random: Random) -> tuple[list[int], list[int]]:
    """Pieces of such sizes, padded to the longest."""
    elements = iter(random.sample(range(100), sum(sizes)))
    pieces = [[next(elements) for _ in range(size)] for size in sizes]
    real = [e for piece in pieces for e in piece]
    stale = [random.choice([0, *real]) for _ in range(max(sizes) * len(sizes))]
    return [e for piece in pieces for e in [*piece, *stale[: max(sizes) - len(piece)]]], sizes


def picture(case: tuple[list[int], list[int]], target: list[int], yours: Any) -> Picture | None:
    """What is left, in the colours of the ranks it came from."""
    if yours is not None and not isinstance(yours, list):
        return None
    ranks = [place for place, size in enumerate(case[1]) for _ in range(size)]
    hues = {element: rank % 8 for element, rank in zip(target, ranks, strict=True)}
    rows = [Row("result", target, yours)]
    if yours is None:
        pieces = [[*piece, *[None] * (max(case[1]) - len(piece))] for piece in split_by(target, case[1])]
        rows.insert(0, Row("gathered", [slot for piece in pieces for slot in piece]))
    title = f"Pieces of {', '.join(map(str, case[1]))} elements, without padding"
    return board(title, rows, yours is not None, hues)


EXERCISE = Code(
    id="unpad",
    notebook=4,
    title="take the padding out",
    text="""
An all-gather puts the pieces of all ranks into one list, one behind the other. All pieces are as long as the longest;
what a rank had too little of, it filled up at the end of its own piece.

You get that list, and how many elements of each piece are real. Give the real elements, in the order in which they
stand.

Padding cannot be recognised: its slots hold whatever was in that memory, a 0 or an old copy of an element. And an
element may be 0.
""",
    signature="unpad(gathered, sizes):",
    stub="""
def unpad(gathered, sizes):
    raise NotImplementedError
""",
    hints=(
        "Where does the second piece begin? Not after the first piece's elements: after its padding.",
        "All pieces are `width = max(sizes)` slots long. So piece i begins at slot `i * width`.",
        "Of piece i keep `gathered[i * width : i * width + sizes[i]]`.",
    ),
    right=right,
    examples=(([7, 3, 9, 7, 4, 0], [2, 1, 1]),),
    generate=generate,
    draw=picture,
    done="Padding is found by arithmetic, never by looking at it.",
    mistakes=(
        Mistake(
            lambda gathered, sizes: gathered[: sum(sizes)],
            "You take all padding to be at the end. It is at the end of each piece, so some of it stands in the "
            "middle of the list. Torch 2.8, too, cut off the end alone.",
        ),
        Mistake(lambda gathered, sizes: gathered, "You give back all slots, padding included."),
        Mistake(
            lambda gathered, sizes: [e for e in gathered if e != 0],
            "You drop zeros. An element may be 0, and padding may be anything: it cannot be recognised by its value.",
        ),
        Mistake(
            lambda gathered, sizes: list(dict.fromkeys(gathered)),
            "You drop what stands twice. A copy may come before the element it is a copy of, and not all padding is a copy.",
        ),
    ),
)
