"""Exercise: what a padded all-gather costs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from shardviz.core.recipe import payload
from shardviz.core.runs import chunk_bounds
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.functions import Code


def right(size: int, itemsize: int, ranks: int) -> int:
    """The core's payload of the longest chunk."""
    return payload((chunk_bounds(size, ranks, 0)[1],), itemsize, ranks)


def generate(random: Random) -> Iterator[tuple[int, int, int]]:
    """Small sizes, and the vocabularies of models."""
    yield from ((size, itemsize, ranks) for size in range(12) for ranks in (1, 2, 3, 4, 8) for itemsize in (2, 4))
    yield from ((random.choice([32_001, 50_257, 128_257]), random.choice([1, 2, 4, 8]), ranks) for ranks in (3, 6, 8, 16, 64))


EXERCISE = Code(
    id="bytes-sent",
    notebook=6,
    title="what a collective sends",
    text="""
`ranks` ranks hold the chunks of `size` elements (the chunk rule), each element of `itemsize` bytes. In an all-gather
all of them must send equal amounts, so they pad to the longest chunk; then each rank's padded chunk goes to every
**other** rank.

How many bytes does one rank send?
""",
    signature="bytes_sent(size, itemsize, ranks):",
    stub="""
def bytes_sent(size, itemsize, ranks):
    raise NotImplementedError
""",
    hints=(
        "Three factors: how many slots a padded chunk has, how many bytes a slot has, and to how many others it goes.",
        "A padded chunk is as long as the first one: ⌈size / ranks⌉.",
        "`(ranks - 1) * -(-size // ranks) * itemsize`: nobody sends to themselves.",
    ),
    right=right,
    examples=((5, 8, 4), (6, 4, 1)),
    generate=generate,
    done="Even a rank without a single element sends this much.",
    mistakes=(
        Mistake(
            lambda size, itemsize, ranks: ranks * -(-size // ranks) * itemsize,
            "You count one receiver too many: a rank sends nothing to itself.",
        ),
        Mistake(
            lambda size, itemsize, ranks: (ranks - 1) * (size // ranks) * itemsize,
            "You round down. The padded chunk is as long as the longest, ⌈size / ranks⌉.",
        ),
        Mistake(
            lambda size, itemsize, ranks: (ranks - 1) * size * itemsize,
            "A rank sends its own chunk, not the whole tensor.",
        ),
        Mistake(
            lambda size, itemsize, ranks: -(-size // ranks) * itemsize,
            "That is one padded chunk. It goes to each of the other ranks.",
        ),
        Mistake(
            lambda size, itemsize, ranks: (ranks - 1) * size * itemsize // ranks,
            "That would do if elements could be cut in two: you share the exact size out. Padding makes all "
            "chunks as long as the longest.",
        ),
        Mistake(
            lambda size, itemsize, ranks: ranks * (ranks - 1) * -(-size // ranks) * itemsize,
            "That is what all ranks send together; the question is about one of them.",
        ),
    ),
)
