"""Pictures as one self-contained page: no kernel, no network; elements can be followed, stories played."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

from shardviz.picture.picture import Picture, Table
from shardviz.picture.scene import Box, Cell, CellKind, Line, Mark, Scene, Text
from shardviz.picture.theme import DARK, HUES, LIGHT, Theme, Tone, text_on

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["MOST_ROWS", "Section", "page", "scene_data"]

TONES: tuple[Tone, ...] = get_args(Tone)
KINDS: tuple[CellKind, ...] = get_args(CellKind)
ANCHORS = ("start", "middle", "end")

MOST_ROWS = 12
"""A table with more rows than these can be filtered."""


@dataclass(frozen=True)
class Section:
    """A part of a page: any of a heading, paragraphs (parted by empty lines), a picture and a table, in this order."""

    heading: str = ""
    prose: str = ""
    picture: Picture | None = None
    table: Table | None = None


def page(title: str, sections: Sequence[Section], source: str = "") -> str:
    """One HTML document with everything in it.

    The pictures are drawn by a small script from their scenes. They follow the reader's light or dark setting; an element under
    the pointer, or one that was clicked or typed, is shown wherever it is; a story has a player. Text from outside stays text.

    Args:
        title: heading and name of the page.
        sections: what it shows, from top to bottom.
        source: where the facts come from, for a line under the heading.
    """
    from markupsafe import Markup  # comes with jinja2

    numbered = [(f"part{place}", section) for place, section in enumerate(sections)]
    data = {name: _picture_data(section.picture) for name, section in numbered if section.picture}
    return _template().render(
        title=title,
        source=source,
        sections=[(name, section, section.prose.split("\n\n") if section.prose else []) for name, section in numbered],
        style=Markup(_style() + _asset("page.css")),
        script=Markup(_asset("page.js")),
        data=Markup(_json(data)),
        most=MOST_ROWS,
    )


def scene_data(scene: Scene) -> dict[str, Any]:
    """A scene as the page's script reads it: short rows, defaults at their ends left out."""
    return {"w": scene.width, "h": scene.height, "m": [_row(mark) for mark in scene.marks]}


def _picture_data(picture: Picture) -> dict[str, Any]:
    frames = [{"name": f.name, "say": f.sentence, **scene_data(f.scene)} for f in picture.frames]
    return {**scene_data(picture.scene), "frames": frames}


def _row(mark: Mark) -> list[Any]:
    row: list[Any]
    match mark:
        case Cell():
            place = _numbers(mark.x, mark.y, mark.width, mark.height)
            row = [0, *place, KINDS.index(mark.kind), mark.hue, mark.rank, list(mark.span), mark.label, mark.size, mark.note]
        case Text():
            place = _numbers(mark.x, mark.y)
            row = [1, *place, mark.text, mark.size, TONES.index(mark.tone), ANCHORS.index(mark.anchor), int(mark.bold)]
        case Line():
            points = _numbers(*(value for point in mark.points for value in point))
            row = [2, points, TONES.index(mark.tone), mark.width, int(mark.dashed), int(mark.curved), int(mark.arrow)]
        case Box():
            place = _numbers(mark.x, mark.y, mark.width, mark.height)
            fill, stroke = (TONES.index(tone) if tone else -1 for tone in (mark.fill, mark.stroke))
            row = [3, *place, fill, stroke, mark.line, mark.radius, int(mark.dashed)]
    while row[-1] in ("", 0):
        row.pop()
    return row


def _numbers(*values: float) -> list[float]:
    short = (round(value, 1) for value in values)
    return [int(value) if value == int(value) else value for value in short]


def _json(data: object) -> str:
    """JSON that may stand inside a script element: no character in it can end the element or open a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _style() -> str:
    hues = "".join(f".h{i}{{fill:{hue}}}.o{i}{{fill:{text_on(hue)}}}.s{i}{{stroke:{hue}}}\n" for i, hue in enumerate(HUES))
    tones = "".join(f".f{i}{{fill:var(--{tone})}}.l{i}{{stroke:var(--{tone})}}\n" for i, tone in enumerate(TONES))
    tints = "".join(f".p{i}{{fill:var(--p{i})}}\n" for i in range(len(HUES)))
    dark = f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{color-scheme:light dark;{_variables(LIGHT)}}}\n{dark}\n{hues}{tones}{tints}"


def _variables(theme: Theme) -> str:
    tones = "".join(f"--{tone}:{theme.color(tone)};" for tone in TONES)
    return tones + "".join(f"--p{i}:{theme.tinted(i)};" for i in range(len(HUES)))


@cache
def _template() -> Template:
    from jinja2 import Environment  # only pages need it

    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_asset("page.html"))


@cache
def _asset(name: str) -> str:
    return files("shardviz.picture").joinpath(name).read_text("utf-8")
