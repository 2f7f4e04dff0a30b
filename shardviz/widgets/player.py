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

AT_ONCE = 2000
"""How many cells are drawn before somebody looks at them; the step that is shown is drawn in any case."""


class Player(anywidget.AnyWidget):
    """Walks through a story: buttons, a slider, arrow keys, and the picture of the step.

    The pictures of a small story are all sent at once, so that moving through them needs no word with the kernel; those of a
    large one are drawn when they are near.

    Attributes:
        heading: what the story is.
        names: of the steps.
        kinds: "local" or "collective", per step.
        sentences: what happened, per step.
        frames: markup per step; "" where it was not drawn with the first ones.
        late: pictures that were drawn afterwards: markup by step number, and the `story` they belong to.
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
        self._draw_around(step)
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
        """The markup of a step's picture, drawn now if it was not yet."""
        if step not in self._drawn:
            self._draw(step)
        return self._drawn[step]

    def _draw(self, step: int) -> int:
        """Draw the picture of a step; how many cells it has."""
        assert self._trace is not None
        picture = draw(self._trace, step=step)
        self._drawn[step] = framed(picture, "Picture of the step")
        return len(picture.scene.cells)

    def _draw_around(self, step: int) -> list[int]:
        """Draw a step's picture, then its neighbours while they are small; the numbers of those that are new."""
        cells = 0
        steps = len(self._trace.steps) if self._trace else 0
        new = [number for number in sorted(range(steps), key=lambda n: abs(n - step)) if number not in self._drawn]
        for place, number in enumerate(new):
            if place and cells > AT_ONCE:
                return new[:place]
            cells += self._draw(number)
        return new

    @observe("step")
    def _need(self, _change: object) -> None:
        if self._trace is None or not self.frames:
            return
        if new := self._draw_around(min(max(self.step, 0), len(self.names) - 1)):
            self.late = {"story": self.story, "frames": {str(number): self._drawn[number] for number in new}}
