"""Exercise: one list of placements, three readings."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random
from typing import Any

from shardviz.core.layout import layout
from shardviz.core.readings import readings
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import owner_of
from shardviz.lessons.questions import Ask


def pose(random: Random) -> dict[str, Any]:
    """A tensor on which the readings part, and an element whose owners they dispute."""
    return random.choice(_disputed())


@cache
def _disputed() -> tuple[dict[str, Any], ...]:
    found = []
    for (dp, tp), size in product(((3, 2), (4, 2), (3, 3), (5, 2)), range(7, 24)):
        spec = f"[{size}] on dp={dp}, tp={tp}: _S(0, {tp}), S(0)"
        by_order, from_left = layout(spec), layout(spec, "left-to-right")
        disputed = [i for i in range(size) if owner_of(by_order, i)[0] != owner_of(from_left, i)[0]]
        found += [{"spec": spec, "size": size, "dp": dp, "tp": tp, "element": i} for i in disputed]
    return tuple(found)


def right(given: dict[str, Any]) -> dict[str, int]:
    """The owner by each of the core's readings."""
    return {name: owner_of(found, given["element"])[0] for name, found in readings(given["spec"]).items()}


def dp_first(given: dict[str, Any]) -> int:
    """The owner if both cuts were plain, in the order of the mesh."""
    return owner_of(layout(f"[{given['size']}] on dp={given['dp']}, tp={given['tp']}: S(0), S(0)"), given["element"])[0]


EXERCISE = Ask(
    id="one-label-three-layouts",
    notebook=3,
    title="one label, three readings",
    text="""
Torch prints `_StridedShard(dim=0, sf={tp}), Shard(dim=0)` for a tensor of {size} elements on dp={dp}, tp={tp}. Which
rank holds element {element}? That depends on who reads the label:

- `"sharding-order"`: the factor {tp} says that tp cut before dp did. So: cut into {tp} chunks by tp, then each of them
  into {dp} by dp.
- `"left-to-right"`: take the placements as they stand. dp: cut into {tp} pieces, cut each piece into {dp} chunks; dp
  coordinate d gets chunk d of every piece, one behind the other. Then tp: cut that into {tp} chunks.
- `"outer-last"`: read everything but the leftmost placement first (here a plain cut by tp), then cut by dp.

Every cut follows the chunk rule. Ranks count through the mesh row by row: rank = dp coordinate × {tp} + tp coordinate.
Answer with a rank for each reading.
""",
    stub="""
answer = {
    "sharding-order": ...,
    "left-to-right": ...,
    "outer-last": ...,
}
""",
    hints=(
        "Draw the list on paper and cut it, once for each reading. Two of the three make the same cuts here.",
        'You wrote sharding order yourself in `fsdp_over_tp`. `sv.layout(spec, "left-to-right")` computes the '
        "others: compare with your drawing.",
        'For each reading: `sv.layout(given["spec"], reading).owners((given["element"],))` with `given = '
        'lessons.given("one-label-three-layouts")`.',
    ),
    pose=pose,
    words=lambda given: given,
    right=right,
    done="The label is the same, the data is elsewhere. A checkpoint that believes the wrong reading loses rows.",
    mistakes=(
        Mistake(
            lambda given: dict.fromkeys(right(given), right(given)["sharding-order"]),
            "You give one rank for all readings. They part at this element: that is why the question is about it.",
        ),
        Mistake(
            lambda given: (
                right(given)
                | {"sharding-order": right(given)["left-to-right"], "left-to-right": right(given)["sharding-order"]}
            ),
            "Sharding order and left to right are turned round.",
        ),
        Mistake(
            lambda given: right(given) | {"left-to-right": dp_first(given)},
            "Left to right is not two plain cuts: a strided cut by dp takes a chunk of every piece.",
        ),
    ),
)
