"""SVG: text stays text, a cell is one rectangle, and the same scene gives the same bytes.

A `Sheet` writes elements; matplotlib's drawing calls fill one (`svg_renderer.py`), or where there is no matplotlib, the scene.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from zlib import crc32

from shardviz.picture.look import Look, Rectangle, Stroke, Words, parts
from shardviz.picture.scene import Cell, Scene
from shardviz.picture.theme import LIGHT, Role, Theme

FONT = "DejaVu Sans, Verdana, Helvetica Neue, Arial, sans-serif"

_HATCH = "url(#shardviz-padding)"
_NAME = re.compile(r"(?:step-(\d+)-)?rank-(\d+)(?:-(padding)|-element-(.*))?$|element-(.*)$")


class Sheet:
    """The elements of a picture, one after the other.

    Args:
        theme: colours.
        told: whether cells tell whose they are and what they show, for a page that follows elements.
    """

    def __init__(self, theme: Theme = LIGHT, told: bool = False) -> None:
        self.theme, self._told = theme, told
        self._lines: list[str] = []
        self._group: list[str] | None = None

    def begin(self, gid: str) -> None:
        """Begin a cell of this name."""
        if self._told and (tag := _tag(gid)):
            self._group = [tag]

    def end(self) -> None:
        """End the cell."""
        if self._group is not None:
            self._lines.append("".join(self._group) + "</g>")
            self._group = None

    def rectangle(self, x: float, y: float, width: float, height: float, radius: float, look: Look) -> None:
        """Add a rectangle with round corners."""
        place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}" rx="{_number(radius)}"'
        self._add(f"<rect {place}{self._paint(look)}/>")

    def path(self, data: str, look: Look) -> None:
        """Add a path; open ones have round ends."""
        ends = ' stroke-linecap="round" stroke-linejoin="round"' if look.fill is None else ""
        self._add(f'<path d="{data}"{self._paint(look)}{ends}/>')

    def text(self, x: float, y: float, text: str, size: float, role: Role, anchor: str, bold: bool) -> None:
        """Add a line of text."""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        weight = ' font-weight="bold"' if bold else ""
        self._add(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" fill="{self.theme.color(role)}"'
            f"{place}{weight}>{escape(text, quote=False)}</text>"
        )

    def document(self, width: float, height: float, label: str, style: str, dims: Sequence[int] | None, words: str) -> str:
        """All of it as one SVG document on a ground of its own."""
        body, wide, high = "\n".join(self._lines), _number(width), _number(height)
        # Pictures stand side by side in one document, where a name counts once: each has a name of its own for its hatching.
        hatch = f"shardviz-padding-{crc32(body.encode()):08x}"
        told = "" if dims is None else f' data-dims="{" ".join(map(str, dims))}"'
        told += f' aria-describedby="{escape(words)}"' if words else ""
        surface, ink = self.theme.color("surface"), self.theme.color("muted")
        pattern = (
            f'<defs><pattern id="{hatch}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<path d="M0 0H5V5H0Z" fill="{surface}"/><path d="M0 0V5" stroke="{ink}" stroke-width="1.6"/></pattern></defs>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
            f'role="img" aria-label="{escape(label)}" font-family="{FONT}"{told}>\n'
            f"{f'<style>{style}</style>' if style else ''}{pattern if _HATCH in body else ''}\n"
            f'<rect width="{wide}" height="{high}" rx="8" fill="{surface}"/>\n'
            f"{body.replace(_HATCH, f'url(#{hatch})')}\n</svg>\n"
        )

    def _add(self, element: str) -> None:
        (self._lines if self._group is None else self._group).append(element)

    def _paint(self, look: Look) -> str:
        color = self.theme.color
        fill = _HATCH if look.hatch else color(look.fill) if look.fill else "none"
        if look.stroke is None:
            return f' fill="{fill}"'
        dash = f' stroke-dasharray="{" ".join(map(_number, look.dash))}"' if look.dash else ""
        return f' fill="{fill}" stroke="{color(look.stroke)}" stroke-width="{_number(look.width)}"{dash}'


def write_svg(
    scene: Scene, label: str, theme: Theme = LIGHT, style: str = "", dims: Sequence[int] | None = None, words: str = ""
) -> str:
    """The scene as one SVG document, without a drawing library.

    Args:
        scene: what to draw.
        label: what the picture says, for those who do not see it.
        theme: colours.
        style: a style sheet that goes with the theme.
        dims: the tensor dimensions that the cells' spans are about; every cell then tells its span, for a page that follows.
        words: the id of an element beside the picture that says it at length.
    """
    sheet = Sheet(theme, dims is not None)
    for mark in scene.marks:
        if isinstance(mark, Cell):
            sheet.begin(mark.gid)
        for part in parts(mark):
            match part:
                case Rectangle(x, y, width, height, radius, look):
                    sheet.rectangle(x, y, width, height, radius, look)
                case Stroke():
                    sheet.path(path_data(part.points, part.curved, part.closed), part.look)
                case Words(x, y, text, size, role, anchor, bold):
                    sheet.text(x, y, text, size, role, anchor, bold)
        sheet.end()
    return sheet.document(scene.width, scene.height, label, style, dims, words)


def path_data(points: Sequence[tuple[float, float]], curved: bool, closed: bool) -> str:
    """A line as SVG's path commands."""
    first, *rest = (f"{_number(x)} {_number(y)}" for x, y in points)
    return f"M{first}{'Q' + ' '.join(rest) if curved else ''.join('L' + point for point in rest)}{'Z' * closed}"


def _tag(gid: str) -> str:
    """A cell's opening tag, which tells its step, its rank, and the elements that it shows; "" where it tells nothing."""
    found = _NAME.match(gid)
    if found is None:
        return ""
    step, rank, padding, element, alone = found.groups()
    edges: list[int] = []
    for run in (element or alone or "").split(",") if element or alone else ():
        low, _, high = run.partition(":")
        edges += [int(low), int(high or int(low) + 1)]
    told = "".join(f' data-{name}="{value}"' for name, value in (("step", step), ("rank", rank)) if value is not None)
    told += f' data-span="{" ".join(map(str, edges))}"' if edges else ""
    return f'<g class="cell{" pad" if padding else ""}"{told}>'


def _number(value: float) -> str:
    """A place with two digits; halves of the last one are rounded up, whatever the arithmetic that led there."""
    text = f"{value + 1e-6:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
