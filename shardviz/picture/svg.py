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
_NAME = re.compile(r"(?:step-\d+-)?rank-(\d+)(?:-(padding)|-element-(.*))?$|element-(.*)$")


class Styles:
    """How elements of a page look, each way once: a class instead of attributes that repeat."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, looks: Sequence[tuple[str, str]]) -> str:
        """The class of elements that look so."""
        rule = ";".join(f"{name}:{value}" for name, value in looks)
        return self._names.setdefault(rule, f"k{len(self._names)}")

    @property
    def text(self) -> str:
        """The style sheet."""
        return "".join(f".{name}{{{rule}}}\n" for rule, name in self._names.items())


class Sheet:
    """The elements of a picture, one after the other.

    Args:
        theme: colours.
        told: whether cells tell whose they are and what they show, for a page that follows elements.
        styles: of the page that the picture is for; without them every element says itself how it looks.
    """

    def __init__(self, theme: Theme = LIGHT, told: bool = False, styles: Styles | None = None) -> None:
        self.theme, self._told, self._styles = theme, told, styles
        self._lines: list[str] = []
        self._cell: tuple[str, str] | None = None
        self._inner: list[tuple[str, str, str]] = []

    def begin(self, gid: str) -> None:
        """Begin a cell of this name."""
        if self._told:
            self._cell = _told(gid)

    def end(self) -> None:
        """End the cell; one of a single element needs no group."""
        if self._cell is not None:
            kind, told = self._cell
            if len(self._inner) == 1:
                self._lines.append(_element(*self._inner[0], kind, told))
            else:
                self._lines.append(f'<g class="{kind}"{told}>{"".join(_element(*one) for one in self._inner)}</g>')
            self._cell, self._inner = None, []

    def rectangle(self, x: float, y: float, width: float, height: float, radius: float, look: Look) -> None:
        """Add a rectangle with round corners."""
        place = f'x="{self._number(x)}" y="{self._number(y)}" width="{self._number(width)}" height="{self._number(height)}"'
        self._add("rect", f'{place} rx="{self._number(radius)}"', self._paint(look))

    def path(self, points: Sequence[tuple[float, float]], curved: bool, closed: bool, look: Look) -> None:
        """Add a line through points, the curve that three of them make, or an area; open ones have round ends."""
        first, *rest = (f"{self._number(x)} {self._number(y)}" for x, y in points)
        data = f"M{first}{'Q' + ' '.join(rest) if curved else ''.join('L' + point for point in rest)}{'Z' * closed}"
        ends = [] if closed else [("stroke-linecap", "round"), ("stroke-linejoin", "round")]
        self._add("path", f'd="{data}"', [*self._paint(look), *ends])

    def text(self, x: float, y: float, text: str, size: float, role: Role, anchor: str, bold: bool) -> None:
        """Add a line of text."""
        looks = [("font-size", f"{_number(size)}{'px' if self._styles else ''}"), ("fill", self.theme.color(role))]
        looks += [("text-anchor", anchor)] * (anchor != "start") + [("font-weight", "bold")] * bold
        self._add("text", f'x="{self._number(x)}" y="{self._number(y)}"', looks, escape(text, quote=False))

    def document(self, width: float, height: float, label: str, style: str, dims: Sequence[int] | None, words: str) -> str:
        """All of it as one SVG document on a ground of its own."""
        body, wide, high = "\n".join(self._lines), _number(width), _number(height)
        # Pictures stand side by side in one document, where a name counts once: each has a name of its own for its hatching.
        hatch = f"shardviz-padding-{crc32(body.encode()):08x}" if self._styles is None else "shardviz-padding"
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
            f"{f'<style>{style}</style>' if style else ''}{pattern if _HATCH in body or self._styles else ''}\n"
            f'<rect width="{wide}" height="{high}" rx="8" fill="{surface}"/>\n'
            f"{body.replace(_HATCH, f'url(#{hatch})')}\n</svg>\n"
        )

    def _add(self, tag: str, place: str, looks: Sequence[tuple[str, str]], text: str = "") -> None:
        kind = self._styles.name(looks) if self._styles else ""
        told = place if kind else place + "".join(f' {name}="{value}"' for name, value in looks)
        end = f">{text}</{tag}>" if text else "/>"
        if self._cell is None:
            self._lines.append(_element(tag, f"{told}{end}", kind))
        else:
            self._inner.append((tag, f"{told}{end}", kind))

    def _paint(self, look: Look) -> list[tuple[str, str]]:
        color = self.theme.color
        fill = [("fill", _HATCH if look.hatch else color(look.fill) if look.fill else "none")]
        if look.stroke is None:
            return fill
        dash = [("stroke-dasharray", " ".join(map(_number, look.dash)))] if look.dash else []
        return [*fill, ("stroke", color(look.stroke)), ("stroke-width", _number(look.width)), *dash]

    def _number(self, value: float) -> str:
        return _number(value, 1 if self._styles else 2)


def write_marks(sheet: Sheet, scene: Scene) -> None:
    """Put a scene's marks on a sheet, without a drawing library."""
    for mark in scene.marks:
        if isinstance(mark, Cell):
            sheet.begin(mark.gid)
        for part in parts(mark):
            match part:
                case Rectangle(x, y, width, height, radius, look):
                    sheet.rectangle(x, y, width, height, radius, look)
                case Stroke():
                    sheet.path(part.points, part.curved, part.closed, part.look)
                case Words(x, y, text, size, role, anchor, bold):
                    sheet.text(x, y, text, size, role, anchor, bold)
        sheet.end()


def _element(tag: str, rest: str, kind: str = "", cell: str = "", told: str = "") -> str:
    """An element's text, with its classes and what its cell tells."""
    kinds = f"{cell} {kind}".strip()
    return f"<{tag}{f' class={chr(34)}{kinds}{chr(34)}' if kinds else ''}{told} {rest}"


def _told(gid: str) -> tuple[str, str] | None:
    """A cell's classes, and what it tells: its rank, and the elements that it shows; None where it tells nothing."""
    found = _NAME.match(gid)
    if found is None:
        return None
    rank, padding, element, alone = found.groups()
    edges: list[int] = []
    for run in (element or alone or "").split(",") if element or alone else ():
        low, _, high = run.partition(":")
        edges += [int(low), int(high or int(low) + 1)]
    told = f' data-rank="{rank}"' if rank is not None else ""
    told += f' data-span="{" ".join(map(str, edges))}"' if edges else ""
    return "cell pad" if padding else "cell", told


def _number(value: float, digits: int = 2) -> str:
    """A place; halves of the last digit are rounded up, whatever the arithmetic that led there."""
    text = f"{value + 1e-6:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
