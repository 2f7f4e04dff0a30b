"""The question of the explorer: the line, the fields, the examples, and what is chosen about it; a view of its state."""

from __future__ import annotations

import anywidget
from traitlets import Bool, Dict, Int, List, Unicode

from shardviz.core.layout import READINGS
from shardviz.core.spec import MADE_BY
from shardviz.core.unshuffle import METHODS
from shardviz.widgets.assets import STYLE, script

__all__ = ["Controls"]


class Controls(anywidget.AnyWidget):
    """Fields; it sends `{"do": "add" | "remove" | "example"}` when one of those is asked for.

    A run is asked for by counting `runs` up: a message could overtake what was typed before it, a trait does not.

    Attributes (those that are not in `ExplorerState`):
        runs: how many runs were asked for.
        readings: the readings to choose from.
        methods: of the unshuffle, where that is predicted.
        makers: who may have made the tensor.
        predicting: whether the story is a predicted unshuffle, so that there is a method to choose.
        examples: groups of examples: a name, and a key with a label for each.
        example: the key of the example that is shown, or "".
        suggestions: placements to choose from.
        size: the number of ranks of the mesh, in words.
        note: where the readings differ.
        verdict: how it came out, in a sentence; "" where there is nothing to say.
        wrong: whether that tells of something wrong.
        differences: a sentence per disagreement.
    """

    _esm = script("controls.js")
    _css = STYLE

    notation = Unicode().tag(sync=True)
    shape = Unicode().tag(sync=True)
    rows = List(Dict()).tag(sync=True)
    errors = Dict().tag(sync=True)
    reading = Unicode().tag(sync=True)
    method = Unicode().tag(sync=True)
    to = Unicode().tag(sync=True)
    made_by = Unicode().tag(sync=True)

    runs = Int(0).tag(sync=True)
    readings = List(Unicode(), ["auto", *READINGS]).tag(sync=True)
    methods = List(Unicode(), list(METHODS)).tag(sync=True)
    makers = List(Unicode(), ["auto", *MADE_BY]).tag(sync=True)
    predicting = Bool(True).tag(sync=True)
    examples = List().tag(sync=True)
    example = Unicode().tag(sync=True)
    suggestions = List(Unicode()).tag(sync=True)
    size = Unicode().tag(sync=True)
    note = Unicode().tag(sync=True)
    verdict = Unicode().tag(sync=True)
    wrong = Bool(False).tag(sync=True)
    differences = List(Unicode()).tag(sync=True)
