"""Parts of a picture that know their room, and how they are put together: beside, below, padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardviz.picture.scene import Mark, Text, moved
from shardviz.picture.theme import Tone, text_width


@dataclass(frozen=True)
class Panel:
    """Marks with their first corner at the origin, and the room that they take."""

    marks: tuple[Mark, ...] = ()
    width: float = 0.0
    height: float = 0.0


def padded(panel: Panel, left: float = 0.0, top: float = 0.0, bottom: float = 0.0) -> Panel:
    """A panel with quiet space around it."""
    return Panel(tuple(moved(panel.marks, left, top)), left + panel.width, top + panel.height + bottom)


def beside(panels: Iterable[Panel], gap: float = 0.0) -> Panel:
    """Panels from left to right, their tops aligned.

    Example:
        >>> beside([Panel((), 30, 10), Panel((), 20, 40)], gap=5)
        Panel(marks=(), width=55.0, height=40)
    """
    marks: list[Mark] = []
    right = high = 0.0
    for panel in panels:
        at = right + gap if right else 0.0
        marks += moved(panel.marks, at, 0)
        right, high = at + panel.width, max(high, panel.height)
    return Panel(tuple(marks), right, high)


def below(panels: Iterable[Panel], gap: float = 0.0) -> Panel:
    """Panels from top to bottom, their left edges aligned.

    Example:
        >>> below([Panel((), 30, 10), Panel((), 20, 40)], gap=5)
        Panel(marks=(), width=30, height=55.0)
    """
    marks: list[Mark] = []
    bottom = wide = 0.0
    for panel in panels:
        at = bottom + gap if bottom else 0.0
        marks += moved(panel.marks, 0, at)
        bottom, wide = at + panel.height, max(wide, panel.width)
    return Panel(tuple(marks), wide, bottom)


def lines(texts: Sequence[str], size: float, pitch: float, tone: Tone = "ink", bold: bool = False) -> Panel:
    """Lines of text, the first baseline at the top."""
    marks = tuple(Text(0, pitch * place, text, size, tone, bold=bold) for place, text in enumerate(texts))
    return Panel(marks, max((text_width(text, size, bold) for text in texts), default=0.0), pitch * len(texts))
