"""The controls of the explorer: a view in the browser of the explorer's state."""

from __future__ import annotations

from pathlib import Path

import anywidget
from traitlets import Bool, Dict, Float, List, Unicode

from shardviz.core.layout import READINGS

__all__ = ["Controls"]

HERE = Path(__file__).parent


class Controls(anywidget.AnyWidget):
    """Fields and buttons; it sends `{"do": "run" | "stop" | "add" | "remove" | "dismiss"}` when a button is pressed.

    Attributes (those that are not in `ExplorerState`):
        readings: the readings to choose from.
        stories: the stories to choose from; a choice is shown where there are two.
        suggestions: placements to choose from.
        size: the number of ranks of the mesh, in words.
        note: where the readings differ.
        source: where what is shown comes from.
        hint: what the answer that was chosen needs first, or "".
        verdict: the outcome of a run in a sentence; "" where none is shown.
        differences: a sentence per disagreement.
    """

    _esm = HERE / "controls.js"
    _css = HERE / "explorer.css"

    notation = Unicode().tag(sync=True)
    shape = Unicode().tag(sync=True)
    rows = List(Dict()).tag(sync=True)
    errors = Dict().tag(sync=True)
    reading = Unicode().tag(sync=True)
    answer = Unicode().tag(sync=True)
    story = Unicode().tag(sync=True)
    busy = Bool().tag(sync=True)
    progress = Unicode().tag(sync=True)
    fraction = Float().tag(sync=True)
    failure = Unicode().tag(sync=True)

    readings = List(Unicode(), ["auto", *READINGS]).tag(sync=True)
    stories = List(Unicode()).tag(sync=True)
    suggestions = List(Unicode()).tag(sync=True)
    size = Unicode().tag(sync=True)
    note = Unicode().tag(sync=True)
    source = Unicode().tag(sync=True)
    hint = Unicode().tag(sync=True)
    verdict = Unicode().tag(sync=True)
    differences = List(Unicode()).tag(sync=True)
