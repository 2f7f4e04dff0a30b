"""Exercise: on which ranks torch's report is not what they hold."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random

from shardviz.core.compare import report_difference
from shardviz.core.layout import layout
from shardviz.core.trace import Report, start
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.questions import Ask
from shardviz.picture import Picture, draw

SHOWN = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
"""The tensor that the notebook itself shows."""


def pose(random: Random) -> str:
    """A tensor on at most eight ranks that torch 2.10 to 2.15 report wrongly."""
    return random.choice(_wrong())


@cache
def _wrong() -> tuple[str, ...]:
    meshes = ((3, 2), (4, 2))
    specs = (f"[{size}] on dp={dp}, tp={tp}: _S(0, {tp}), S(0)" for (dp, tp), size in product(meshes, range(5, 40)))
    return tuple(spec for spec in specs if right(spec) and spec != SHOWN)


def right(given: str) -> frozenset[int]:
    """What is held is read in sharding order; what torch reports, from left to right."""
    holds, reports = layout(given, "sharding-order"), layout(given, "left-to-right")
    wrong = set()
    for buffer, said in zip(start(holds), reports, strict=True):
        if report_difference(holds.spec.shape, buffer, Report(said.rank, said.shape, said.offset)):
            wrong.add(said.rank)
    return frozenset(wrong)


def empty(given: str) -> frozenset[int]:
    """The ranks that hold nothing."""
    return frozenset(rank.rank for rank in layout(given) if not rank.numel)


def shorter(given: str) -> frozenset[int]:
    """The ranks that hold fewer elements than rank 0."""
    holds = layout(given)
    return frozenset(rank.rank for rank in holds if rank.numel < holds[0].numel)


def picture(given: str) -> Picture:
    """What the ranks hold."""
    return draw(layout(given))


EXERCISE = Ask(
    id="who-is-reported-wrongly",
    notebook=6,
    title="who is reported wrongly?",
    text="""
The picture shows what the ranks hold of `{spec}`. Torch 2.10 to 2.15 **report** something else for some of them: they
read the same placements from left to right.

On which ranks does the report differ, in shape or in offset? Answer with a list of ranks.
""",
    machine="""
Find out as you like: by asking real ranks (`ranks.run(spec)` with `spec = lessons.given("who-is-reported-wrongly")`,
then `sv.draw_held`), or by arithmetic (`sv.layout(spec, "left-to-right")`).
""",
    stub="""
answer = ...  # a list of ranks
""",
    hints=(
        "A report is two numbers per rank, shape and offset. The picture has what is held; what is missing is the"
        " same by the other reading.",
        '`print(sv.layout(spec))` beside `print(sv.layout(spec, "left-to-right"))`: compare line by line.',
        "A wrong report comes in company: what one rank is said to hold is held by another, which is reported wrongly too.",
    ),
    pose=pose,
    words=lambda given: {"spec": given},
    draw=picture,
    right=right,
    done="A checkpoint believes the report, and stores a row where nobody will look for it.",
    mistakes=(
        Mistake(
            lambda given: frozenset(),
            "On torch 2.10 to 2.15 some report is wrong here: compare shape and offset rank by rank.",
        ),
        Mistake(
            empty,
            "Those are the ranks that hold nothing. That is no fault in itself; and whoever holds what they are "
            "said to hold is reported wrongly too.",
        ),
        Mistake(shorter, "Those are the ranks with less than a full chunk. Most of them are reported rightly."),
    ),
)
