"""A scene as a matplotlib figure: few collections, however many cells, and no state that anybody else sees."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D, Transform

from shardviz.picture.scene import Box, Cell, Line, Mark, Scene, Text
from shardviz.picture.svg import arrow_head, cell_text
from shardviz.picture.theme import HUES, LIGHT, Theme, text_on

__all__ = ["make_figure", "make_png"]

_INCH = 96.0


def make_figure(scene: Scene, theme: Theme = LIGHT) -> Figure:
    """The scene as a `matplotlib.figure.Figure` of its own size; pyplot is not involved."""
    figure = Figure(figsize=(scene.width / _INCH, scene.height / _INCH), dpi=_INCH, facecolor=theme.surface, edgecolor="none")
    place = Affine2D().scale(1 / scene.width, -1 / scene.height).translate(0, 1) + figure.transFigure
    for kind, marks in groupby(scene.marks, key=type):
        group = list(marks)
        for collection in _collections(kind, group, theme, place):
            figure.add_artist(collection)
    return figure


def make_png(scene: Scene, dpi: float, theme: Theme = LIGHT) -> bytes:
    """The scene as PNG; 96 dots per inch give one pixel per pixel of the scene."""
    figure = make_figure(scene, theme)
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    out = io.BytesIO()
    canvas.print_png(out, metadata={"Software": "shardviz"})  # type: ignore[no-untyped-call]
    return out.getvalue()


def _collections(
    kind: type[Mark], marks: list[Mark], theme: Theme, place: Transform
) -> Iterator[PathCollection | LineCollection]:
    if kind is Cell:
        yield from _cells([m for m in marks if isinstance(m, Cell)], theme, place)
    elif kind is Box:
        yield from _boxes([m for m in marks if isinstance(m, Box)], theme, place)
    elif kind is Line:
        yield from _lines([m for m in marks if isinstance(m, Line)], theme, place)
    else:
        texts = [m for m in marks if isinstance(m, Text)]
        yield _glyphs([(_outline(m.text, m.size, m.bold), m.x, m.y, m.anchor, theme.color(m.tone)) for m in texts], place)


def _cells(cells: list[Cell], theme: Theme, place: Transform) -> Iterator[PathCollection | LineCollection]:
    faces, edges, widths, glyphs = [], [], [], []
    for cell in cells:
        hue = theme.muted if cell.hue < 0 else HUES[cell.hue]
        face, edge, width, ink = hue, "none", 0.0, text_on(hue)
        if cell.kind == "addend":
            face, edge, width, ink = theme.tinted(max(cell.hue, 0)), hue, 1.5, theme.ink
        elif cell.kind == "padding":
            face, edge, width, ink = theme.surface, theme.muted, 0.8, theme.muted
        elif cell.kind == "unknown":
            face, edge, width, ink = theme.surface, theme.faint, 1.0, theme.muted
        faces.append(face)
        edges.append(edge)
        widths.append(width * 72 / _INCH)
        glyphs += [(_outline(t, size, bold), x, y, "middle", ink) for x, y, t, size, bold in cell_text(cell)]
    paths = [_rounded(c.x, c.y, c.width, c.height, min(3.5, c.width / 4, c.height / 4)) for c in cells]
    dashes = [(0, (2.5, 2.0)) if c.kind == "unknown" else "solid" for c in cells]
    yield PathCollection(paths, facecolors=faces, edgecolors=edges, linewidths=widths, linestyles=dashes, transform=place)
    hatches = [line for cell in cells if cell.kind == "padding" for line in _hatch(cell)]
    if hatches:
        yield LineCollection(hatches, colors=theme.muted, linewidths=0.8 * 72 / _INCH, transform=place)
    if glyphs:
        yield _glyphs(glyphs, place)


def _boxes(boxes: list[Box], theme: Theme, place: Transform) -> Iterator[PathCollection]:
    yield PathCollection(
        [_rounded(b.x, b.y, b.width, b.height, b.radius) for b in boxes],
        facecolors=[theme.color(b.fill) if b.fill else "none" for b in boxes],
        edgecolors=[theme.color(b.stroke) if b.stroke else "none" for b in boxes],
        linewidths=[b.line * 72 / _INCH for b in boxes],
        linestyles=[(0, (3.0, 2.5)) if b.dashed else "solid" for b in boxes],
        transform=place,
    )


def _lines(lines: list[Line], theme: Theme, place: Transform) -> Iterator[PathCollection]:
    paths = [Path(line.points, [Path.MOVETO, Path.CURVE3, Path.CURVE3]) if line.curved else Path(line.points) for line in lines]
    yield PathCollection(
        paths,
        facecolors="none",
        edgecolors=[theme.color(line.tone) for line in lines],
        linewidths=[line.width * 72 / _INCH for line in lines],
        linestyles=[(0, (3.0, 3.0)) if line.dashed else "solid" for line in lines],
        capstyle="round",
        joinstyle="round",
        transform=place,
    )
    heads = [line for line in lines if line.arrow]
    if heads:
        yield PathCollection(
            [Path(arrow_head(line), closed=False) for line in heads],
            facecolors=[theme.color(line.tone) for line in heads],
            edgecolors="none",
            transform=place,
        )


def _glyphs(texts: Iterable[tuple[tuple[Path, float], float, float, str, str]], place: Transform) -> PathCollection:
    """All text as outlines in one collection: an artist per label would be many times slower."""
    paths, colors = [], []
    for (path, width), x, y, anchor, color in texts:
        shift = {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        paths.append(Path(path.vertices + np.array((x - shift, y)), path.codes))
        colors.append(color)
    return PathCollection(paths, facecolors=colors, edgecolors="none", transform=place)


@lru_cache(maxsize=4096)
def _outline(text: str, size: float, bold: bool) -> tuple[Path, float]:
    """A text's outlines with y downwards, and its width."""
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    path = TextPath((0, 0), text.replace("$", r"\$"), size=size, prop=font, usetex=False)
    vertices = np.asarray(path.vertices) * (1.0, -1.0)
    width = float(vertices[:, 0].max()) if len(vertices) else 0.0
    return Path(vertices, path.codes), width


@lru_cache(maxsize=1024)
def _corner(width: float, height: float, radius: float) -> Path:
    k = radius * 0.4477
    w, h, r = width, height, radius
    points = [
        (r, 0), (w - r, 0), (w - k, 0), (w, k), (w, r), (w, h - r), (w, h - k), (w - k, h), (w - r, h),
        (r, h), (k, h), (0, h - k), (0, h - r), (0, r), (0, k), (k, 0), (r, 0), (r, 0),
    ]  # fmt: skip
    line, curve = Path.LINETO, [Path.CURVE4] * 3
    return Path(points, [Path.MOVETO, line, *curve, line, *curve, line, *curve, line, *curve, Path.CLOSEPOLY])


def _rounded(x: float, y: float, width: float, height: float, radius: float) -> Path:
    shape = _corner(round(width, 2), round(height, 2), round(min(radius, width / 2, height / 2), 2))
    return Path(np.add(shape.vertices, (x, y)), shape.codes)


def _hatch(cell: Cell, pitch: float = 7.0) -> Iterator[list[tuple[float, float]]]:
    """Diagonals across a cell, each from its lower left to its upper right end."""
    along = pitch / 2
    while along < cell.width + cell.height:
        low = (cell.x + max(0.0, along - cell.height), cell.y + min(along, cell.height))
        high = (cell.x + min(along, cell.width), cell.y + max(0.0, along - cell.width))
        yield [low, high]
        along += pitch
