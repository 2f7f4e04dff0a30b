"""Exercise: cut by tensor parallelism first, then by FSDP2."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.lessons import facts
from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.functions import Code
from shardviz.picture import Picture

Parts = dict[tuple[int, int], list[Any]]


def right(elements: list[Any], dp: int, tp: int) -> Parts:
    """What the core's layout says of each coordinate."""
    return {
        (rank.coordinate[0], rank.coordinate[1]): [elements[i] for i in facts.listed(rank.runs[0])]
        for rank in facts.fsdp_over_tp(len(elements), dp, tp)
    }


def generate(random: Random) -> Iterator[tuple[list[int], int, int]]:
    """Small sizes on small meshes."""
    for size in range(14):
        for dp, tp in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (2, 3), (4, 2)):
            yield random.sample(range(10, 100), size), dp, tp


def dp_first(elements: list[Any], dp: int, tp: int) -> Parts:
    """The cuts in the order of the mesh."""
    return {(d, t): part for d, row in enumerate(facts.chunks(elements, dp)) for t, part in enumerate(facts.chunks(row, tp))}


def left_to_right(elements: list[Any], dp: int, tp: int) -> Parts:
    """A strided cut by dp, then a plain one by tp: how torch's `_StridedShard` splits."""
    rows = [facts.chunks(piece, dp) for piece in facts.chunks(elements, tp)]
    joined = [[e for piece in rows for e in piece[d]] for d in range(dp)]
    return {(d, t): part for d in range(dp) for t, part in enumerate(facts.chunks(joined[d], tp))}


def even(elements: list[Any], dp: int, tp: int) -> Parts:
    """Even spreads, in the right order."""
    columns = facts.split_by(elements, facts.even_sizes(len(elements), tp))
    parts = [facts.split_by(column, facts.even_sizes(len(column), dp)) for column in columns]
    return {(d, t): parts[t][d] for d in range(dp) for t in range(tp)}


def picture(case: tuple[list[Any], int, int], target: Parts, yours: Any) -> Picture | None:
    """What every coordinate holds."""
    if yours is not None and not isinstance(yours, dict):
        return None
    elements, dp, tp = case
    answered = {} if yours is None else yours
    parts = {place: part if isinstance(part := answered.get(place), list) else None for place in target}
    rows = [Row(f"dp {d} · tp {t}", part, parts[d, t]) for (d, t), part in target.items()]
    return board(f"{len(elements)} elements on dp={dp}, tp={tp}, FSDP2 over TP", rows, yours is not None)


EXERCISE = Code(
    id="fsdp-over-tp",
    notebook=3,
    title="FSDP2 over TP",
    text="""
A parameter is cut twice. Tensor parallelism comes **first**: it cuts the list into `tp` chunks, one for each tp
coordinate. Then FSDP2 takes what it finds on each of them and cuts **that** into `dp` chunks. Both cut by torch's chunk
rule.

Give what every coordinate of the mesh holds, as a dict from `(dp coordinate, tp coordinate)` to a list.
""",
    signature="fsdp_over_tp(elements, dp, tp):",
    stub="""
def fsdp_over_tp(elements, dp, tp):
    raise NotImplementedError
""",
    hints=(
        "Write a small function for one cut first: `chunk(items, count, i)`, the i-th of `count` chunks of a list.",
        "Two calls, one inside the other. Which is inside: the cut that comes first, or the one that comes second?",
        "`chunk(chunk(elements, tp, t), dp, d)` for every d and t. The keys are `(d, t)`: the mesh names dp "
        "first, though tp cuts first.",
    ),
    right=right,
    examples=(([10, 11, 12, 13, 14], 2, 2),),
    generate=generate,
    draw=picture,
    done="The mesh says dp, tp; the knife says tp, dp. The strided shard exists to keep the two apart.",
    mistakes=(
        Mistake(
            dp_first,
            "You cut by dp first, in the order of the mesh. When FSDP2 arrives, tp has cut already: the order of "
            "the cuts is not the order of the mesh.",
        ),
        Mistake(
            left_to_right,
            "That is the left-to-right reading: a strided cut by dp, then tp. It is what torch's own split of a "
            "strided shard does, and it parts "
            "from what FSDP2 leaves on the ranks where sizes do not divide.",
        ),
        Mistake(
            even,
            "The order is right; the sizes are those of an even spread. Each cut fills full chunks of ⌈size / "
            "ranks⌉ from the front.",
        ),
        Mistake(
            lambda elements, dp, tp: {(t, d): part for (d, t), part in right(elements, dp, tp).items()},
            "The parts are right, the keys are turned round: a coordinate is `(dp, tp)`, in the order of the mesh.",
        ),
    ),
)
