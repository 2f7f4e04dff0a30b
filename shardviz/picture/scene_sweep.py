"""A sweep as a strip chart: one column per size, one row per fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardviz.core.sweeping import Swept
from shardviz.picture.drawn import Table
from shardviz.picture.picture import Picture
from shardviz.picture.scene import Box, Cell, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_axis import ticks
from shardviz.picture.scene_grid import LEAST
from shardviz.picture.theme import BODY, SMALL, Tone, text_width
from shardviz.picture.words import number

__all__ = ["draw_sweep", "margins"]

EDGE, LONG, BAR, MARK, GAP = 14.0, 660.0, 34.0, 16.0, 12.0
HEAD = {
    "padding": "slots of padding",
    "empty": "empty ranks",
    "ambiguous": "ranks where the readings differ",
    "misreported": "ranks that torch reports wrongly",
}


def draw_sweep(what: str, found: Sequence[Swept], now: int) -> Picture:
    """Draw a sweep: padding hatched, empty ranks as empty, readings that differ filled, wrong reports red; all of it counted.

    Args:
        what: what is varied, in words.
        found: a fact per size, in rising order.
        now: the size that is asked about at present.
    """
    rows = [tuple(number(getattr(one, name)) for name in ("size", *HEAD)) for one in found]
    text = "\n".join([f"{what}, {found[0].size:,} to {found[-1].size:,}:", *(one.sentence for one in found)])
    table = Table((what, *HEAD.values()), tuple(rows))
    return Picture(_scene(what, found, now), f"{what}, swept", text, table)


def _scene(what: str, found: Sequence[Swept], now: int) -> Scene:
    left = EDGE + max(text_width(words, BODY) for words in (what, *HEAD.values())) + 16
    pitch = LONG / len(found)
    wide = max(pitch - (3.0 if pitch > 8 else 1.0), LEAST)
    marks: list[Mark] = []
    y = EDGE
    for name, words in HEAD.items():
        most = max(getattr(one, name) for one in found)
        tall = BAR if name in ("padding", "empty") else MARK
        marks.append(Text(left - 16, y + tall / 2 + 4, words, BODY, "ink", "end"))
        marks.append(Box(left, y, LONG, tall, fill="panel", radius=2))
        if most:
            marks.append(Text(left + LONG + 8, y + tall / 2 + 4, f"at most {number(most)}", SMALL, "muted"))
        for place, one in enumerate(found):
            count = getattr(one, name)
            if count:
                high = max(tall * count / most, 5.0) if tall == BAR else tall
                marks += moved(_mark(name, count, wide, high), left + place * pitch, y + tall - high)
        y += tall + GAP
    marks += moved(list(_axis(what, found, pitch, left)), 0, y + 4)
    here = next((place for place, one in enumerate(found) if one.size == now), None)
    if here is not None:
        marks.append(Box(left + here * pitch - 1.5, EDGE - 5, pitch, y - EDGE + 22, stroke="ink", line=1.6, radius=3))
    return scene(left + LONG + 90, y + 28, marks)


def _mark(name: str, count: int, wide: float, high: float) -> list[Mark]:
    """One bar: padding hatched, empty ranks as empty, differing readings filled, a wrong report red and with its sign."""
    match name:
        case "padding":
            return [Cell(0, 0, wide, high, "padding")]
        case "empty":
            return [Box(0, 0, wide, high, fill="surface", stroke="muted", line=1.0, dashed=True, radius=1.5)]
        case "ambiguous":
            return [Box(0, 0, wide, high, fill="muted", radius=1.5), *_number(count, wide, high, "surface")]
    return [Box(0, 0, wide, high, fill="surface", stroke="red", line=1.6, radius=1.5), *_number(count, wide, high, "red")]


def _number(count: int, wide: float, high: float, tone: Tone) -> Iterator[Text]:
    if text_width(str(count), SMALL - 1, True) + 2 < wide:
        yield Text(wide / 2, high / 2 + 3.5, str(count), SMALL - 1, tone, "middle", True)


def _axis(what: str, found: Sequence[Swept], pitch: float, left: float) -> Iterator[Text]:
    first, sizes = found[0].size, len(found)
    yield Text(left - 16, 8, what, BODY, "muted", "end")
    every = pitch >= text_width(number(found[-1].size), SMALL) + 6
    for place in range(sizes) if every else ticks(sizes, 8):
        yield Text(left + (place + 0.5) * pitch, 8, number(first + place), SMALL, "muted", "middle")


def margins(drawn: Scene) -> tuple[float, float]:
    """How many per cent of a chart's width lie to the left and to the right of its columns."""
    panel = next(mark for mark in drawn.marks if isinstance(mark, Box) and mark.fill == "panel")
    left, right = panel.x, drawn.width - panel.x - panel.width
    return round(100 * left / drawn.width, 2), round(100 * right / drawn.width, 2)
