"""Global indices along an axis."""

from __future__ import annotations

from shardviz.core.spec import Spec
from shardviz.picture.scene import Line, Mark, Text
from shardviz.picture.scene_grid import Scale
from shardviz.picture.theme import SMALL, text_width
from shardviz.picture.words import number


def axis_marks(spec: Spec, dim: int, scale: Scale, size: int) -> list[Mark]:
    """Global indices along the top, on a baseline at the origin."""
    name = {(1, 0): "row", (2, 0): "row", (2, 1): "column"}.get((spec.ndim, dim), f"index of dimension {dim}")
    marks: list[Mark] = [Text(-12, 0, name, SMALL, "faint", "end")]
    if scale.single:
        every = 1 if scale.pitch >= text_width(str(size), SMALL) + 3 else 5
        return marks + [
            Text(i * scale.pitch + (scale.pitch - scale.gap) / 2, 0, str(i), SMALL, "faint", "middle")
            for i in range(0, size, every)
        ]
    for i in ticks(size, 6):
        x = i * scale.pitch
        marks += [Text(x, 0, number(i), SMALL, "faint", "middle" if i else "start"), Line(((x, 4), (x, 8)), "faint")]
    x = size * scale.pitch
    return [*marks, Text(x, 0, number(size), SMALL, "faint", "end"), Line(((x, 4), (x, 8)), "faint")]


def ticks(size: int, most: int) -> list[int]:
    """Round numbers below a size, at most so many, none close to the end.

    Example:
        >>> ticks(50257, 6)
        [0, 10000, 20000, 30000, 40000]
    """
    step = 1
    while size / step > most:
        step *= 5 if str(step)[0] == "2" else 2
        if str(step).rstrip("0") == "4":
            step = step * 5 // 4
    return [i for i in range(0, size, step) if size - i > step * 0.6 or i == 0]
