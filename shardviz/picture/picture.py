"""A picture: shows itself in a notebook, and writes itself as SVG, PNG, or a self-contained page."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from shardviz.core.errors import FileError
from shardviz.picture.scene import Scene
from shardviz.picture.theme import ADAPTIVE, DARK_NOTEBOOK

__all__ = ["Frame", "Picture", "Table"]

SPOKEN = 6000
"""The most characters of an alternative text."""

FEW = 600
"""The most cells that a notebook gets as SVG; a bitmap is lighter beyond."""


@dataclass(frozen=True)
class Frame:
    """One step of a story, for a player: its scene, its name and its sentence."""

    scene: Scene
    name: str
    sentence: str


@dataclass(frozen=True)
class Table:
    """Facts in rows, for readers who prefer them to a picture."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing of facts, together with its text form.

    Attributes:
        scene: what is drawn.
        title: one line.
        text: the same facts in words: the alternative text.
        table: the same facts rank by rank.
        frames: of a story, one frame per step.
        shape: the tensor's shape; with it a page names the element under the pointer.
        dims: the tensor dimensions that the spans of its cells are about, in their order.
    """

    scene: Scene
    title: str
    text: str
    table: Table = field(repr=False)
    frames: tuple[Frame, ...] = field(default=(), repr=False)
    shape: tuple[int, ...] = ()
    dims: tuple[int, ...] = ()

    @property
    def has_elements(self) -> bool:
        """Whether a cell stands for elements of a tensor, which can be followed; those of a recorded program do not."""
        return any(cell.span for cell in self.scene.cells)

    @property
    def alt(self) -> str:
        """The alternative text: the text form, cut where it is longer than anybody would listen to."""
        return self.text if len(self.text) <= SPOKEN else self.text[:SPOKEN].rsplit("\n", 1)[0] + "\n…"

    def svg(self) -> str:
        """The picture as SVG, on a light ground of its own; the same picture always gives the same text."""
        from shardviz.picture.svg import write_svg

        return write_svg(self.scene, self.alt)

    def png(self, dpi: float = 144) -> bytes:
        """The picture as PNG; at 96 dots per inch it has the size of the scene in pixels."""
        from shardviz.picture.figure import make_png  # matplotlib is imported for bitmaps alone

        return make_png(self.scene, dpi)

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
            path: a file name that ends in `.svg`, `.png`, `.html` or, for a story, `.gif`; missing folders are made.

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
            from shardviz.picture.svg import write_svg

            return write_svg(self.scene, self.alt, ADAPTIVE, DARK_NOTEBOOK, self.dims if followed else None)
        data = base64.b64encode(self.png()).decode()
        size = f'width="{round(self.scene.width)}" height="{round(self.scene.height)}"'
        return f'<img alt="{escape(self.alt)}" {size} src="data:image/png;base64,{data}">'

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.markup(), "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text
