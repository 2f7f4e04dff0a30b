"""Exercise: find the smallest size at which a given reconstruction fails, then mend it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from shardviz.core.errors import ShardvizError
from shardviz.core.spec import parse
from shardviz.lessons.boards import Row, board
from shardviz.lessons.exercise import Finding
from shardviz.lessons.exercises import unshuffle
from shardviz.lessons.exercises.given_reconstructions import VARIANTS, shards
from shardviz.lessons.facts import fsdp_over_tp, held
from shardviz.lessons.questions import Ask
from shardviz.lessons.running import PATIENCE
from shardviz.lessons.values import plain, value_text
from shardviz.picture import Picture

LARGEST = 40
"""The largest size that is looked at."""


def pose(random: Random) -> dict[str, Any]:
    """One of the functions, with a mesh on which it goes wrong."""
    function, dp, tp = random.choice(VARIANTS)
    return {"reconstruct": function, "shards": shards, "dp": dp, "tp": tp}


def fails(given: dict[str, Any], size: int) -> bool:
    """Whether the given function does not bring a tensor of this size back."""
    reconstruct, dp, tp = given["reconstruct"], given["dp"], given["tp"]
    return bool(reconstruct(shards(size, dp, tp), size, dp, tp) != list(range(size)))


def right(given: dict[str, Any]) -> int:
    """The smallest size, by trying."""
    return next(size for size in range(LARGEST) if fails(given, size))


def words(given: dict[str, Any]) -> dict[str, Any]:
    """The function's text, under the name that it has in the exercise."""
    source = inspect.getsource(given["reconstruct"]).replace(given["reconstruct"].__name__, "reconstruct")
    return {"source": source.strip(), "dp": given["dp"], "tp": given["tp"]}


CORRECTED = replace(unshuffle.EXERCISE, id="corrected", signature="corrected(pieces, size, dp, tp):")


@dataclass(frozen=True, kw_only=True)
class Bug(Ask):
    """Answered twice: with a size, or a spec of that size, and with a corrected function, which solves it."""

    def judge(self, answer: Any, seed: str, patience: float = PATIENCE) -> Finding:
        """A function is run on the cases of the unshuffle; anything else is taken for the size."""
        if callable(answer):
            finding = CORRECTED.judge(answer, seed, patience)
            return replace(finding, sentence=finding.sentence.replace("Right, on", "Mended: right on"))
        given = self.given(seed)
        if isinstance(answer, str):
            try:
                answer = parse(answer).shape[0]
            except (ShardvizError, IndexError) as error:
                return Finding("not yet", f"That is no spec of a tensor: {error}")
        size = plain(answer)
        if size is None or size is ...:
            return Finding("stub", "name the smallest size at which it fails; then write `corrected`.")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            return Finding("not yet", f"A size is a whole number of elements; this is {value_text(size)}.")
        return self._judge_size(given, size)

    def _judge_size(self, given: dict[str, Any], size: int) -> Finding:
        if size > LARGEST or not fails(given, size):
            return Finding(
                "not yet", f"With {size} elements on dp={given['dp']}, tp={given['tp']} everything comes back in order."
            )
        if size > right(given):
            return Finding("not yet", f"It fails with {size} elements, that is true. But it fails with fewer, too.")
        sentence = (
            f"Found: {size} elements is the smallest. Now write `corrected`, which is right for all sizes, and check that."
        )
        return Finding("so far", sentence, picture=_failure(given, size))


def _failure(given: dict[str, Any], size: int) -> Picture | None:
    reconstruct, dp, tp = given["reconstruct"], given["dp"], given["tp"]
    came = plain(reconstruct(shards(size, dp, tp), size, dp, tp))
    hues = {i: rank % 8 for rank, part in enumerate(held(fsdp_over_tp(size, dp, tp))) for i in part}
    return board(f"What it makes of {size} elements", [Row("result", list(range(size)), came)], True, hues, "what comes")


EXERCISE = Bug(
    id="find-the-bug",
    notebook=4,
    title="find the bug",
    text="""
Somebody wrote this to put the pieces of a tensor under FSDP2 over TP together again. It passed all their tests.

```
{source}
```

1. What is the **smallest size** at which it goes wrong on dp={dp}, tp={tp}? Check that number first.
2. Then check a function `corrected(pieces, size, dp, tp)` that is right for all sizes. In its cases padding holds
   anything, as in `unshuffle`.
""",
    machine="""
`given = lessons.given("find-the-bug")` has the function as `given["reconstruct"]`, and `given["shards"](size, dp, tp)`
makes the padded pieces of elements 0 … size - 1.
""",
    stub="""
smallest = ...


def corrected(pieces, size, dp, tp):
    raise NotImplementedError
""",
    hints=(
        "Its docstring says what its author believed. For which sizes is that belief true? Try those for which it is not.",
        "Let the computer look: for every size, is `reconstruct(shards(size, dp, tp), size, dp, tp)` equal to "
        "`list(range(size))`?",
        "Corrected: what of piece `d * tp + t` is real is chunk d of dp of chunk t of tp of the size. You wrote "
        "that in `unshuffle`.",
    ),
    pose=pose,
    words=words,
    right=right,
    done="A test with sizes that divide finds none of these. The first one that does not, does.",
)
