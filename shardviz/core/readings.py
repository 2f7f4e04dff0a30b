"""All readings of one spec: whether one label stands for several layouts, and where they part."""

from __future__ import annotations

from functools import lru_cache

from shardviz.core.compare import Comparison, compare
from shardviz.core.errors import ReadingError
from shardviz.core.layout import READINGS, Layout, applied_reading, layout
from shardviz.core.spec import Spec

__all__ = ["differing_readings", "reading_note", "readings", "two_layouts"]


def readings(spec: Spec | str) -> dict[str, Layout]:
    """The layout by every reading that applies to these placements.

    Example:
        >>> from shardviz.core.spec import parse
        >>> list(readings(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")))
        ['sharding-order', 'left-to-right', 'outer-last']
        >>> list(readings(parse("[8] on tp=2: _S(0, 2)")))  # decodes to no order, and nothing is inside it
        ['left-to-right']
    """
    found: dict[str, Layout] = {}
    for reading in READINGS:
        try:
            found[reading] = layout(spec, reading)
        except ReadingError:
            continue
    return found


def differing_readings(spec: Spec | str) -> tuple[Comparison, ...]:
    """Where another reading gives another layout than the one `auto` chooses; empty where one label means one layout.

    Example:
        >>> from shardviz.core.spec import parse
        >>> for comparison in differing_readings(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")):
        ...     print(comparison)
        sharding-order against left-to-right: 2 differences
        rank 6 has nothing by sharding-order; 8 by left-to-right
        rank 7 has 8 by sharding-order; nothing by left-to-right
        >>> differing_readings(parse("[8] on dp=2, tp=2: _S(0, 2), S(0)"))  # everything divides
        ()
    """
    chosen = layout(spec)
    return tuple(filter(None, (compare(chosen, other) for other in readings(spec).values())))


@lru_cache(maxsize=1024)
def two_layouts(spec: Spec) -> bool:
    """Whether FSDP2 makes another layout of these placements than a cut from left to right; who made `spec` is not asked.

    Example:
        >>> from shardviz.core.spec import parse
        >>> two_layouts(parse("[8] on dp=2, tp=2: _S(0, 2), _S(0, 2)")), two_layouts(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)"))
        (True, False)
    """
    by_fsdp2, plain = spec.with_made_by("fsdp2"), spec.with_made_by(None)
    if all(applied_reading(by_fsdp2, dim) == applied_reading(plain, dim) for dim in range(spec.ndim)):
        return False
    return layout(plain).ranks != layout(by_fsdp2).ranks


def reading_note(spec: Spec, applied: tuple[str, ...]) -> str:
    """How a label that stands for two layouts was read, and what else it stands for; "" where it stands for one.

    Args:
        spec: the question.
        applied: the reading applied, per tensor dimension.

    Example:
        >>> from shardviz.core.spec import parse
        >>> packed = parse("[8] on dp=2, tp=2: _S(0, 2), _S(0, 2)")
        >>> reading_note(packed, layout(packed).readings)
        'read as left-to-right (distribute_tensor); the label also stands for outer-last (FSDP2 over a packed weight)'
    """
    if not two_layouts(spec):
        return ""
    parting = [
        (applied[dim], theirs, ours)
        for dim in range(spec.ndim)
        if (theirs := applied_reading(spec.with_made_by("fsdp2"), dim))
        != (ours := applied_reading(spec.with_made_by(None), dim))
    ]
    here = {one for one, _, _ in parting}
    others = sorted({reading for _, *both in parting for reading in both} - here)
    named = [
        ", ".join(f"{one} ({_MAKERS[one]})" if one in _MAKERS else one for one in group) for group in (sorted(here), others)
    ]
    return f"read as {named[0]}; the label also stands for {named[1]}"


_MAKERS = {"outer-last": "FSDP2 over a packed weight", "left-to-right": "distribute_tensor"}
"""Who makes tensors that are read so, where a label stands for both."""
