"""Exercise: predict how many ranks hold nothing."""

from __future__ import annotations

from random import Random

from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import chunks
from shardviz.lessons.questions import Ask


def pose(random: Random) -> list[tuple[int, int]]:
    """Four pairs of size and ranks: one with fewer elements than ranks, two with empty ranks all the same, one without."""
    pairs = [(size, ranks) for ranks in range(3, 13) for size in range(2, 40)]
    few = [pair for pair in pairs if pair[0] < pair[1]]
    hidden = [pair for pair in pairs if pair[0] > pair[1] and _empty(*pair)]
    none = [pair for pair in pairs if pair[0] > pair[1] and pair[0] % pair[1] and not _empty(*pair)]
    chosen = [random.choice(few), *random.sample(hidden, 2), random.choice(none)]
    random.shuffle(chosen)
    return chosen


def _empty(size: int, ranks: int) -> int:
    return sum(not part for part in chunks(range(size), ranks))


def right(given: list[tuple[int, int]]) -> list[int]:
    """Counted by the core's chunk rule."""
    return [_empty(size, ranks) for size, ranks in given]


def words(given: list[tuple[int, int]]) -> dict[str, str]:
    """The pairs as a list."""
    return {"pairs": "\n".join(f"{place}. {size} elements over {ranks} ranks" for place, (size, ranks) in enumerate(given, 1))}


EXERCISE = Ask(
    id="empty-ranks",
    notebook=2,
    title="who goes away empty?",
    text="""
Without a computer: how many ranks hold **nothing**, if torch cuts

{pairs}

Answer with four numbers, in this order.
""",
    stub="""
answer = [..., ..., ..., ...]
""",
    hints=(
        "How large is a full chunk, ⌈size / ranks⌉? Deal full chunks out until the elements are gone.",
        "⌈size / full⌉ ranks get something. The others go away empty.",
        "Nine elements over eight ranks: a full chunk has 2, so ⌈9 / 2⌉ = 5 ranks get something, and 3 get nothing.",
    ),
    pose=pose,
    words=words,
    right=right,
    done="More elements than ranks is no protection: rounding up uses the elements up early.",
    mistakes=(
        Mistake(
            lambda given: [max(0, ranks - size) for size, ranks in given],
            "You count a rank as empty only where there are fewer elements than ranks. Because torch rounds up, "
            "the elements can run out "
            "early even where there are more.",
        ),
        Mistake(
            lambda given: [sum(len(part) < -(-size // ranks) for part in chunks(range(size), ranks)) for size, ranks in given],
            "You count every short rank. A short rank still holds something; the question is who holds nothing.",
        ),
        Mistake(
            lambda given: [ranks - right([(size, ranks)])[0] for size, ranks in given],
            "You count the ranks that hold something.",
        ),
    ),
)
