"""Predicted stories of reconstruction, by method."""

from __future__ import annotations

from collections.abc import Sequence

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout, layout
from shardviz.core.order import explicit_order
from shardviz.core.play import ITEMSIZE, START, apply, describe, first_step
from shardviz.core.recipe import recipe
from shardviz.core.spec import Spec, as_spec
from shardviz.core.torch28 import torch_28
from shardviz.core.trace import Source, Trace, start

__all__ = ["METHODS", "unshuffle"]

METHODS = ("exact", "reverse-order", "torch-2.8")


def unshuffle(spec: Spec | str, method: str = "exact", reading: str = "auto") -> Trace:
    """Predict how the ranks put a tensor back together: local shards, then pad → all-gather → unpad → unshuffle.

    Args:
        spec: the question, or its notation.
        method: `"exact"` gathers mesh dimensions from right to left and reorders at the end, with sizes from arithmetic.
            `"reverse-order"` gathers in reverse sharding order, so that nothing is to be reordered (torch 2.11 and later).
            `"torch-2.8"` is the method as first merged (pytorch/pytorch#150490), with the sizes it believes in; it goes
            wrong where those are not what the ranks hold.
        reading: how its placements are read; see `layout`.

    Returns:
        A trace. By the first two methods its last buffers are the whole tensor on every rank.

    Raises:
        ReadingError: the reading does not apply; or the method needs a sharding order that the placements do not have.
        SpecError: there is no such method, or it is not defined for these placements.

    Example:
        >>> from shardviz.core.spec import parse
        >>> five = parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> [step.name for step in unshuffle(five).steps][4:]
        ['pad over dp', 'all-gather over dp', 'unpad', 'unshuffle']
        >>> print(unshuffle(five).steps[-2].buffers[0].axes)  # 0 1 3 2 4 before the unshuffle
        (((0, 2), (3, 4), (2, 3), (4, 5)),)
        >>> six = parse("[6] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> print(unshuffle(six, "torch-2.8").result[0].axes)  # 0 1 2 # 3 5: element 4 is lost
        (((0, 3), (-1, 0), (3, 4), (5, 6)),)
    """
    spec = as_spec(spec)
    start_layout = layout(spec, reading)
    match method:
        case "exact":
            return story(start_layout)
        case "reverse-order":
            return story(start_layout, method, gathers_in_reverse(spec))
        case "torch-2.8":
            return torch_28(start_layout)
    raise SpecError(f"there is no method {method!r}; there are {', '.join(METHODS)}")


def story(start_layout: Layout, method: str = "exact", sequence: Sequence[int] | None = None) -> Trace:
    """The predicted reconstruction of a layout by its recipe."""
    spec = start_layout.spec
    buffers = start(start_layout)
    steps = [first_step(START, buffers)]
    for operation in recipe(start_layout, sequence):
        after = apply(operation, buffers, spec)
        steps.append(describe(operation, spec, buffers, after, ITEMSIZE))
        buffers = after
    return Trace(spec, Source("predicted", notice=start_layout.note), method, tuple(steps))


def gathers_in_reverse(spec: Spec) -> tuple[int, ...]:
    """The mesh dimensions in the order in which gathering undoes the cuts, the last cut first.

    Raises:
        ReadingError: the placements decode to no sharding order.

    Example:
        >>> from shardviz.core.spec import parse
        >>> gathers_in_reverse(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))  # tp cut first, so dp is gathered first
        (0, 1)
    """
    return tuple(mesh_dim for mesh_dim, _ in reversed(explicit_order(spec).flat))
