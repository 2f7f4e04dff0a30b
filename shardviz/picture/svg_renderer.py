"""matplotlib's drawing calls as SVG: a small backend that knows the roles of a picture and keeps text as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.backend_bases import RendererBase
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path

from shardviz.picture.look import Look
from shardviz.picture.svg import Sheet
from shardviz.picture.theme import ROLES, Role, Theme

CORNERS = 18
"""The vertices of a rectangle with round corners, which is written as a rectangle."""


class Numbered(Theme):
    """A theme whose colours are the numbers of the roles: what is drawn with it can be written in the colours of any other."""

    def color(self, role: Role) -> str:
        """The number of a role, as a colour."""
        return f"#0000{ROLES.index(role):02x}"


NUMBERED = Numbered("", "", "", "", "", "", "", "", 0.0)


class SvgRenderer(RendererBase):
    """Writes what figures of the theme `NUMBERED` draw onto a sheet.

    Args:
        sheet: takes the elements, in its own theme.
        width: of the figure in pixels of 1/96 inch.
        height: likewise.
    """

    def __init__(self, sheet: Sheet, width: float, height: float) -> None:
        super().__init__()
        self._sheet, self._width, self._height = sheet, width, height

    def open_group(self, s: str, gid: str | None = None) -> None:
        """Begin an artist."""
        if s == "cell" and gid:
            self._sheet.begin(gid)

    def close_group(self, s: str) -> None:
        """End an artist."""
        if s == "cell":
            self._sheet.end()

    def draw_path(self, gc: Any, path: Any, transform: Any, rgbFace: Any = None) -> None:
        """Write a rectangle with round corners, or a line."""
        (a, b, dx), (c, d, dy), _ = transform.get_matrix().tolist()
        points = [(a * x + b * y + dx, self._height - (c * x + d * y + dy)) for x, y in path.vertices.tolist()]
        look, codes = _look(gc, rgbFace), () if path.codes is None else path.codes.tolist()
        if len(points) == CORNERS:
            left, top, right, bottom = points[12][0], points[0][1], points[4][0], points[8][1]
            self._sheet.rectangle(left, top, right - left, bottom - top, points[0][0] - left, look)
            return
        closed = codes[-1:] == [Path.CLOSEPOLY]
        self._sheet.path(points[:-1] if closed else points, Path.CURVE3 in codes, closed, look)

    def draw_text(  # the arguments are matplotlib's
        self, gc: Any, x: float, y: float, s: str, prop: FontProperties, *_: Any, mtext: Any = None
    ) -> None:
        """Write a line of text at its anchor."""
        anchor = {"left": "start", "center": "middle", "right": "end"}[mtext.get_horizontalalignment()] if mtext else "start"
        self._sheet.text(x, y, s, float(prop.get_size()), _role(gc.get_rgb()), anchor, prop.get_weight() == "bold")

    def get_canvas_width_height(self) -> tuple[float, float]:
        """The size of the figure."""
        return self._width, self._height

    def flipy(self) -> bool:
        """Whether y counts downwards."""
        return True


def _look(gc: Any, face: Sequence[float] | None) -> Look:
    _, dashes = gc.get_dashes()
    width = float(gc.get_linewidth())
    fill = None if face is None or (len(face) == 4 and face[3] == 0) else _role(face)
    hatch = _role(gc.get_hatch_color()) if gc.get_hatch() else None
    return Look(fill, _role(gc.get_rgb()) if width else None, width, tuple(map(float, dashes or ())), hatch)


def _role(color: Sequence[float]) -> Role:
    return ROLES[round(color[2] * 255)]
