"""A scene as SVG, written directly: text stays text, a cell is one rectangle, and the same scene gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from zlib import crc32

from shardviz.picture.scene import Box, Cell, Line, Mark, Scene, Text
from shardviz.picture.theme import HUES, LIGHT, Theme, text_on

__all__ = ["FONT", "arrow_head", "write_svg"]

FONT = "DejaVu Sans, Verdana, Helvetica Neue, Arial, sans-serif"


def write_svg(scene: Scene, label: str, theme: Theme = LIGHT, style: str = "", dims: tuple[int, ...] | None = None) -> str:
    """The scene as one SVG document on a ground of its own.

    Args:
        scene: what to draw.
        label: what the picture says, for those who do not see it.
        theme: colours.
        style: a style sheet that goes with the theme.
        dims: the tensor dimensions that the cells' spans are about; every cell then tells its span, for a page that follows.
    """
    width, height = _number(scene.width), _number(scene.height)
    body = "\n".join(part for mark in scene.marks for part in _mark(mark, theme, dims is not None))
    # Pictures stand side by side in one document, where a name counts once: each has a name of its own for its hatching.
    hatch = f"shardviz-padding-{crc32(body.encode()):08x}"
    body = body.replace("url(#shardviz-padding)", f"url(#{hatch})")
    rules = f"<style>{style}</style>" if style else ""
    told = "" if dims is None else f' data-dims="{" ".join(map(str, dims))}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}" font-family="{FONT}"{told}>\n'
        f'{rules}<defs><pattern id="{hatch}" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path d="M0 0V5" stroke="{theme.muted}" stroke-width="1.6"/></pattern></defs>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{theme.surface}"/>\n{body}\n</svg>\n'
    )


def arrow_head(line: Line) -> tuple[tuple[float, float], ...]:
    """The three corners of the head at the end of an arrow."""
    (x0, y0), (x1, y1) = line.points[-2:]
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    back, half = 5.0, 2.4
    bx, by = x1 - ux * back, y1 - uy * back
    return (x1, y1), (bx - uy * half, by + ux * half), (bx + uy * half, by - ux * half)


def _mark(mark: Mark, theme: Theme, spans: bool) -> Iterator[str]:
    match mark:
        case Cell(span=span) if spans and span:
            yield f'<g data-span="{" ".join(map(str, span))}">{"".join(_cell(mark, theme))}</g>'
        case Cell():
            yield from _cell(mark, theme)
        case Text():
            anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
            weight = ' font-weight="bold"' if mark.bold else ""
            yield (
                f'<text x="{_number(mark.x)}" y="{_number(mark.y)}" font-size="{_number(mark.size)}" '
                f'fill="{theme.color(mark.tone)}"{anchor}{weight}>{escape(mark.text, quote=False)}</text>'
            )
        case Line():
            color = theme.color(mark.tone)
            dash = ' stroke-dasharray="3 3"' if mark.dashed else ""
            yield (
                f'<path d="{_path(mark)}" fill="none" stroke="{color}" stroke-width="{_number(mark.width)}"'
                f'{dash} stroke-linecap="round" stroke-linejoin="round"/>'
            )
            if mark.arrow:
                corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in arrow_head(mark))
                yield f'<polygon points="{corners}" fill="{color}"/>'
        case Box():
            fill = theme.color(mark.fill) if mark.fill else "none"
            stroke = ""
            if mark.stroke:
                dash = ' stroke-dasharray="3 2.5"' if mark.dashed else ""
                stroke = f' stroke="{theme.color(mark.stroke)}" stroke-width="{_number(mark.line)}"{dash}'
            yield f'<rect {_place(mark)} rx="{_number(mark.radius)}" fill="{fill}"{stroke}/>'


def _cell(cell: Cell, theme: Theme) -> Iterator[str]:
    radius = _number(min(3.5, cell.width / 4, cell.height / 4))
    face = theme.muted if cell.hue < 0 else HUES[cell.hue]
    ink = theme.surface if cell.hue < 0 else text_on(face)
    if cell.kind == "element":
        yield f'<rect {_place(cell)} rx="{radius}" fill="{face}"/>'
    elif cell.kind == "addend":
        face, ink = theme.tinted(max(cell.hue, 0)), theme.ink
        yield f'<rect {_place(cell)} rx="{radius}" fill="{face}" stroke="{HUES[cell.hue]}" stroke-width="1.5"/>'
    elif cell.kind == "padding":
        yield f'<rect {_place(cell)} rx="{radius}" fill="{theme.surface}"/>'
        yield f'<rect {_place(cell)} rx="{radius}" fill="url(#shardviz-padding)" stroke="{theme.muted}" stroke-width="0.8"/>'
    else:
        ink = theme.muted
        yield (f'<rect {_place(cell)} rx="{radius}" fill="{theme.surface}" stroke="{theme.faint}" stroke-dasharray="2.5 2"/>')
    yield from _labels(cell, ink)


def _labels(cell: Cell, ink: str) -> Iterator[str]:
    for x, y, text, size, bold in cell_text(cell):
        weight = ' font-weight="bold"' if bold else ""
        yield (
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" fill="{ink}" text-anchor="middle"'
            f"{weight}>{escape(text, quote=False)}</text>"
        )


def cell_text(cell: Cell) -> Iterator[tuple[float, float, str, float, bool]]:
    """The lines of a cell's label and its note: middle, baseline, text, size and weight of each."""
    lines = cell.label.split("\n") if cell.label else []
    middle = cell.x + cell.width / 2
    pitch = cell.size * 1.12
    tall = len(lines) * pitch + (8 if cell.note else 0)
    y = cell.y + (cell.height - tall) / 2 + pitch * 0.5 + cell.size * 0.36
    for line in lines:
        yield middle, y, line, cell.size, True
        y += pitch
    if cell.note:
        yield middle, y - cell.size * 0.36 - pitch * 0.5 + 6.5, cell.note, 7.0, False


def _path(line: Line) -> str:
    (x, y), *rest = ((_number(x), _number(y)) for x, y in line.points)
    if line.curved:
        return f"M{x} {y}Q" + " ".join(f"{x} {y}" for x, y in rest)
    return f"M{x} {y}" + "".join(f"L{x} {y}" for x, y in rest)


def _place(mark: Cell | Box) -> str:
    return f'x="{_number(mark.x)}" y="{_number(mark.y)}" width="{_number(mark.width)}" height="{_number(mark.height)}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
