"""What every mark looks like, decided once: shapes and words in roles. Whoever draws them only says which colour a role has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from shardviz.picture.scene import Box, Cell, CellKind, Line, Mark, Text
from shardviz.picture.theme import Role

_BACK, _HALF = 5.0, 2.4
"""Length and half the width of the head of an arrow."""

_DASHED = (3.0, 2.5)


@dataclass(frozen=True, slots=True)
class Look:
    """How a mark looks, in roles.

    Attributes:
        fill: of its face; None for none.
        stroke: of its edge; None for none.
        width: of its edge, in pixels of 1/96 inch.
        dash: lengths of strokes and gaps of its edge; empty for a whole line.
        hatch: of the hatching over its face; padding alone has one.
        ink: of its text.
    """

    fill: Role | None = None
    stroke: Role | None = None
    width: float = 1.0
    dash: tuple[float, ...] = ()
    hatch: Role | None = None
    ink: Role = "ink"


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle with round corners."""

    x: float
    y: float
    width: float
    height: float
    radius: float
    look: Look


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line through points, or the curve that three of them make; `closed` where it is an area."""

    points: tuple[tuple[float, float], ...]
    look: Look
    curved: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text at its anchor; `y` is its baseline."""

    x: float
    y: float
    text: str
    size: float
    role: Role
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False


Part: TypeAlias = Rectangle | Stroke | Words


def look(mark: Mark) -> Look:
    """How a mark looks.

    Example:
        >>> look(Cell(0, 0, 20, 20, "addend", hue=2))
        Look(fill='tint2', stroke='hue2', width=1.5, dash=(), hatch=None, ink='ink')
    """
    match mark:
        case Cell(kind=kind, hue=hue):
            return _cell(kind, hue)
        case Box(fill=fill, stroke=stroke, line=line, dashed=dashed):
            return _box(fill, stroke, line, dashed)
        case Line(tone=tone, width=width, dashed=dashed):
            return _line(tone, width, dashed)
        case Text(tone=tone):
            return Look(ink=tone)


def parts(mark: Mark) -> Iterator[Part]:
    """The shapes and words that a mark is made of, in the order in which they are drawn."""
    match mark:
        case Cell():
            seen = look(mark)
            radius = min(3.5, mark.width / 4, mark.height / 4)
            yield Rectangle(mark.x, mark.y, mark.width, mark.height, radius, seen)
            yield from _labels(mark, seen.ink)
        case Box():
            yield Rectangle(mark.x, mark.y, mark.width, mark.height, mark.radius, look(mark))
        case Line():
            yield Stroke(mark.points, look(mark), mark.curved)
            if mark.arrow:
                yield Stroke(_arrow_head(mark), Look(fill=mark.tone), closed=True)
        case Text():
            yield Words(mark.x, mark.y, mark.text, mark.size, mark.tone, mark.anchor, mark.bold)


@cache
def _cell(kind: CellKind, hue: int) -> Look:
    match kind:
        case "element" if hue >= 0:
            return Look(f"hue{hue}", ink=f"on{hue}")
        case "element":
            return Look("muted", ink="surface")
        case "addend" if hue >= 0:
            return Look(f"tint{hue}", f"hue{hue}", 1.5)
        case "addend":
            return Look("surface", "muted", 1.5)
        case "sum":
            return Look("lit", "muted", 1.0)
        case "padding":
            return Look("surface", "muted", 0.8, hatch="muted", ink="muted")
        case "unknown":
            return Look("surface", "faint", 1.0, (2.5, 2.0), ink="muted")


@cache
def _box(fill: Role | None, stroke: Role | None, line: float, dashed: bool) -> Look:
    return Look(fill, stroke, line, _DASHED if dashed and stroke else ())


@cache
def _line(tone: Role, width: float, dashed: bool) -> Look:
    return Look(None, tone, width, (3.0, 3.0) if dashed else ())


def _labels(cell: Cell, ink: Role) -> Iterator[Words]:
    """The lines of a cell's label, and its note."""
    lines = cell.label.split("\n") if cell.label else []
    middle = cell.x + cell.width / 2
    pitch = cell.size * 1.12
    tall = len(lines) * pitch + (8 if cell.note else 0)
    y = cell.y + (cell.height - tall) / 2 + pitch * 0.5 + cell.size * 0.36
    for line in lines:
        yield Words(middle, y, line, cell.size, ink, "middle", True)
        y += pitch
    if cell.note:
        yield Words(middle, y - cell.size * 0.36 - pitch * 0.5 + 6.5, cell.note, 7.0, ink, "middle")


def _arrow_head(line: Line) -> tuple[tuple[float, float], ...]:
    """The three corners of the head at the end of an arrow."""
    (x0, y0), (x1, y1) = line.points[-2:]
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bx, by = x1 - ux * _BACK, y1 - uy * _BACK
    return (x1, y1), (bx - uy * _HALF, by + ux * _HALF), (bx + uy * _HALF, by - ux * _HALF)
