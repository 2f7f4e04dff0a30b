"""Exercise: a way from placements to others, within a budget of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations, product
from random import Random
from typing import Any

from shardviz.core.costs import costs
from shardviz.core.errors import ShardvizError
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import Spec, parse
from shardviz.lessons.exercise import Finding
from shardviz.lessons.questions import Ask
from shardviz.lessons.running import PATIENCE
from shardviz.lessons.values import open_parts, plain, value_text
from shardviz.picture import Picture, draw

SHAPE, MESH = (8, 8), {"dp": 2, "tp": 2}
STARTS = (
    "S(0), R",
    "R, S(0)",
    "S(1), R",
    "R, S(1)",
    "S(0), S(0)",
    "S(1), S(1)",
    "S(0), S(1)",
    "P(sum), R",
    "R, P(sum)",
    "P(sum), S(0)",
)
STATES = tuple(f"{a}, {b}" for a, b in product(("R", "S(0)", "S(1)"), repeat=2))
MOST = 6
"""The most steps of a way."""


def leg(spec: Spec, placements: str) -> tuple[int, Spec]:
    """What the rank that sends most sends on the way to other placements, in bytes, and where that leads."""
    trace = redistribute(spec, placements)
    assert trace.target is not None
    return max(costs(trace).sent), trace.target


@cache
def legs() -> dict[tuple[str, str], int]:
    """What every single step costs."""
    pairs = ((a, b) for a, b in product((*STARTS, *STATES), STATES) if a != b)
    return {(a, b): leg(Spec(SHAPE, MESH, a), b)[0] for a, b in pairs}


@cache
def ways(source: str, target: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Ways over at most two other placements, the cheapest and shortest first."""
    between = [state for state in STATES if state not in (source, target)]
    paths = [(*stops, target) for count in range(3) for stops in permutations(between, count)]
    found = [(sum(legs()[pair] for pair in pairwise((source, *path))), path) for path in paths]
    return tuple(sorted(found, key=lambda way: (way[0], len(way[1]))))


def pose(random: Random) -> dict[str, Any]:
    """Two placements between which the direct way is not the cheapest."""
    source, target = random.choice(_detours())
    direct = legs()[source, target]
    cheaper = sorted({sent for sent, _ in ways(source, target) if sent < direct})
    budget, least = cheaper[len(cheaper) // 2], cheaper[0]
    return {"spec": str(Spec(SHAPE, MESH, source)), "target": target, "direct": direct, "budget": budget, "least": least}


@cache
def _detours() -> tuple[tuple[str, str], ...]:
    pairs = [(source, target) for source, target in product(STARTS, STATES) if source != target]
    return tuple((source, target) for source, target in pairs if ways(source, target)[0][0] < legs()[source, target])


def right(given: dict[str, Any]) -> list[str]:
    """The cheapest way."""
    source = ", ".join(map(str, parse(given["spec"]).placements))
    return list(ways(source, given["target"])[0][1])


def picture(given: dict[str, Any]) -> Picture:
    """The direct way."""
    return draw(redistribute(given["spec"], given["target"]))


@dataclass(frozen=True, kw_only=True)
class Budget(Ask):
    """Any way within the budget is right; the least that is known is a target to beat."""

    def judge(self, answer: Any, seed: str, patience: float = PATIENCE) -> Finding:
        """Go the way, and count."""
        path = plain(answer)
        still = open_parts(path)
        if still is None:
            return Finding("stub", "name the placements of the way, one after the other.")
        given = self.given(seed)
        if not isinstance(path, list) or still or not all(isinstance(stop, str) for stop in path) or not 0 < len(path) <= MOST:
            return Finding(
                "not yet", f'A way is a list of 1 to {MOST} placements as text, such as `["R, R", "{given["target"]}"]`.'
            )
        try:
            return self._travelled(given, path)
        except (ShardvizError, AssertionError) as error:
            return Finding("not yet", f"That way cannot be gone: {error}.")

    def _travelled(self, given: dict[str, Any], path: list[str]) -> Finding:
        spec, legs = parse(given["spec"]), []
        for placements in path:
            sent, spec = leg(spec, placements)
            legs.append((placements, sent))
        total = sum(sent for _, sent in legs)
        told = " + ".join(f"{sent} to `{placements}`" for placements, sent in legs)
        if spec.placements != parse(given["spec"].partition(":")[0] + ": " + given["target"]).placements:
            return Finding("not yet", f"The way ends at `{', '.join(map(str, spec.placements))}`, not at `{given['target']}`.")
        if total > given["budget"]:
            known = "That is the direct way. " if len(path) == 1 else ""
            return Finding(
                "not yet",
                f"{total} bytes ({told}) are more than the budget of {given['budget']}.",
                yours=value_text(path),
                advice=f"{known}Which step sends most, and what does it send that is thrown away later?",
            )
        least = given["least"]
        won = f"Nobody here knows a cheaper way than {least} bytes."
        more = f"Target to beat: it can be done with {least} bytes."
        beaten = total <= least
        return Finding(
            "right",
            f"{total} bytes ({told}), and the budget was {given['budget']}.",
            score=won if beaten else more,
            beaten=beaten,
        )


EXERCISE = Budget(
    id="byte-budget",
    notebook=9,
    title="a byte budget",
    text="""
`{spec}` is to become `{target}`. On the direct way, drawn below, a rank sends up to **{direct} bytes** (8 bytes an element).
Your budget is **{budget} bytes**.

Give a way: a list of the placements to go through, each as text for both mesh dimensions, such as
`["R, R", "{target}"]` (which costs too much). The last is `"{target}"`. The steps' bytes add up.
""",
    machine="""
Each step costs what `sv.costs(sv.redistribute(spec, placements)).sent` says; the largest of these numbers counts.
""",
    stub="""
path = ...  # a list such as ["R, R", "S(0), R"]
""",
    hints=(
        "To cut costs nothing: a rank keeps a part of what it has. To gather costs most. What does the direct way"
        " gather that it throws away again?",
        "Where each rank wants another cut of what its group has, an all-to-all sends only what changes places: "
        "from `S(0)` to `S(1)` over one mesh dimension.",
        "Try every one of the nine placements made of `R`, `S(0)` and `S(1)` as a stop in between: nine lines of `sv.costs`.",
    ),
    paper=False,
    pose=pose,
    words=lambda given: given,
    draw=picture,
    right=right,
    done="The same bits, fewer bytes: where a tensor goes is one question, over which steps another.",
)
