"""A picture: shows itself in a notebook, and writes itself as SVG, PNG, PDF, GIF, or a self-contained page."""

from __future__ import annotations

import base64
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from shardviz.core.errors import FileError
from shardviz.picture.drawn import Drawn
from shardviz.picture.rendered import scene_svg
from shardviz.picture.theme import ADAPTIVE, DARK_NOTEBOOK, LIGHT, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 600
"""The most cells that a notebook gets as SVG; a bitmap is lighter beyond."""


class Picture(Drawn):
    """A drawing of facts that shows itself in a notebook, and writes itself to files; matplotlib renders it."""

    def figure(self, theme: Theme = LIGHT) -> Figure:
        """The picture as a `matplotlib.figure.Figure` of its own; pyplot knows nothing of it.

        Every mark is an artist. Those of cells have a `gid` that names step, rank and elements: `rank-0-element-4` of a layout,
        `step-3-rank-1-padding` of a story.

        Example:
            >>> from shardviz.picture import draw
            >>> figure = draw("[3] on tp=2: S(0)").figure()
            >>> for artist in figure.findobj(lambda artist: artist.get_gid() == "rank-1-element-2"):
            ...     artist.set_edgecolor("black")
        """
        from shardviz.picture.figure import make_figure

        return make_figure(self.scene, theme)

    def draw_into(self, axes: Axes, theme: Theme = LIGHT) -> None:
        """Draw the picture into a subplot of your own, which takes on the picture's coordinates."""
        from shardviz.picture.figure import draw_into

        draw_into(axes, self.scene, theme)

    def svg(self) -> str:
        """The picture as SVG, on a light ground of its own; the same picture always gives the same text."""
        return scene_svg(self.scene, self.alt)

    def png(self, dpi: float = 144) -> bytes:
        """The picture as PNG; at 96 dots per inch it has the size of the scene in pixels."""
        from shardviz.picture.figure import make_png

        return make_png(self.scene, dpi)

    def pdf(self) -> bytes:
        """The picture as PDF for a paper: text stays text, and the same picture always gives the same bytes."""
        from shardviz.picture.figure import make_pdf

        return make_pdf(self.scene, self.title)

    def html(self) -> str:
        """The picture as one self-contained page: it follows elements under the pointer, and plays a story."""
        from shardviz.picture.pages import Section, page

        return page(self.title, [Section(picture=self)])

    def gif(self) -> bytes:
        """A story as an animation, one frame per step.

        Raises:
            FileError: the picture is no story, so there is nothing to animate.
        """
        if not self.frames:
            raise FileError(
                "only a story has steps to animate (shardviz draw --story): save this picture as .svg, .png or .html"
            )
        from shardviz.picture.gif import make_gif

        return make_gif(self.frames, self.text.splitlines()[0])

    def content(self, name: str) -> bytes:
        """What a file of this name would hold.

        Raises:
            FileError: the ending of the name says nothing that a picture can be saved as.
        """
        writers: dict[str, Callable[[], bytes]] = {
            ".svg": lambda: self.svg().encode(),
            ".png": self.png,
            ".pdf": self.pdf,
            ".html": lambda: self.html().encode(),
            ".gif": self.gif,
        }
        suffix = Path(name).suffix
        if suffix not in writers:
            raise FileError(f"{name!r}: a picture is saved as {', '.join(writers)}, by the ending of the name")
        return writers[suffix]()

    def save(self, path: str | Path) -> Path:
        """Write the picture; the name's ending says how.

        Args:
            path: a file name that ends in `.svg`, `.png`, `.pdf`, `.html` or, for a story, `.gif`; missing folders are made.

        Raises:
            FileError: another ending, or the file cannot be written.
        """
        target = Path(path)
        content = self.content(target.name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as error:
            raise FileError(f"the picture cannot be written to {target}: {error.strerror}") from error
        return target

    def markup(self, followed: bool = False) -> str:
        """The picture as an HTML fragment with its alternative text: SVG while it is small, an image otherwise.

        SVG follows a dark notebook; elsewhere it takes the colours of the CSS variables `--shardviz-ink`, `--shardviz-surface`
        and so on where they are set.

        Args:
            followed: every cell of SVG tells which elements it shows, for a page that follows them.
        """
        if len(self.scene.cells) <= FEW:
            return scene_svg(self.scene, self.alt, ADAPTIVE, DARK_NOTEBOOK, self.dims if followed else None)
        data = base64.b64encode(self.png()).decode()
        size = f'width="{round(self.scene.width)}" height="{round(self.scene.height)}"'
        return f'<img alt="{escape(self.alt)}" {size} src="data:image/png;base64,{data}">'

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.markup(), "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text
