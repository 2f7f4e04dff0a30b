"""A scene as a matplotlib figure: an artist for every mark, and no state that anybody else sees."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D, Bbox, Transform

from shardviz.picture.look import Rectangle, Stroke, Words, look, parts
from shardviz.picture.scene import Cell, Mark, Scene
from shardviz.picture.svg import Sheet
from shardviz.picture.svg_renderer import NUMBERED, SvgRenderer
from shardviz.picture.theme import LIGHT, Theme, text_width

_INCH = 96.0
_POINT = 72 / _INCH
_HATCH = "////"
_SIDES = {"start": ("left", 0.0), "middle": ("center", 0.5), "end": ("right", 1.0)}

RC: dict[Any, Any] = {
    "pdf.fonttype": 42,  # text of a paper's figure stays text, in TrueType
    "svg.fonttype": "none",
    "svg.hashsalt": "shardviz",
    "path.sketch": None,
    "path.effects": [],
    "hatch.linewidth": 1.0,
}
"""What a picture needs of matplotlib's settings, whatever a notebook has set for its own plots."""


class MarkArtist(Patch):
    """One mark, in the coordinates of its scene; lines and text grow and shrink with it.

    Faces and edges can be set as those of any patch; the `gid` names the step, rank and elements of a cell.

    Args:
        mark: what to draw.
        theme: colours.
        transform: from the scene to the display.
    """

    def __init__(self, mark: Mark, theme: Theme, transform: Transform) -> None:
        seen = look(mark)
        edge = theme.color(seen.stroke) if seen.stroke else "none"
        super().__init__(facecolor=theme.color(seen.fill) if seen.fill else "none", edgecolor=edge, linewidth=seen.width)
        self.mark, self._look, self._theme = mark, seen, theme
        self.set_transform(transform)
        if isinstance(mark, Cell):
            self.set_gid(mark.gid or None)

    def get_path(self) -> Path:
        """The first shape of the mark, or the room that its text takes."""
        first = next(parts(self.mark))
        return _text_box(first) if isinstance(first, Words) else _path(first)

    def draw(self, renderer: Any) -> None:
        """Draw its shapes, then its words."""
        if not self.get_visible():
            return
        named = "cell" if isinstance(self.mark, Cell) else "mark"
        renderer.open_group(named, self.get_gid())
        place = self.get_transform()
        matrix = place.get_matrix()
        unit = abs(float(matrix[1, 1])) / float(renderer.points_to_pixels(1.0))  # points to a pixel of the scene
        for number, part in enumerate(parts(self.mark)):
            if isinstance(part, Words):
                self._write(renderer, part, matrix, unit)
            else:
                self._shape(renderer, part, place, unit, number == 0)
        renderer.close_group(named)
        self.stale = False

    def _shape(self, renderer: Any, part: Rectangle | Stroke, place: Transform, unit: float, first: bool) -> None:
        gc = renderer.new_gc()
        own: Any = self.get_facecolor(), self.get_edgecolor()  # matplotlib's own hints say that they are three numbers
        face, edge = own if first else (own[1], (0.0, 0.0, 0.0, 0.0))  # the head of an arrow has the colour of its line
        gc.set_alpha(self.get_alpha())
        gc.set_foreground(edge, isRGBA=True)
        gc.set_linewidth(self.get_linewidth() * unit if first and edge[3] else 0.0)
        if self._look.dash and first:
            gc.set_dashes(0, [length * unit for length in self._look.dash])
        if isinstance(part, Stroke) and not part.closed:
            gc.set_capstyle("round")
            gc.set_joinstyle("round")
        if self._look.hatch:
            gc.set_hatch(_HATCH)
            gc.set_hatch_color(self._theme.color(self._look.hatch))
            gc.set_hatch_linewidth(RC["hatch.linewidth"])
        renderer.draw_path(gc, _path(part), place, face if face[3] else None)
        gc.restore()

    def _write(self, renderer: Any, words: Words, matrix: Any, unit: float) -> None:
        gc: Any = renderer.new_gc()
        gc.set_foreground(self._theme.color(words.role))
        gc.set_alpha(self.get_alpha())
        side, share = _SIDES[words.anchor]
        if isinstance(renderer, RendererAgg):  # outlines stand between pixels too, and take a tenth of the time
            gc.set_linewidth(0)
            outline, width = _outline(words.text, words.size, words.bold)
            placed = matrix.copy()
            placed[:2, 2] += matrix[:2, :2] @ (words.x - share * width, words.y)
            plain: Any = renderer
            plain.draw_path(gc, outline, Affine2D(placed), gc.get_rgb())
        else:
            own = isinstance(renderer, SvgRenderer)
            x = words.x if own else words.x - share * text_width(words.text, words.size, words.bold)
            (a, _, dx), (_, d, dy), _ = matrix.tolist()
            left, base = a * x + dx, d * words.y + dy
            if renderer.flipy():
                base = renderer.get_canvas_width_height()[1] - base
            font = _font(round(words.size * unit, 3), words.bold)
            renderer.draw_text(gc, left, base, words.text, font, 0, mtext=_Anchor(side) if own else None)
        gc.restore()


