"""Exercise: who holds an element, and where?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from shardviz.core.layout import layout
from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Beyond, Mistake
from shardviz.lessons.facts import fsdp_over_tp, held, owner_of
from shardviz.lessons.functions import Code
from shardviz.picture import Picture

Case = tuple[int, int, int, int]


def right(element: int, size: int, dp: int, tp: int) -> tuple[int, int]:
    """From the core's layout."""
    return owner_of(fsdp_over_tp(size, dp, tp), element)


def generate(random: Random) -> Iterator[Case]:
    """All elements of small tensors, and some of large ones."""
    for dp, tp in ((1, 1), (1, 3), (3, 1), (2, 2), (3, 2), (4, 2), (2, 3)):
        for size in (1, 2, 5, 6, 7, 9, 13):
            yield from ((element, size, dp, tp) for element in {0, size - 1, random.randrange(size)})
    for _ in range(8):
        size = random.randrange(1000, 20_000)
        yield random.randrange(size), size, random.randrange(2, 65), random.randrange(2, 9)


def full_columns(element: int, size: int, dp: int, tp: int) -> tuple[int, int]:
    """As if every chunk of tp were full."""
    full = -(-size // tp)
    d, local = divmod(element % full, -(-full // dp))
    return d * tp + element // full, local


def picture(case: Case, target: tuple[int, int], yours: Any) -> Picture | None:
    """Every rank, with the element in question where it is said to be."""
    element, size, dp, tp = case
    drawable = isinstance(yours, list) and len(yours) == 2 and all(type(n) is int for n in yours)
    if size > 24 or (yours is not None and not drawable):
        return None
    parts = held(fsdp_over_tp(size, dp, tp))
    rows = [Row(f"rank {rank}", [i for i in part if i == element]) for rank, part in enumerate(parts)]
    if yours is not None:
        rows = [Row(row.name, row.target, [element] if rank == yours[0] else []) for rank, row in enumerate(rows)]
    return board(f"Where is element {element} of {size} on dp={dp}, tp={tp}?", rows, yours is not None)


EXERCISE = Code(
    id="owner",
    notebook=5,
    title="who holds it?",
    text="""
A dimension of `size` elements on a dp × tp mesh, tp cut first and FSDP2 over it. Which rank holds an element, and at
which place of its local tensor?

Give the rank and the local index. Ranks count through the mesh row by row: `rank = d * tp + t`.
""",
    signature="owner(element, size, dp, tp):",
    stub="""
def owner(element, size, dp, tp):
    raise NotImplementedError
""",
    hints=(
        "One cut first. Chunks of tp begin at 0, full, 2 × full, …: in which of them is the element, and at which place?",
        "`divmod(element, full)` is both: the number of the chunk and the place in it. Then the same with that "
        "place and the second cut.",
        "For the second cut you need the length of the chunk that the element is in: `min(full, size - t * "
        "full)`. Its full chunks have ⌈length / dp⌉ elements.",
    ),
    right=right,
    examples=((4, 5, 2, 2), (3, 5, 2, 2)),
    generate=generate,
    draw=picture,
    beyond=Beyond(
        (7_999_999_999_999, 8_000_000_000_000, 128, 8),
        "Even the last of eight trillion elements: two divisions, no list.",
        "Target to beat: find the last of eight trillion elements. Two divisions do it, without a list.",
    ),
    done="The index lens, in two divisions.",
    mistakes=(
        Mistake(
            lambda element, size, dp, tp: (
                (place := right(element, size, dp, tp))[0] % tp * dp + place[0] // tp,
                place[1],
            ),
            "The coordinates are right; the rank is numbered as if tp were the outer mesh dimension. It is `d * tp + t`.",
        ),
        Mistake(
            lambda element, size, dp, tp: divmod(element, -(-size // (dp * tp))),
            "You cut once into dp × tp chunks, in the order of the ranks. There are two cuts, and tp comes first.",
        ),
        Mistake(
            lambda element, size, dp, tp: owner_of(layout(f"[{size}] on dp={dp}, tp={tp}: S(0), S(0)"), element),
            "You cut by dp first. FSDP2 comes second: it cuts what tp left.",
        ),
        Mistake(
            full_columns,
            "You take every chunk of tp to be full. The last one with anything in it may be shorter, and then its"
            " own chunks are too.",
        ),
        Mistake(
            lambda element, size, dp, tp: (right(element, size, dp, tp)[0], element),
            "The rank is right. The second number is the place in that rank's own tensor, which begins at 0.",
        ),
    ),
)
