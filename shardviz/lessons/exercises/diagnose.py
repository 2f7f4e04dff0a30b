"""Exercise: from a symptom to its cause."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from shardviz.lessons.exercise import Mistake
from shardviz.lessons.questions import Ask


@dataclass(frozen=True)
class Ailment:
    """A symptom as somebody tells it, what causes it, and the museum's card of it."""

    symptom: str
    cause: str
    card: str


AILMENTS = (
    Ailment(
        "We saved, loaded into the same job, and there was no error. The last row of one weight is what it was before loading.",
        "The offsets in the metadata were read from left to right: two ranks were reported with each other's "
        "shard, so that one promises a row which it does not store.",
        "checkpoint-loses-an-element",
    ),
    Ailment(
        "Training runs for hours. Then the first save is refused: overlapping chunks.",
        "The offsets in the metadata were read from left to right, and the wrongly reported shards are not empty:"
        " their stretches overlap, and that is noticed.",
        "vocabulary-cannot-be-saved",
    ),
    Ailment(
        "We loaded pretrained weights on the meta device, by a broadcast from rank 0. It trains, but on half of "
        "the ranks some rows are their neighbours'.",
        "Each rank cuts its rows out of the broadcast tensor at the offset that torch reports, and that one is wrong.",
        "pretrained-rows-shifted",
    ),
    Ailment(
        "The exported safetensors file has one row more than the model, and a zero in it.",
        "The exporter lays shards of the reported sizes one behind the other; one of them was promised and is empty.",
        "export-grows-a-row",
    ),
    Ailment(
        "Clipping by the infinity norm hangs. One rank has an exception, the others wait.",
        "A rank that holds nothing has no maximum: it raises, and never enters the collective that the others are in.",
        "inf-norm-hangs",
    ),
    Ailment(
        "On an old torch, gathering six elements from four ranks gives 0, 1, 2, 0, 3, 5: an element is gone, a "
        "zero is there twice.",
        "Each row of the mesh was believed to hold what the plain chunk rule gives it, with its padding at the end. One "
        "row was longer, and another had padding in the middle.",
        "reconstruction-repeats-a-zero",
    ),
    Ailment(
        "full_tensor() of a fused gate-and-up weight is wrong, although every size divides.",
        "FSDP2 was put over a lone strided shard: the factors decode to no order of cuts, and are gathered as if they did.",
        "packed-gate-and-up",
    ),
    Ailment(
        "We built a tensor of ten rows from the ranks' own 3, 3, 3 and 1 rows. Three ranks say it has twelve "
        "rows, and one says four.",
        "Without a shape, each rank multiplies its own size by the number of ranks.",
        "from-local-without-shape",
    ),
    Ailment(
        "A two-layer MLP of width 5 under tensor parallelism raises in its forward pass: 6 columns do not fit 5 rows.",
        "The layer's output was taken for evenly cut, so that every rank was believed to have as much as the first one.",
        "uneven-tp-forward",
    ),
    Ailment(
        "A tool merged the shards of a vector of ones. The result is eight times too short.",
        "Equal values on all ranks were taken for a replica.",
        "replica-or-shard",
    ),
)


def pose(random: Random) -> dict[str, Any]:
    """Three symptoms, and five causes by letter."""
    chosen = random.sample(AILMENTS, 5)
    causes = dict(zip("ABCDE", random.sample(chosen, 5), strict=True))
    return {
        "symptoms": {number: one.symptom for number, one in enumerate(chosen[:3], 1)},
        "causes": {letter: one.cause for letter, one in causes.items()},
    }


def right(given: dict[str, Any]) -> dict[int, str]:
    """The letter of each symptom's cause."""
    causes = {one.symptom: one.cause for one in AILMENTS}
    letters = {cause: letter for letter, cause in given["causes"].items()}
    return {number: letters[causes[symptom]] for number, symptom in given["symptoms"].items()}


def words(given: dict[str, Any]) -> dict[str, str]:
    """Symptoms and causes as lists."""
    return {
        "symptoms": "\n".join(f"{number}. “{symptom}”" for number, symptom in given["symptoms"].items()),
        "causes": "\n".join(f"- **{letter}**: {cause}" for letter, cause in given["causes"].items()),
    }


EXERCISE = Ask(
    id="diagnose",
    notebook=11,
    title="diagnose",
    text="""
Three people come with these symptoms:

{symptoms}

And these are the causes that were found; two of them are other people's:

{causes}

Which cause belongs to which symptom? Answer with a letter for each number.
""",
    machine="""
Hand over a dict, the letter under its number. The museum's cards may help: `shardviz.checks.museum.cards()`, or
`shardviz museum --list`.
""",
    stub="""
answer = {1: ..., 2: ..., 3: ...}
""",
    hints=(
        "Ask of each symptom first: is it about saving, loading, gathering, or a collective that waits? That "
        "rules out most causes.",
        "Does anything raise, or wait? A cause that lets a rank stop, or two shards overlap, is noticed. A wrong"
        " offset, size or order alone is not: there is no error, only other values.",
        "Start from a cause, and ask what it would do: offsets move rows, sizes make a tensor too long or too short,"
        " an order of cuts mixes rows even where everything divides.",
    ),
    pose=pose,
    words=words,
    right=right,
    done="Every one of these is a card of the museum; `sv.museum` runs them on your torch.",
    mistakes=(
        Mistake(
            lambda given: dict(zip(right(given), sorted(right(given).values(), reverse=True), strict=True)),
            "The three causes are the right ones; they are not with their symptoms.",
        ),
    ),
)
