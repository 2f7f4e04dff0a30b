"""Following one element: a field, a sentence, and the light in the pictures."""

from __future__ import annotations

from typing import Any

from traitlets import Int, List, Unicode, observe

from shardviz.core.errors import SpecError
from shardviz.core.following import beside, index_text, read_element, whereabouts
from shardviz.widgets.answers import Answer
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.part import Part

__all__ = ["Follow"]


class Follow(Part):
    """Says where an element lies; its view lights the element in every picture of the explorer.

    Attributes:
        follow: what was typed or picked: `7`, `7, 2`, `rank 3: 0`, or "".
        lit: the global index of the element, or "" where there is none.
        shape: the global shape.
        error: why what was typed is no element, or "".
        sentence: where it lies, at the start and at the step that is shown.
        step: number of the story's step that is shown.
    """

    _esm = script("follow.js")
    _css = STYLE

    follow = Unicode().tag(sync=True)
    lit = Unicode().tag(sync=True)
    shape = List(Int()).tag(sync=True)
    error = Unicode().tag(sync=True)
    sentence = Unicode().tag(sync=True)
    step = Int(0)

    def __init__(self, **traits: Any) -> None:
        self._answer: Answer | None = None
        super().__init__(**traits)

    def show(self, answer: Answer) -> None:
        """Follow the element through another answer."""
        self._answer = answer
        self._say()

    @observe("follow", "step")
    def _say(self, _change: object = None) -> None:
        answer = self._answer
        if answer is None:
            return
        lit = sentence = error = ""
        if self.follow.strip():
            try:
                index = read_element(self.follow, answer.layout)
                steps = answer.story.steps
                number = min(max(self.step, 0), len(steps) - 1)
                lit, sentence = index_text(index), whereabouts(index, answer.layout, steps[number], number)
            except SpecError as found:
                error = str(found)
        with self.hold_sync():
            self.shape = list(answer.layout.spec.shape)
            self.lit, self.sentence, self.error = lit, sentence, error

    def act(self, message: dict[str, Any]) -> None:
        """Follow the element before or after the one that is followed; the first one where there is none."""
        if message.get("do") != "beside" or self._answer is None or not self._answer.layout.spec.numel:
            return
        shape = self._answer.layout.spec.shape
        if self.lit:
            index = beside(tuple(map(int, self.lit.split(","))), shape, int(message["by"]))
            self.follow = index_text(index)
        else:
            self.follow = index_text([0] * len(shape))
