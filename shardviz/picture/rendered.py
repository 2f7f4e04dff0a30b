"""Who renders SVG: matplotlib, and a light writer of the same bytes where there is none, as on a page without an install."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from shardviz.picture.scene import Scene
from shardviz.picture.svg import Sheet, Styles, write_marks
from shardviz.picture.theme import LIGHT, Theme

Writer = Callable[[Sheet, Scene], None]
"""Puts the marks of a scene on a sheet."""


def scene_svg(
    scene: Scene,
    label: str,
    theme: Theme = LIGHT,
    style: str = "",
    dims: Sequence[int] | None = None,
    words: str = "",
    styles: Styles | None = None,
    write: Writer | None = None,
) -> str:
    """The scene as one SVG document.

    Args:
        scene: what to draw.
        label: what the picture says, for those who do not see it.
        theme: colours.
        style: a style sheet that goes with the theme.
        dims: the tensor dimensions that the cells' spans are about; every cell then tells its span, for a page that follows.
        words: the id of an element beside the picture that says it at length.
        styles: of the page that the picture is for.
        write: who writes the marks; by default matplotlib where it is installed.
    """
    sheet = Sheet(theme, dims is not None, styles)
    (write or _writer())(sheet, scene)
    return sheet.document(scene.width, scene.height, label, style, dims, words)


@cache
def _writer() -> Writer:
    try:
        from shardviz.picture.figure import draw_marks
    except ImportError:
        return write_marks
    return draw_marks
