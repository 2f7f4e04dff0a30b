"""All readings of one spec: whether one label stands for several layouts, and where they part."""

from __future__ import annotations

from shardviz.core.compare import Comparison, compare
from shardviz.core.errors import ReadingError
from shardviz.core.layout import READINGS, Layout, layout
from shardviz.core.spec import Spec

__all__ = ["differing_readings", "readings"]


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
