"""Exercise: read a picture of ranks that are about to send."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

from shardviz.core.layout import layout
from shardviz.core.runs import is_padding
from shardviz.core.trace import Trace, buffer_text
from shardviz.core.unshuffle import unshuffle
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.facts import fsdp_over_tp, owner_of
from shardviz.lessons.questions import Ask
from shardviz.picture import Picture, draw

PADDED = 1
"""The step of the story that is shown: the first one, after the ranks padded what they hold."""


def pose(random: Random) -> dict[str, Any]:
    """A small tensor with ranks that pad, one of which holds nothing, and an element of a rank in the middle."""
    found = fsdp_over_tp(*random.choice(_shapes()))
    inner = [i for i in range(found.spec.numel) if 0 < owner_of(found, i)[0] < len(found) - 1]
    return {"spec": str(found.spec), "element": random.choice(inner)}


@cache
def _shapes() -> tuple[tuple[int, int, int], ...]:
    """Sizes on meshes of at most eight ranks, with empty ranks that pad, beside others that do."""
    found = []
    for size, (dp, tp) in product(range(4, 14), ((2, 2), (3, 2), (2, 3), (4, 2), (2, 4))):
        trace = unshuffle(fsdp_over_tp(size, dp, tp).spec)
        if trace.steps[PADDED].name.startswith("pad") and set() < _empty(trace) < _padded(trace):
            found.append((size, dp, tp))
    return tuple(found)


def _padded(trace: Trace) -> frozenset[int]:
    buffers = trace.steps[PADDED].buffers
    return frozenset(r for r, b in zip(trace.ranks, buffers, strict=True) if any(map(is_padding, b.axes[0])))


def _empty(trace: Trace) -> frozenset[int]:
    return frozenset(r for r, b in zip(trace.ranks, trace.held, strict=True) if not b.numel)


def right(given: dict[str, Any]) -> dict[str, Any]:
    """Read off the story's buffers."""
    trace = unshuffle(given["spec"])
    holder, _ = owner_of(layout(given["spec"]), given["element"])
    return {"holder": holder, "padded": _padded(trace), "empty": _empty(trace)}


def picture(given: dict[str, Any]) -> Picture:
    """Every rank after it padded, without the sentence that says which ones did."""
    trace = unshuffle(given["spec"])
    story, buffers = draw(trace), trace.steps[PADDED].buffers
    words = [f"rank {rank}: {buffer_text(buffer)}" for rank, buffer in zip(trace.ranks, buffers, strict=True)]
    return replace(story, scene=story.frames[PADDED].scene, text="\n".join([given["spec"], *words]), frames=())


EXERCISE = Ask(
    id="read-the-picture",
    notebook=1,
    title="read the picture",
    text="""
This is `{spec}`, just before the first all-gather: every rank has added padding where it must, and nothing has been
sent.

Look at the picture, and answer:

- `"holder"`: the rank that holds element {element};
- `"padded"`: a list of all ranks that added padding;
- `"empty"`: a list of all ranks that hold no element of the tensor at all.
""",
    stub="""
answer = {
    "holder": ...,  # a rank
    "padded": ...,  # a list of ranks
    "empty": ...,  # a list of ranks
}
""",
    hints=(
        "A number in a cell is the index of an element. A hatched cell is padding: it takes up room, and holds nothing.",
        "A rank has added padding if at least one of its cells is hatched, whatever else it has.",
        "A rank whose cells are all hatched holds no element. So it belongs into both lists.",
    ),
    pose=pose,
    words=lambda given: given,
    draw=picture,
    right=right,
    done="Numbers are data, hatching is padding, and a rank may be there without holding anything.",
    mistakes=(
        Mistake(
            lambda given: right(given) | {"empty": frozenset()},
            "Some rank's cells are all hatched. It sends as much as its neighbours do, and none of it is data.",
        ),
        Mistake(
            lambda given: right(given) | {"padded": right(given)["padded"] - right(given)["empty"]},
            "A rank that holds nothing pads too: all that it sends is padding.",
        ),
        Mistake(
            lambda given: right(given) | {"empty": right(given)["padded"]},
            "To have padding is not to be empty: beside its hatched cells a rank may have cells with numbers.",
        ),
    ),
)
