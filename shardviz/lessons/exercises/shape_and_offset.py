"""Exercise: where a shard begins and how long it is, without any list."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.core.runs import Runs, chunk, length
from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Beyond, Mistake
from shardviz.lessons.facts import even_sizes
from shardviz.lessons.functions import Code
from shardviz.picture import Picture

Case = tuple[int, list[int], list[int]]


def right(size: int, cuts: list[int], coordinate: list[int]) -> tuple[int, int]:
    """The core's runs, cut after cut."""
    runs: Runs = ((0, size),) if size else ()
    for count, place in zip(cuts, coordinate, strict=True):
        runs = chunk(runs, count, place)
    return length(runs), runs[0][0] if runs else size


def generate(random: Random) -> Iterator[Case]:
    """Every coordinate of one to three cuts of small sizes, and a few large ones."""
    for cuts in ([1], [4], [2, 2], [2, 4], [3, 3], [2, 2, 2]):
        for size in (0, 1, 2, 3, 5, 6, 7, 9, 11, 13):
            for _ in range(3):
                yield size, cuts, [random.randrange(count) for count in cuts]
        yield size, cuts, [count - 1 for count in cuts]
    for _ in range(8):
        cuts = [random.randrange(1, 9) for _ in range(3)]
        yield random.randrange(1000, 200_000), cuts, [random.randrange(count) for count in cuts]


def from_the_start(size: int, cuts: list[int], coordinate: list[int]) -> tuple[int, int]:
    """Like the right answer, but an empty shard stays where the cut left it."""
    start, length = 0, size
    for count, place in zip(cuts, coordinate, strict=True):
        full = -(-length // count)
        low = min(place * full, length)
        start, length = start + low, min(full, length - low)
    return length, start


def even(size: int, cuts: list[int], coordinate: list[int]) -> tuple[int, int]:
    """Even spreads."""
    start, length = 0, size
    for count, place in zip(cuts, coordinate, strict=True):
        sizes = even_sizes(length, count)
        start, length = start + sum(sizes[:place]), sizes[place]
    return length, start if length else size


def at_once(size: int, cuts: list[int], coordinate: list[int]) -> tuple[int, int]:
    """One cut into as many chunks as all cuts make."""
    total, place = 1, 0
    for count, index in zip(cuts, coordinate, strict=True):
        total, place = total * count, place * count + index
    return right(size, [total], [place])


def picture(case: Case, target: tuple[int, int], yours: Any) -> Picture | None:
    """The shard's elements."""
    size, cuts, coordinate = case
    drawable = isinstance(yours, list) and len(yours) == 2 and all(type(n) is int and 0 <= n <= 64 for n in yours)
    if size > 24 or (yours is not None and not drawable):
        return None
    shard = [i for i in range(size) if target[1] <= i < target[1] + target[0]]
    answered = None if yours is None else list(range(yours[1], yours[1] + yours[0]))
    if shard == answered:
        return None
    title = f"Elements of {size} at {coordinate} of cuts {cuts}"
    return board(title, [Row("shard", shard, answered)], yours is not None, dict.fromkeys(range(100), 0))


EXERCISE = Code(
    id="shape-and-offset",
    notebook=5,
    title="shape and offset",
    text="""
A dimension of `size` elements is cut several times, each time by the chunk rule: `cuts` are the numbers of chunks,
first cut first. `coordinate` says which chunk is kept each time, in the same order.

What is left is a stretch of the dimension. Give its shape and its offset: how many elements it has, and the index of
the first one. The offset of an **empty** shard is `size`, as torch has it.
""",
    signature="shape_and_offset(size, cuts, coordinate):",
    stub="""
def shape_and_offset(size, cuts, coordinate):
    raise NotImplementedError
""",
    hints=(
        "Keep two numbers, where the stretch begins and how long it is: at the beginning 0 and `size`. Each cut changes both.",
        "A cut of a stretch of `length`: a full chunk has ⌈length / count⌉ elements, and chunk number i begins i "
        "full chunks further on, if the stretch is that long.",
        "`low = min(i * full, length)`, then `start += low` and `length = min(full, length - low)`. At the end, "
        "where nothing is left, the offset is `size`.",
    ),
    right=right,
    examples=((9, [2, 4], [1, 3]), (9, [2, 4], [0, 3])),
    generate=generate,
    draw=picture,
    beyond=Beyond(
        (8_000_000_000_000, [8, 128], [7, 127]),
        "Eight trillion elements, too: no list anywhere.",
        "Target to beat: yours lists elements, so eight trillion of them are too many for it. Two numbers are enough.",
    ),
    done="This is the number that a checkpoint trusts. Torch 2.10 to 2.15 compute it with the cuts in another order.",
    mistakes=(
        Mistake(
            from_the_start,
            "Only the empty shards are wrong: where nothing is left, the offset is `size`. Any other could be the"
            " offset of a shard with elements, and a "
            "checkpoint that drops duplicates would then drop the wrong one.",
        ),
        Mistake(even, "Those are even spreads. Each cut fills full chunks of ⌈length / count⌉ from the front."),
        Mistake(
            at_once,
            "You cut once, into as many chunks as all cuts make together. Two cuts in a row round up twice, and "
            "where sizes do not divide that is something else.",
        ),
        Mistake(
            lambda size, cuts, coordinate: right(size, cuts, coordinate)[::-1],
            "The two numbers are turned round: first the shape, then the offset.",
        ),
    ),
)
