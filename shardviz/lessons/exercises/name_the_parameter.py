"""Exercise: which parameters of a model lose rows on a mesh?"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from shardviz.core.readings import differing_readings
from shardviz.core.spec import Spec, parse
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.questions import Ask


def pose(random: Random) -> dict[str, Any]:
    """A small model: one or two of its parameters lose rows, and others look as odd."""
    while True:
        dp, tp = random.choice([3, 4, 5, 6]), random.choice([2, 2, 3, 4])
        hidden, odd, words, heads = (random.randrange(9, 60) for _ in range(4))
        shapes = {
            "embed.weight": ((words, 8), "_S(0, {tp}), S(0)"),
            "attention.query.weight": ((heads * tp, hidden), "_S(0, {tp}), S(0)"),
            "attention.out.weight": ((hidden, odd), "S(0), S(1)"),
            "mlp.up.weight": ((odd, hidden), "_S(0, {tp}), S(0)"),
            "mlp.up.bias": ((odd,), "_S(0, {tp}), S(0)"),
            "mlp.down.weight": ((hidden, odd), "S(0), S(1)"),
            "norm.weight": ((hidden,), "S(0), R"),
        }
        specs = {
            name: str(Spec(shape, {"dp": dp, "tp": tp}, placements.format(tp=tp)))
            for name, (shape, placements) in shapes.items()
        }
        if len(right(specs)) in (1, 2) and suspicious(specs) != right(specs) and hidden % tp:
            return specs


def right(given: dict[str, str]) -> frozenset[str]:
    """Those whose readings part."""
    return frozenset(name for name, spec in given.items() if _parts(spec))


@cache
def _parts(spec: str) -> bool:
    """Whether the readings of a spec part."""
    return bool(differing_readings(spec))


def suspicious(given: dict[str, str]) -> frozenset[str]:
    """Those that are cut twice along their rows, and whose rows tp does not divide."""
    return frozenset(
        name for name, text in given.items() if len((spec := parse(text)).cuts(0)) == 2 and spec.shape[0] % spec.mesh.sizes[1]
    )


def odd(given: dict[str, str]) -> frozenset[str]:
    """Those of which some size does not divide by the ranks that cut it."""
    found = set()
    for name, text in given.items():
        spec = parse(text)
        for dim in range(spec.ndim):
            ranks = 1
            for mesh_dim in spec.cuts(dim):
                ranks *= spec.mesh.sizes[mesh_dim]
            if spec.shape[dim] % ranks:
                found.add(name)
    return frozenset(found)


def words(given: dict[str, str]) -> dict[str, str]:
    """The model as a table."""
    rows = "\n".join(f"| {name} | `{spec}` |" for name, spec in given.items())
    return {"table": f"| parameter | on the ranks |\n|---|---|\n{rows}"}


EXERCISE = Ask(
    id="name-the-parameter",
    notebook=10,
    title="name the parameter",
    text="""
This model trains under FSDP2 over TP:

{table}

Which of its parameters will lose rows when it is saved, or be refused, because what torch reports (left to right) is
not what the ranks hold (sharding order)? Answer with a list of names.
""",
    machine="""
`lessons.given("name-the-parameter")` has the table as a dict. Judge by eye first; then ask
`sv.differing_readings(spec)` or `sv.audit(spec)`.
""",
    stub="""
answer = ...  # a list of names
""",
    hints=(
        "The trouble needs two cuts along one dimension, in another order than the mesh's. Which parameters have "
        "a strided shard at all?",
        "Where tp divides the rows, all is well. Where it does not, it may go wrong, and need not.",
        "`[name for name, spec in given.items() if sv.differing_readings(spec)]`, with `given = "
        'lessons.given("name-the-parameter")`.',
    ),
    paper=False,
    pose=pose,
    words=words,
    right=right,
    done="Not dividing is a suspicion; only the two readings, side by side, are a verdict.",
    mistakes=(
        Mistake(
            odd,
            "You name all that does not divide. Uneven alone is harmless: it takes a dimension that is cut twice,"
            " in another order than the mesh's.",
        ),
        Mistake(
            suspicious,
            "These are all suspects: cut twice along their rows, and tp does not divide them. Not every one of "
            "them is guilty; compare the readings.",
        ),
        Mistake(lambda given: frozenset(), "Something is lost: look at the parameters with a strided shard."),
    ),
)
