"""Pictures as one self-contained page: no kernel, no network; elements can be followed, stories played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from shardviz.picture.drawn import Drawn, Table
from shardviz.picture.rendered import scene_svg
from shardviz.picture.svg import Styles
from shardviz.picture.theme import ADAPTIVE, DARK, LIGHT, TONES, Theme

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 12
"""A table with more rows than these can be filtered."""


@dataclass(frozen=True)
class Section:
    """A part of a page: any of a heading, paragraphs (parted by empty lines), a picture and a table, in this order."""

    heading: str = ""
    prose: str = ""
    picture: Drawn | None = None
    table: Table | None = None


def page(title: str, sections: Sequence[Section], source: str = "") -> str:
    """One HTML document with everything in it.

    The pictures follow the reader's light or dark setting; an element under the pointer, or one that was clicked or typed, is
    shown wherever it is; a story has a player. A script shows, lights and moves what was rendered here, and draws nothing. Text
    from outside stays text.

    Args:
        title: heading and name of the page.
        sections: what it shows, from top to bottom.
        source: where the facts come from, for a line under the heading.
    """
    from markupsafe import Markup  # comes with jinja2

    styles, shown = Styles(), []
    for place, section in enumerate(sections):
        name = f"part{place}"
        paragraphs = section.prose.split("\n\n") if section.prose else []
        shown.append((name, section, paragraphs, [Markup(svg) for svg in _rendered(section.picture, name, styles)]))
    return _template().render(
        title=title,
        source=source,
        sections=shown,
        style=Markup(_style() + styles.text + _asset("page.css")),
        script=Markup(_asset("scene.js") + _asset("page.js")),
        most=MOST_ROWS,
    )


def _rendered(picture: Drawn | None, name: str, styles: Styles) -> Iterator[str]:
    """A picture, then its frames."""
    if picture is None:
        return
    yield scene_svg(picture.scene, picture.title, ADAPTIVE, "", picture.dims, f"{name}-words", styles)
    for place, frame in enumerate(picture.frames, 1):
        label = f"Step {place} of {len(picture.frames)}: {frame.name}"
        yield scene_svg(frame.scene, label, ADAPTIVE, "", picture.dims, "", styles)


def _style() -> str:
    dark = f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{color-scheme:light dark;{_variables(LIGHT)}}}\n{dark}\n"


def _variables(theme: Theme) -> str:
    return "".join(f"--shardviz-{tone}:{theme.color(tone)};" for tone in TONES)


@cache
def _template() -> Template:
    from jinja2 import Environment  # only pages need it

    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_asset("page.html"))


@cache
def _asset(name: str) -> str:
    return files("shardviz.picture").joinpath(name).read_text("utf-8")
