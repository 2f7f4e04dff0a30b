"""Which answer is shown, runs on real ranks, and undo; a view of the explorer's state."""

from __future__ import annotations

import anywidget
from traitlets import Bool, Dict, Float, List, Unicode

from shardviz.widgets.assets import STYLE, script

__all__ = ["Running"]


class Running(anywidget.AnyWidget):
    """Buttons; it sends `{"do": "stop" | "undo" | "redo" | "dismiss"}` when one is pressed.

    Its button for a run tells the controls, so that what was typed before arrives before.

    Attributes (those that are not in `ExplorerState` or `History`):
        stories: the stories to choose from; a choice is shown where there are two.
        source: where what is shown comes from.
        hint: what the answer that was chosen needs first, or "".
    """

    _esm = script("running.js")
    _css = STYLE

    answer = Unicode().tag(sync=True)
    story = Unicode().tag(sync=True)
    errors = Dict().tag(sync=True)
    busy = Bool().tag(sync=True)
    progress = Unicode().tag(sync=True)
    fraction = Float().tag(sync=True)
    failure = Unicode().tag(sync=True)
    can_undo = Bool().tag(sync=True)
    can_redo = Bool().tag(sync=True)

    stories = List(Unicode()).tag(sync=True)
    source = Unicode().tag(sync=True)
    hint = Unicode().tag(sync=True)
