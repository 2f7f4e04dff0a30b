"""One element through a story, in words: from its global index to where it lies, and from a place on a rank to the element."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.runs import joined, position_of, runs_text
from shardviz.core.trace import Buffer, Step

__all__ = ["beside", "index_text", "read_element", "whereabouts"]

PLACES = 4
"""The most different places that a sentence tells one by one."""


def read_element(text: str, held: Layout) -> tuple[int, ...]:
    """The element that a text names: by its global index, or by a rank and a local index.

    Args:
        text: `7`, `7, 2`, or `rank 3: 1` for the element that rank 3 holds at local index 1.
        held: which rank holds what.

    Raises:
        SpecError: it is no index, or there is no such element.

    Example:
        >>> from shardviz.core.layout import layout
        >>> five = layout("[5] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> read_element("4", five), read_element("rank 0: 1", five)
        ((4,), (1,))
        >>> read_element("77", five)
        Traceback (most recent call last):
            ...
        shardviz.core.errors.SpecError: no element 77: the elements are 0 to 4
    """
    shape = held.spec.shape
    rank, index = _parts(text, len(shape))
    if rank is not None:
        return held.global_index(rank, index)
    if not math.prod(shape):
        raise SpecError("the tensor has no elements")
    if len(index) != len(shape) or any(not 0 <= i < size for i, size in zip(index, shape, strict=True)):
        ranges = ", ".join(f"0 to {size - 1}" for size in shape)
        known = f"the elements are {ranges}" if len(shape) == 1 else f"its {len(shape)} indices are {ranges}"
        raise SpecError(f"no element {text.strip()}: {known}")
    return index


def index_text(index: Sequence[int]) -> str:
    """An index as people type it: `7`, or `7, 2`."""
    return ", ".join(map(str, index))


def beside(index: Sequence[int], shape: Sequence[int], by: int) -> tuple[int, ...]:
    """The element so many places further in row-major order; the first and the last one are the ends.

    Example:
        >>> beside((0, 4), (3, 5), 1), beside((2, 4), (3, 5), 1)
        ((1, 0), (2, 4))
    """
    flat = 0
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return _unflat(min(max(flat + by, 0), math.prod(shape) - 1), shape)


def whereabouts(index: Sequence[int], held: Layout, step: Step, number: int) -> str:
    """Where an element lies at the start and after a step of a story.

    Args:
        index: its global index.
        held: the layout at the start.
        step: the step.
        number: the step's number, from 0.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.unshuffle import unshuffle
        >>> five = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
        >>> print(whereabouts((2,), layout(five), unshuffle(five).steps[6], 6))
        Element 2: rank 2 holds it at local index 0. After step 7 (unpad) it lies at index 3 on ranks 0-3.
    """
    owners: dict[tuple[int, ...], list[int]] = {}
    for owner in held.owners(index):
        owners.setdefault(owner.local_index, []).append(owner.rank)
    ranks = held.spec.mesh.ranks
    places: dict[tuple[int, ...], list[int]] = {}
    for rank, buffer in zip(ranks, step.buffers, strict=True):
        place = _place(index, buffer, held.spec.shape)
        if place is not None:
            places.setdefault(place, []).append(rank)
    name = index_text(index) if len(index) == 1 else f"({index_text(index)})"
    addend = any(buffer.pending for buffer in step.buffers)
    start = _told([f"{_ranks(on)} {_verb(on, 'hold')} it at local index {_local(at)}" for at, on in owners.items()])
    later = _told([f"at index {_local(at)} on {_ranks(on)}" for at, on in places.items()])
    what = "addends of it lie" if addend else "it lies"
    if not later:
        what, later = "it lies", "nowhere: it is lost"
    return f"Element {name}: {start or 'no rank holds it'}. After step {number + 1} ({step.name}) {what} {later}."


def _parts(text: str, ndim: int) -> tuple[int | None, tuple[int, ...]]:
    match = re.fullmatch(r"\s*(?:rank\s*(\d+)\s*:)?\s*[([]?([\d\s,]*)[)\]]?\s*", text, re.IGNORECASE)
    numbers = re.findall(r"\d+", match[2]) if match else []
    if not match or len(numbers) != ndim or re.search(r"\d\s+\d", match[2]):
        example = index_text([0] * ndim) if ndim else "nothing: a scalar is one element"
        raise SpecError(f"{text.strip()!r}: an element is {ndim} number{'s' * (ndim != 1)}, such as {example}")
    return None if match[1] is None else int(match[1]), tuple(map(int, numbers))


def _place(index: Sequence[int], buffer: Buffer, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Where a buffer has an element; None where it has not."""
    if buffer.cells is not None:
        flat = 0
        for i, size in zip(index, shape, strict=True):
            flat = flat * size + i
        position = position_of(buffer.cells, flat)
        return None if position is None else _unflat(position, buffer.shape)
    found = [position_of(runs, i) for runs, i in zip(buffer.axes, index, strict=True)]
    return None if None in found else tuple(place for place in found if place is not None)


def _unflat(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def _told(parts: Sequence[str]) -> str:
    shown = "; ".join(parts[:PLACES])
    return f"{shown}; and at {len(parts) - PLACES} more places" if len(parts) > PLACES else shown


def _ranks(ranks: Sequence[int]) -> str:
    runs = joined((rank, rank + 1) for rank in sorted(ranks))
    return f"rank{'s' * (len(ranks) > 1)} {runs_text(runs, 6)}"


def _verb(ranks: Sequence[int], verb: str) -> str:
    return verb if len(ranks) > 1 else f"{verb}s"


def _local(place: Sequence[int]) -> str:
    return index_text(place) if len(place) == 1 else f"({index_text(place)})"
