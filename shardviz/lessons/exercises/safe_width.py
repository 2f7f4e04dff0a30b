"""Exercise: the smallest width at which nothing is lost."""

from __future__ import annotations

from functools import cache
from random import Random

from shardviz.core.readings import differing_readings
from shardviz.core.spec import Spec
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.questions import Ask

Widths = list[tuple[int, int, int]]


def is_safe(size: int, dp: int, tp: int) -> bool:
    """Whether torch's reading gives what is held."""
    return not differing_readings(Spec((size,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), S(0)"))


def safe(size: int, dp: int, tp: int) -> int:
    """The smallest safe width from this one on; a multiple of tp always is one."""
    return next(width for width in range(size, size + tp) if is_safe(width, dp, tp))


def pose(random: Random) -> Widths:
    """A small width, one whose next multiple of tp is not the smallest answer, and a vocabulary."""
    return [random.choice(cases) for cases in _unsafe()]


@cache
def _unsafe() -> tuple[Widths, Widths, Widths]:
    meshes = [(dp, tp) for dp in (3, 4, 5, 6) for tp in (2, 3, 4)]
    small = [(n, dp, tp) for dp, tp in meshes for n in range(5, 40) if not is_safe(n, dp, tp)]
    early = [case for case in small if safe(*case) % case[2]]
    large = [
        (n, dp, tp) for n in (32_001, 50_257, 128_257) for dp, tp in ((4, 2), (6, 4), (12, 4), (8, 4)) if not is_safe(n, dp, tp)
    ]
    return small, early, large


def right(given: Widths) -> list[int]:
    """By looking from each width upwards."""
    return [safe(*case) for case in given]


def multiple(size: int, of: int) -> int:
    """The next multiple."""
    return -(-size // of) * of


def words(given: Widths) -> dict[str, str]:
    """The widths as a list."""
    return {"cases": "\n".join(f"{i}. {size:,} rows on dp={dp}, tp={tp}" for i, (size, dp, tp) in enumerate(given, 1))}


EXERCISE = Ask(
    id="safe-width",
    notebook=8,
    title="the smallest safe width",
    text="""
A weight under FSDP2 over TP loses rows when it is saved, if what torch reports (left to right) is not what its ranks
hold (sharding order). Padding the weight by some rows removes that. What is the **smallest** number of rows, not below
the given one, at which the two readings agree?

{cases}

Answer with three numbers.
""",
    machine="""
`lessons.given("safe-width")` has the cases as `(rows, dp, tp)`. You may compute: `sv.differing_readings(spec)` is false where
the readings agree.
""",
    stub="""
answer = [..., ..., ...]
""",
    hints=(
        "Is the given width itself safe? If not, try the next one, and so on: it cannot take longer than to the "
        "next multiple of tp.",
        'A spec is text: `f"[{rows}] on dp={dp}, tp={tp}: _S(0, {tp}), S(0)"`.',
        "A loop: `while sv.differing_readings(spec of this width): width += 1`.",
    ),
    paper=False,
    pose=pose,
    words=words,
    right=right,
    done="A multiple of tp is always safe; sometimes less is enough. It is the cheapest cure there is.",
    mistakes=(
        Mistake(
            lambda given: [multiple(size, dp * tp) for size, dp, tp in given],
            "Multiples of dp × tp lose nothing, but fewer rows are enough: it is the smallest that is asked for.",
        ),
        Mistake(
            lambda given: [multiple(size, tp) for size, _, tp in given],
            "Multiples of tp lose nothing, and that is a good rule. But for some of these a smaller width is safe already.",
        ),
        Mistake(
            lambda given: [multiple(size, dp) for size, dp, _ in given],
            "It is not dp that must divide: tp cuts first, and the trouble begins where tp does not divide.",
        ),
        Mistake(lambda given: [size for size, _, _ in given], "These are the given widths; each of them loses something."),
    ),
)