class _Anchor:
    """What a renderer asks of a text: at which of its sides it is held."""

    def __init__(self, side: str) -> None:
        self._side = side

    def get_horizontalalignment(self) -> str:
        return self._side


@contextmanager
def theme_context() -> Iterator[None]:
    """matplotlib's settings as pictures need them, for as long as the block lasts."""
    with rc_context(RC):
        yield


def make_figure(scene: Scene, theme: Theme = LIGHT) -> Figure:
    """The scene as a `matplotlib.figure.Figure` of its own size; pyplot is not involved."""
    with theme_context():
        return _figure(scene, theme)


def _figure(scene: Scene, theme: Theme) -> Figure:
    figure = Figure(figsize=(scene.width / _INCH, scene.height / _INCH), dpi=_INCH, facecolor=theme.color("surface"))
    place = Affine2D().scale(1 / _INCH, -1 / _INCH).translate(0, scene.height / _INCH) + figure.dpi_scale_trans
    for mark in scene.marks:
        figure.add_artist(MarkArtist(mark, theme, place))
    return figure


def draw_into(axes: Axes, scene: Scene, theme: Theme = LIGHT) -> None:
    """Draw the scene into axes, which become as wide and tall as it is; what stood in them stays.

    Args:
        axes: a subplot of anybody's figure.
        scene: what to draw.
        theme: colours.
    """
    with theme_context():
        axes.set_axis_off()
        axes.set_aspect("equal", adjustable="box")
        axes.set_xlim(0, scene.width)
        axes.set_ylim(scene.height, 0)
        for mark in scene.marks:
            axes.add_artist(MarkArtist(mark, theme, axes.transData))


def draw_marks(sheet: Sheet, scene: Scene) -> None:
    """Have matplotlib draw the scene's figure onto a sheet: the bytes are those of `svg.write_marks`."""
    with theme_context():
        figure = _figure(scene, NUMBERED)
        figure.patch.set_visible(False)
        figure.draw(SvgRenderer(sheet, scene.width, scene.height))


def make_png(scene: Scene, dpi: float, theme: Theme = LIGHT) -> bytes:
    """The scene as PNG; 96 dots per inch give one pixel per pixel of the scene."""
    out = io.BytesIO()
    with theme_context():
        figure = _figure(scene, theme)
        figure.set_dpi(dpi)
        FigureCanvasAgg(figure).print_png(out, metadata={"Software": "shardviz"})  # type: ignore[no-untyped-call]
    return out.getvalue()


def make_pdf(scene: Scene, title: str, theme: Theme = LIGHT) -> bytes:
    """The scene as PDF with text as text; the same scene gives the same bytes."""
    out = io.BytesIO()
    told = {"Title": title, "Creator": "shardviz", "Producer": "matplotlib", "CreationDate": None}
    with theme_context():
        figure = _figure(scene, theme)
        figure.set_dpi(72)  # the unit of PDF
        FigureCanvasPdf(figure).print_pdf(out, metadata=told)  # type: ignore[no-untyped-call]
    return out.getvalue()


def _path(part: Rectangle | Stroke) -> Path:
    if isinstance(part, Rectangle):
        shape = _corners(part.width, part.height, part.radius)
        return Path(np.add(shape.vertices, (part.x, part.y)), shape.codes)
    if part.curved:
        return Path(part.points, [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    return Path([*part.points, part.points[0]], closed=True) if part.closed else Path(part.points)


def _text_box(words: Words) -> Path:
    width = text_width(words.text, words.size, words.bold)
    left = words.x - _SIDES[words.anchor][1] * width
    box = Bbox.from_extents(left, words.y - words.size * 0.93, left + width, words.y + words.size * 0.24)
    return Path([*box.corners()])


@lru_cache(maxsize=256)
def _font(size: float, bold: bool) -> FontProperties:
    return FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal", size=size)


@lru_cache(maxsize=4096)
def _outline(text: str, size: float, bold: bool) -> tuple[Path, float]:
    """A text's outlines with y downwards, and its width."""
    path = TextPath((0, 0), text.replace("$", r"\$"), size=size, prop=_font(size, bold), usetex=False)
    vertices = np.asarray(path.vertices) * (1.0, -1.0)
    width = float(vertices[:, 0].max()) if len(vertices) else 0.0
    return Path(vertices, path.codes), width


@lru_cache(maxsize=1024)
def _corners(width: float, height: float, radius: float) -> Path:
    k = radius * 0.4477
    w, h, r = width, height, radius
    points = [
        (r, 0), (w - r, 0), (w - k, 0), (w, k), (w, r), (w, h - r), (w, h - k), (w - k, h), (w - r, h),
        (r, h), (k, h), (0, h - k), (0, h - r), (0, r), (0, k), (k, 0), (r, 0), (r, 0),
    ]  # fmt: skip
    line, curve = Path.LINETO, [Path.CURVE4] * 3
    return Path(points, [Path.MOVETO, line, *curve, line, *curve, line, *curve, line, *curve, Path.CLOSEPOLY])
