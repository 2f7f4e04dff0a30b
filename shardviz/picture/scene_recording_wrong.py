"""What went wrong in a recorded program, in red words."""

from __future__ import annotations

from shardviz.core.recording import Recording
from shardviz.picture.panels import Panel
from shardviz.picture.recording_facts import wrong_lines
from shardviz.picture.scene import Mark, Text
from shardviz.picture.scene_parts import EDGE
from shardviz.picture.theme import BODY, clip, wrap
from shardviz.picture.words import number

LISTED = 12
"""The most sentences that are listed one by one."""


def wrong_panel(recording: Recording, width: float) -> Panel:
    """What went wrong, in red words, the first sentences of many."""
    lines = wrong_lines(recording)
    marks: list[Mark] = []
    y = 0.0
    for text in lines[:LISTED]:
        for part in wrap(text, (width - 2 * EDGE) / 1.14, BODY, 2):  # bold is wider than measured
            marks.append(Text(0, y, clip(part, width - 2 * EDGE, BODY, True), BODY, "red", bold=True))
            y += 16
    if len(lines) > LISTED:
        marks.append(Text(0, y, f"and {number(len(lines) - LISTED)} more", BODY, "red", bold=True))
        y += 16
    return Panel(tuple(marks), width, y + 12 if lines else 0.0)
