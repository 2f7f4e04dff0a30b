"""Exercise: the mean of values that are spread unevenly."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import chunks
from shardviz.lessons.functions import Code


def right(shards: list[list[float]]) -> float:
    """The sum of all sums by the sum of all counts."""
    return sum(map(sum, shards)) / sum(map(len, shards))


def generate(random: Random) -> Iterator[tuple[list[list[float]]]]:
    """Chunks of one to thirteen values on up to eight ranks: full, short and empty ones."""
    for ranks in (1, 2, 3, 4, 8):
        for size in (1, 2, 3, 5, 6, 9, 13):
            yield (chunks([float(random.randrange(20)) for _ in range(size)], ranks),)


def mean_of_means(shards: list[list[float]]) -> float:
    """The mean of each rank, and of those the mean, empty ranks left out."""
    means = [sum(shard) / len(shard) for shard in shards if shard]
    return sum(means) / len(means)


EXERCISE = Code(
    id="uneven-mean",
    notebook=7,
    title="a mean over uneven shards",
    text="""
Every rank has some values of a loss; nothing divides, so they have different numbers of them, and some have none. What
is the mean over **all** values, on all ranks?

The ranks may meet in one all-reduce, which adds up one short list of numbers per rank, position by position. So decide
what each rank contributes, and what is made of the sums. There is at least one value somewhere.
""",
    signature="uneven_mean(shards):",
    stub="""
def uneven_mean(shards):
    raise NotImplementedError
""",
    hints=(
        "Would the mean of the ranks' means do? Try it with `[[1.0, 1.0, 1.0], [5.0]]`.",
        "A rank with more values has to weigh more. What has every rank to tell, beside its sum?",
        "Each rank contributes `[sum(shard), len(shard)]`. The all-reduce adds both up, and one division is left.",
    ),
    right=right,
    examples=(([[1.0, 1.0, 1.0], [5.0], []],),),
    generate=generate,
    done="Sums and counts can be added up across ranks; means cannot. Training goes wrong by a little, and nobody is told.",
    mistakes=(
        Mistake(
            mean_of_means,
            "That is the mean of the ranks' means: a single value on a short rank weighs as much as all of a full"
            " one's. Sums and counts add up; means do not.",
        ),
        Mistake(
            lambda shards: sum(sum(shard) / len(shard) if shard else 0.0 for shard in shards) / len(shards),
            "That is the mean of the ranks' means, with 0 for an empty rank: it weighs every rank alike, and an"
            " empty one as if it had a value of 0.",
        ),
        Mistake(
            lambda shards: sum(map(sum, shards)) / (len(shards) * max(map(len, shards))),
            "You divide by all slots, padding included. Padding is no value; count what is there.",
        ),
        Mistake(
            lambda shards: sum(map(sum, shards)) / len(shards),
            "You divide by the number of ranks. A mean divides by the number of values.",
        ),
    ),
)
