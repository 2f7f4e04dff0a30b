"""Who renders SVG: matplotlib, and a light writer of the same bytes where there is none, as on a page without an install."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from shardviz.picture.scene import Scene
from shardviz.picture.svg import Styles, write_svg
from shardviz.picture.theme import LIGHT, Theme


def scene_svg(
    scene: Scene,
    label: str,
    theme: Theme = LIGHT,
    style: str = "",
    dims: Sequence[int] | None = None,
    words: str = "",
    styles: Styles | None = None,
) -> str:
    """The scene as one SVG document; the arguments are those of `svg.write_svg`."""
    return _writer()(scene, label, theme, style, dims, words, styles)


@cache
def _writer() -> Callable[[Scene, str, Theme, str, Sequence[int] | None, str, Styles | None], str]:
    try:
        from shardviz.picture.figure import figure_svg
    except ImportError:
        return write_svg
    return figure_svg
