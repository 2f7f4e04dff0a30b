"""Pictures as plain geometry: marks at places, in pixels of 1/96 inch with y downwards. No drawing library is needed here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from shardviz.picture.theme import Tone

__all__ = ["Box", "Cell", "CellKind", "Line", "Mark", "Scene", "Text", "moved", "scene"]

CellKind: TypeAlias = Literal["element", "addend", "sum", "padding", "unknown"]


@dataclass(frozen=True, slots=True)
class Cell:
    """An element, or a run of elements, in a rank's buffer.

    Attributes:
        kind: padding is hatched, and only padding; an addend has a tinted face, since it is not yet the value;
            a sum, which was made of several ranks' addends, has the colour of none of them.
        hue: index of the hue of the rank that held it at the start; −1 where there is none.
        label: the global index or the run; a line break parts two lines.
        note: the number of the rank that held it at the start, printed once there are more of them than hues.
        rank: the rank whose buffer it is in.
        step: of a story, the number of the step that it is drawn in, from 0.
        span: first and past-the-last index on each dimension that is drawn: cells whose spans overlap show the same elements.
        size: size of the label.
    """

    x: float
    y: float
    width: float
    height: float
    kind: CellKind = "element"
    hue: int = -1
    label: str = ""
    note: str = ""
    rank: int = -1
    span: tuple[int, ...] = ()
    size: float = 11.0
    step: int = -1

    @property
    def gid(self) -> str:
        """What it is, by name: `rank-0`, `step-3-rank-0-element-4`, `rank-1-padding`, `rank-2-element-0:6,2:3`."""
        where = (f"step-{self.step}" * (self.step >= 0), f"rank-{self.rank}" * (self.rank >= 0))
        runs = zip(self.span[::2], self.span[1::2], strict=True)
        what = ",".join(str(low) if high == low + 1 else f"{low}:{high}" for low, high in runs)
        kind = "padding" if self.kind == "padding" else f"element-{what}" if what else ""
        return "-".join(filter(None, (*where, kind)))


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    size: float
    tone: Tone = "ink"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; `curved` makes three of them a quadratic Bézier curve, `arrow` puts a head at its end."""

    points: tuple[tuple[float, float], ...]
    tone: Tone = "muted"
    width: float = 1.0
    dashed: bool = False
    curved: bool = False
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, filled with one tone or outlined in another, or both."""

    x: float
    y: float
    width: float
    height: float
    fill: Tone | None = None
    stroke: Tone | None = None
    line: float = 1.0
    dashed: bool = False
    radius: float = 4.0


Mark: TypeAlias = Cell | Text | Line | Box


@dataclass(frozen=True)
class Scene:
    """Everything that a picture shows. Marks are drawn in their order: grounds, lines, cells, outlines, text."""

    width: float
    height: float
    marks: tuple[Mark, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells alone."""
        return tuple(mark for mark in self.marks if isinstance(mark, Cell))

    @property
    def words(self) -> str:
        """All text on the picture but the cells' labels, one piece a line."""
        return "\n".join(mark.text for mark in self.marks if isinstance(mark, Text))


def scene(width: float, height: float, marks: Iterable[Mark]) -> Scene:
    """A scene whose marks stand in the order in which they are drawn."""
    return Scene(round(width, 1), round(height, 1), tuple(sorted(marks, key=_layer)))


def moved(marks: Sequence[Mark], dx: float, dy: float) -> list[Mark]:
    """Marks at another place."""
    return [_moved(mark, dx, dy) for mark in marks]


def _moved(mark: Mark, dx: float, dy: float) -> Mark:
    if isinstance(mark, Line):
        return replace(mark, points=tuple((x + dx, y + dy) for x, y in mark.points))
    return replace(mark, x=mark.x + dx, y=mark.y + dy)


def _layer(mark: Mark) -> int:
    match mark:
        case Box(fill=fill, dashed=dashed):
            return 0 if fill is not None and not dashed else 3
        case Line(arrow=arrow):
            return 4 if arrow else 1
        case Cell():
            return 2
        case Text():
            return 5
