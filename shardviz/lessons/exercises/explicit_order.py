"""Exercise: decode split factors into the order of the cuts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import prod
from random import Random
from typing import Any

from shardviz.core.order import cutting_order
from shardviz.core.placements import Placement, Replicate, StridedShard
from shardviz.core.spec import Spec
from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.functions import Code
from shardviz.picture import Picture

Case = tuple[list[Any], list[int]]


def right(factors: list[int | None], sizes: list[int]) -> list[int] | None:
    """The core's decoder."""
    placements: list[Placement] = [Replicate() if factor is None else StridedShard(0, factor) for factor in factors]
    order = cutting_order(Spec((1,), sizes, placements), 0)
    return None if order is None else list(order)


def generate(random: Random) -> Iterator[Case]:
    """Every order of up to three cuts, with and without a replica between them, and factors that fit nowhere."""
    for sizes in ([2], [2, 3], [4, 2], [2, 2, 2], [2, 3, 4], [3, 2, 2]):
        for order in permutations(range(len(sizes))):
            factors = [
                prod(sizes[other] for other in order[: order.index(mesh_dim)] if other > mesh_dim)
                for mesh_dim in range(len(sizes))
            ]
            yield factors, sizes
            at = random.randrange(len(sizes) + 1)
            yield [*factors[:at], None, *factors[at:]], [*sizes[:at], random.choice([2, 3]), *sizes[at:]]
    yield from ((list(factors), [2, 2, 2]) for factors in product((1, 2, 3, 4), (1, 2, 4), (1, 2)))
    yield [None, None], [2, 2]


def whole_row(factors: list[int | None], sizes: list[int]) -> list[int]:
    """The order of the mesh."""
    return [mesh_dim for mesh_dim, factor in enumerate(factors) if factor is not None]


def backwards(factors: list[int | None], sizes: list[int]) -> list[int]:
    """The order of the mesh, from right to left."""
    return whole_row(factors, sizes)[::-1]


def by_factor(factors: list[int | None], sizes: list[int]) -> list[int]:
    """Small factors first; among equals, the one further right."""
    return sorted(backwards(factors, sizes), key=lambda mesh_dim: factors[mesh_dim] or 0)


def picture(case: Case, target: list[int] | None, yours: Any) -> Picture | None:
    """The mesh dimensions in their order."""
    if target is None or (yours is not None and not isinstance(yours, list)):
        return None
    title = f"Factors {case[0]} on sizes {case[1]}"
    return board(
        title, [Row("cuts, first to last", target, yours)], yours is not None, {place: place % 8 for place in range(9)}
    )


EXERCISE = Code(
    id="explicit-order",
    notebook=5,
    title="the order in the factors",
    text="""
A tensor dimension is cut by several mesh dimensions. The placements stand in the order of the mesh; in which order the
cuts were **made** is hidden in their split factors: the factor says in how many pieces the dimension already was,
counting only cuts by mesh dimensions further to the right.

`factors` has one entry per mesh dimension: 1 for a plain `Shard`, more for a strided one, `None` where the mesh
dimension does not cut at all. `sizes` are the sizes of the mesh dimensions. Give the mesh dimensions that cut, first
cut first.

The way to decode it: begin with an empty order, and take the cutting mesh dimensions from the **right to the left**.
Insert each at the first place of the order at which the product of the sizes before it is its factor. If there is no
such place, the factors decode to no order: give `None`.
""",
    signature="explicit_order(factors, sizes):",
    stub="""
def explicit_order(factors, sizes):
    raise NotImplementedError
""",
    hints=(
        "Do `[2, 1]` on sizes `[4, 2]` by hand. Dimension 1 comes first: the order is empty, the product before "
        "is 1, it fits. Then dimension 0, whose factor is 2: before dimension 1, or after it?",
        "The places at which something can be inserted are 0 to len(order). Before place p the product is that of"
        " `sizes[m] for m in order[:p]`; before place 0 it is 1.",
        "For each mesh dimension: `for p in range(len(order) + 1): if prod(sizes[m] for m in order[:p]) == "
        "factor: order.insert(p, dim); break`, and an `else: return None` for the loop.",
    ),
    right=right,
    examples=(([2, 1], [4, 2]), ([1, 2, 1], [2, 2, 2]), ([3, 1], [4, 2])),
    generate=generate,
    draw=picture,
    done="That is how torch itself decodes a strided shard, since 2.10.",
    mistakes=(
        Mistake(whole_row, "That is the order of the mesh. The factors are there because the cuts were made in another one."),
        Mistake(
            backwards,
            "You always go from right to left. That is right for FSDP2 over TP, but a factor of 1 puts a cut at the front.",
        ),
        Mistake(
            by_factor,
            "Sorting by the factor is not enough: it says how many pieces there were, not which place that is, "
            "and some factors fit nowhere.",
        ),
        Mistake(
            lambda factors, sizes: right(factors, sizes) or [],
            "Where no place fits, the answer is `None`: an empty list would say that nothing cuts.",
        ),
    ),
)
