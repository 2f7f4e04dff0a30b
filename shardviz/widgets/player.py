"""The player of a story: a view in the browser that walks through pictures of its steps."""

from __future__ import annotations

from typing import Any

import anywidget
from traitlets import Dict, Int, List, Unicode, observe

from shardviz.core.trace import Trace
from shardviz.picture import draw
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.framed import framed

__all__ = ["Player"]


class Player(anywidget.AnyWidget):
    """Walks through a story: buttons, a slider, arrow keys, and the picture of the step.

    A step's picture is drawn when somebody first looks at it, and kept.

    Attributes:
        heading: what the story is.
        names: of the steps.
        kinds: "local" or "collective", per step.
        sentences: what happened, per step.
        frames: markup per step; "" where nobody has looked at it when the story was shown.
        late: the picture that was drawn last: markup by step number, and the `story` it belongs to.
        story: a number that changes when another story is shown.
        step: number of the step that is shown, from 0.
    """

    _esm = script("player.js")
    _css = STYLE

    heading = Unicode().tag(sync=True)
    names = List(Unicode()).tag(sync=True)
    kinds = List(Unicode()).tag(sync=True)
    sentences = List(Unicode()).tag(sync=True)
    frames = List(Unicode()).tag(sync=True)
    late = Dict().tag(sync=True)
    story = Int(0).tag(sync=True)
    step = Int(0).tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        self._trace: Trace | None = None
        self._drawn: dict[int, str] = {}
        super().__init__(**traits)

    def show(self, trace: Trace, heading: str) -> None:
        """Show a story; the step stays where the story has the same steps as the one before."""
        names = [step.name for step in trace.steps]
        self._trace, self._drawn = trace, {}
        step = self.step if names == self.names else 0
        self.frame(step)
        with self.hold_sync():
            self.story += 1
            self.heading = heading
            self.names = names
            self.kinds = [step.kind for step in trace.steps]
            self.sentences = [step.sentence for step in trace.steps]
            self.frames = [self._drawn.get(number, "") for number in range(len(names))]
            self.late = {}
            self.step = step

    def frame(self, step: int) -> str:
        """The markup of a step's picture, drawn now if nobody looked at it yet."""
        if step not in self._drawn:
            assert self._trace is not None
            self._drawn[step] = framed(draw(self._trace, step=step), "Picture of the step")
        return self._drawn[step]

    @observe("step")
    def _need(self, _change: object) -> None:
        step = min(max(self.step, 0), len(self.names) - 1)
        if self._trace is not None and self.frames and step not in self._drawn:
            self.late = {"story": self.story, "frames": {str(step): self.frame(step)}}
