"""Exercise: cut a list and pad the parts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.lessons.boards import board, rank_rows
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import chunks, even_sizes, split_by
from shardviz.lessons.functions import Code
from shardviz.picture import Picture


def right(elements: list[int], ranks: int) -> list[list[Any]]:
    """Chunks by the core's rule, each as long as the first."""
    cut = chunks(elements, ranks)
    return [[*part, *[None] * (len(cut[0]) - len(part))] for part in cut]


def generate(random: Random) -> Iterator[tuple[list[int], int]]:
    """Elements that are not their own index."""
    for size in range(14):
        for ranks in (1, 2, 3, 4, 5, 7):
            yield random.sample(range(10, 100), size), ranks


def padded(parts: list[list[Any]]) -> list[list[Any]]:
    """Parts made as long as the longest, however they were cut."""
    width = max(map(len, parts))
    return [[*part, *[None] * (width - len(part))] for part in parts]


def picture(case: tuple[list[int], int], target: list[list[Any]], yours: Any) -> Picture | None:
    """What every rank sends."""
    title = f"{len(case[0])} elements over {case[1]} rank{'s' * (case[1] != 1)}, padded"
    return board(title, rank_rows(target, yours), yours is not None)


EXERCISE = Code(
    id="split-and-pad",
    notebook=2,
    title="split, and pad",
    text="""
In an all-gather every rank sends the same number of elements. So ranks with a short chunk add padding at its end, until
it is as long as the longest.

Cut a list over the ranks by torch's chunk rule, and pad every part with `None`. The parts come back in the order of the
ranks, all equally long.
""",
    signature="split_and_pad(elements, ranks):",
    stub="""
def split_and_pad(elements, ranks):
    raise NotImplementedError
""",
    hints=(
        "The first rank always has a full chunk, so its length is the length of all parts: ⌈len(elements) / ranks⌉.",
        "Python's slices do not mind going past the end: `elements[i * full : (i + 1) * full]` is chunk i, short "
        "or empty where it must be.",
        "What is missing in a part is `full - len(part)` times `None`, added at its end.",
    ),
    right=right,
    examples=(([10, 11, 12, 13, 14], 4),),
    generate=generate,
    draw=picture,
    done="Collectives need this: equal amounts from everybody, whatever they hold.",
    mistakes=(
        Mistake(chunks, "The parts are cut well, but they are not equally long: short ones need `None` at their end."),
        Mistake(
            lambda elements, ranks: padded(split_by(elements, even_sizes(len(elements), ranks))),
            "That is an even spread. By the chunk rule every rank gets ⌈size / ranks⌉ elements until there are no more.",
        ),
        Mistake(
            lambda elements, ranks: [
                [*[None] * part.count(None), *filter(lambda e: e is not None, part)] for part in right(elements, ranks)
            ],
            "Padding goes to the end of a part: what stands first stays first.",
        ),
        Mistake(
            lambda elements, ranks: [[0 if e is None else e for e in part] for part in right(elements, ranks)],
            "A 0 could be an element. Here padding is `None`, so that nobody takes it for one.",
        ),
        Mistake(
            lambda elements, ranks: [*chunks(elements, ranks)[:-1], right(elements, ranks)[-1]],
            "You pad the last rank alone. Where the elements run out earlier, the ranks before it are short too.",
        ),
    ),
)
