"""Pictures of answers: rows of slots, the target beside what somebody answered, and where they part in red."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardviz.lessons.values import value_text
from shardviz.picture import Picture, Table
from shardviz.picture.scene import Box, Cell, Line, Mark, Text, moved, scene
from shardviz.picture.scene_parts import EDGE, legend
from shardviz.picture.theme import BODY, HEADING, HUES, LABEL, SMALL, TITLE, clip, text_width, wrap

__all__ = ["Row", "board", "rank_rows"]

TALL, GAP, LANE = 24.0, 4.0, 34.0
MOST = 24
"""The most slots of a row that are drawn."""


@dataclass(frozen=True)
class Row:
    """One row: what should stand in it, and what was answered.

    Attributes:
        name: such as "rank 0".
        target: its slots; None is padding.
        yours: the answer's slots; None where there is no list for it, or nothing was answered.
        note: a quiet word beside the name.
    """

    name: str
    target: Sequence[Any]
    yours: Sequence[Any] | None = None
    note: str = ""


def rank_rows(target: Sequence[Sequence[Any]], yours: Any, names: Sequence[str] = ()) -> list[Row] | None:
    """A row per rank from lists of lists; None where the answer cannot be drawn that way.

    Example:
        >>> rank_rows([[0, 1], [2]], [[0], [1], [2]])[2]
        Row(name='rank 2', target=(), yours=[2], note='')
        >>> rank_rows([[0]], 5) is None
        True
    """
    if yours is not None and not (isinstance(yours, list) and all(isinstance(part, list) for part in yours)):
        return None
    count = max(len(target), len(yours or ()))
    rows = []
    for place in range(count):
        name = names[place] if place < len(names) else f"rank {place}"
        answered = None if yours is None else yours[place] if place < len(yours) else None
        rows.append(Row(name, target[place] if place < len(target) else (), answered))
    return rows


def board(
    title: str, rows: Sequence[Row] | None, answered: bool, hues: Mapping[Any, int] | None = None, whose: str = "yours"
) -> Picture | None:
    """Draw rows: the targets, and beside them the answer.

    Args:
        title: one line.
        rows: the rows; without them there is no picture.
        answered: whether there is an answer to draw.
        hues: the number of each element's colour; by default that of the first row whose target has it.
        whose: heading of the answer.
    """
    if rows is None:
        return None
    colours = _first_rows(rows) if hues is None else hues
    labels = [_label(slot) for row in rows for slot in (*row.target[:MOST], *(row.yours or ())[:MOST])]
    wide = max([26.0, *(text_width(label, LABEL, True) + 8 for label in labels)])
    label = max(text_width(row.name, LABEL, True) + 14 + text_width(row.note, SMALL) for row in rows) + 8
    room = max(_width(row.target, wide) for row in rows)
    yours = max(_width(row.yours, wide) for row in rows)
    second = EDGE + label + room + 56
    width = max((second + yours if answered else EDGE + label + room) + EDGE, 2 * EDGE + text_width(title, TITLE, True), 380.0)
    marks: list[Mark] = [Text(EDGE, EDGE + 12, clip(title, width - 2 * EDGE, TITLE, True), TITLE, bold=True)]
    y = EDGE + 40
    if answered:
        marks += [Text(EDGE + label, y, "target", HEADING, bold=True), Text(second, y, whose, HEADING, bold=True)]
        marks.append(Line(((second - 28, y - 12), (second - 28, y + 12 + LANE * len(rows))), "rule"))
        y += 14
    for row in rows:
        middle = y + LANE / 2
        marks.append(Text(EDGE, middle + 4, row.name, LABEL, bold=True))
        marks.append(Text(EDGE + text_width(row.name, LABEL, True) + 8, middle + 4, row.note, SMALL, "muted"))
        marks += moved(_slots(row.target, colours, wide, (), False), EDGE + label, middle - TALL / 2)
        if answered:
            marks += moved(_slots(row.yours, colours, wide, row.target, True), second, middle - TALL / 2)
        y += LANE
    key, tall = legend(_key(rows, answered), width - 2 * EDGE)
    marks += moved(key, EDGE, y + 14)
    lines = [
        f"{row.name}: target {_words(row.target)}" + (f"; {whose} {_words(row.yours)}" if answered else "") for row in rows
    ]
    table = Table(
        ("row", "target", *((whose,) if answered else ())),
        tuple((row.name, _words(row.target), *((_words(row.yours),) if answered else ())) for row in rows),
    )
    return Picture(scene(width, y + 14 + tall + EDGE - 8, marks), title, "\n".join([title, *lines]), table)


def _slots(
    slots: Sequence[Any] | None, hues: Mapping[Any, int], wide: float, target: Sequence[Any], judged: bool
) -> list[Mark]:
    """A row of slots; judged ones that are not the target's are outlined in red, and where one is missing there is a gap."""
    if slots is None:
        words = wrap("no list for this row", 200, BODY)[0]
        return [Text(0, TALL / 2 + 4, words, BODY, "red" if judged else "faint")]
    marks: list[Mark] = []
    shown = slots[:MOST]
    for place, slot in enumerate(shown):
        x = place * (wide + GAP)
        hue = -1 if slot is None else hues.get(_hashable(slot), -1)
        kind = "padding" if slot is None else "element"
        marks.append(Cell(x, 0, wide, TALL, "padding" if kind == "padding" else "element", hue, _label(slot), size=LABEL))
        if judged and (place >= len(target) or target[place] != slot):
            marks.append(_outline(x, wide, False))
    for place in range(len(shown), min(len(target), MOST)) if judged else ():
        marks.append(_outline(place * (wide + GAP), wide, True))
    if len(slots) > MOST:
        marks.append(Text(MOST * (wide + GAP), TALL / 2 + 4, f"… {len(slots) - MOST} more", SMALL, "muted"))
    if not slots and not (judged and target):
        marks.append(Text(0, TALL / 2 + 4, "nothing", BODY, "faint"))
    return marks


def _outline(x: float, wide: float, missing: bool) -> Box:
    return Box(x - 2, -2, wide + 4, TALL + 4, stroke="red", line=2.0, dashed=missing, radius=5)


def _key(rows: Sequence[Row], answered: bool) -> list[tuple[str, str]]:
    found = [("hue", "colour: the row it belongs to")] if len(rows) > 1 else []
    if any(slot is None for row in rows for slot in (*row.target, *(row.yours or ()))):
        found.append(("padding", "hatched: padding"))
    if answered:
        found.append(("differs", "red: not the target's; dashed: one is missing"))
    return found


def _width(slots: Sequence[Any] | None, wide: float) -> float:
    if slots is None:
        return text_width("no list for this row", BODY)
    more = 60.0 if len(slots) > MOST else 0.0
    return max(min(len(slots), MOST) * (wide + GAP) + more, text_width("nothing", BODY))


def _first_rows(rows: Sequence[Row]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for number, row in enumerate(rows):
        for slot in row.target:
            found.setdefault(_hashable(slot), number % len(HUES))
    return found


def _hashable(slot: Any) -> Any:
    return value_text(slot) if isinstance(slot, list | dict) else slot


def _label(slot: Any) -> str:
    return "" if slot is None else slot if isinstance(slot, str) else value_text(slot)[:12]


def _words(slots: Sequence[Any] | None) -> str:
    if slots is None:
        return "no list"
    return " ".join("#" if slot is None else _label(slot) for slot in slots) or "nothing"
