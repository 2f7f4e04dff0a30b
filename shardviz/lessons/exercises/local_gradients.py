"""Exercise: what padded rows do to a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from shardviz.lessons.exercise import Mistake
from shardviz.lessons.functions import Code

Case = tuple[list[int], int, int, int]


def right(rows: list[int], held: int, w: int, b: int) -> tuple[int, int]:
    """Over the rows that are held."""
    out = [w * x + b for x in rows[:held]]
    return sum(y * x for y, x in zip(out, rows, strict=False)), sum(out)


def generate(random: Random) -> Iterator[Case]:
    """Rows that are zero too, and as many rows of padding as there can be."""
    for slots in range(6):
        for held in range(slots + 1):
            for _ in range(2):
                rows = [random.randrange(-3, 4) for _ in range(held)]
                yield [*rows, *[0] * (slots - held)], held, random.randrange(-3, 4), random.choice([-2, -1, 1, 2, 3])


EXERCISE = Code(
    id="local-gradients",
    notebook=7,
    title="what padding does to a gradient",
    text="""
A rank has a short batch, so its rows were padded with zeros: `rows` are all slots, of which the first `held` are real.
Its layer gives `y = w * x + b` for a row x, and the loss is the sum of `y * y / 2` over the rows.

Give the rank's part of the two gradients, `(dw, db)`: of each **real** row, `y * x` goes into dw and `y` goes into db.
""",
    signature="local_gradients(rows, held, w, b):",
    stub="""
def local_gradients(rows, held, w, b):
    raise NotImplementedError
""",
    hints=(
        "What does a row of padding give, x = 0? Put it into `y = w * x + b`, and then into both gradients.",
        "A row of zeros is harmless in dw, and adds b to db. So padded rows have to be left out, by their number:"
        " a real row may be 0 too.",
        "`real = rows[:held]`, then `sum((w * x + b) * x for x in real)` and `sum(w * x + b for x in real)`.",
    ),
    right=right,
    examples=(([2, 0, 0], 2, 3, 1),),
    generate=generate,
    done="Zeros as padding are harmless only as long as there is no bias.",
    mistakes=(
        Mistake(
            lambda rows, held, w, b: right(rows, len(rows), w, b),
            "Your dw is right, your db counts the padding: a row of zeros still gives y = b, and that goes into db.",
        ),
        Mistake(
            lambda rows, held, w, b: right([x for x in rows if x], len([x for x in rows if x]), w, b),
            "You leave out every row that is 0. A real row may be 0, and it belongs into db; how many are real says `held`.",
        ),
        Mistake(
            lambda rows, held, w, b: tuple(part / max(held, 1) for part in right(rows, held, w, b)),
            "You take the mean over the rank's rows. The loss is a sum; the ranks have different numbers of rows,"
            " so means would not add up.",
        ),
        Mistake(lambda rows, held, w, b: right(rows, held, w, b)[::-1], "The two are turned round: dw first, then db."),
    ),
)
