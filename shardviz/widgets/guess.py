"""Guess first, then see: the layout stays hidden until a person has said which elements a rank holds."""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Dict, Int, List, Unicode, observe

from shardviz.core.guessing import MOST, judge
from shardviz.core.layout import Layout
from shardviz.widgets.answers import Answer
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.part import Part

__all__ = ["Guess"]


class Guess(Part):
    """Cells to choose, a rank, and a comparison; it handles `{"do": "reveal" | "again"}` itself.

    Attributes:
        unfolded: whether a person is at it.
        shape: the global shape.
        elements: how many cells there are; 0 where the tensor has none or too many.
        ranks: the ranks of the mesh.
        rank: the one whose elements are guessed.
        chosen: the cells that were chosen, as flat row-major indices.
        words: what to do.
        outcome: the cells that were "right", "missed" or "extra"; empty before they are revealed.
        sentence: the comparison in words; "" before it is revealed.
        hiding: whether the layout has to stay hidden now.
    """

    _esm = script("guess.js")
    _css = STYLE

    unfolded = Bool(False).tag(sync=True)
    shape = List(Int()).tag(sync=True)
    elements = Int(0).tag(sync=True)
    ranks = List(Int()).tag(sync=True)
    rank = Int(0).tag(sync=True)
    chosen = List(Int()).tag(sync=True)
    words = Unicode().tag(sync=True)
    outcome = Dict().tag(sync=True)
    sentence = Unicode().tag(sync=True)
    hiding = Bool(False)

    def __init__(self) -> None:
        self._layout: Layout | None = None
        super().__init__()

    def show(self, answer: Answer) -> None:
        """Ask about another layout; a guess at the same one stays."""
        found, before = answer.layout, self._layout
        self._layout = found
        if before is not None and (found.spec, found.ranks) == (before.spec, before.ranks):
            return
        spec = found.spec
        fits = 0 < spec.numel <= MOST
        with self.hold_sync():
            self.shape = list(spec.shape)
            self.elements = spec.numel if fits else 0
            self.ranks = list(spec.mesh.ranks)
            self.rank = self.rank if self.rank in spec.mesh.ranks else spec.mesh.ranks[-1]
            self._begin()

    @observe("rank")
    def _begin(self, _change: object = None) -> None:
        self.chosen, self.outcome, self.sentence = [], {}, ""
        self._hide()

    @observe("unfolded")
    def _hide(self, _change: object = None) -> None:
        self.hiding = self.unfolded and self.elements > 0 and not self.sentence
        if self.hiding:
            self.words = "The layout is hidden. Choose the elements that the rank holds, then reveal."
        elif self.elements:
            self.words = "Dashed red: missed. Red with a cross: not held."
        elif self._layout is not None:
            self.words = f"Guessing is for tensors of 1 to {MOST} elements; this one has {self._layout.spec.numel:,}."

    def act(self, message: dict[str, Any]) -> None:
        """Reveal the layout, or begin again."""
        match message.get("do"):
            case "again":
                self._begin()
            case "reveal" if self._layout is not None and self.elements:
                self.chosen = message["chosen"]  # a change of the trait may still be on its way
                found = judge(self._layout, self.rank, self.chosen)
                with self.hold_sync():
                    self.outcome = {name: list(getattr(found, name)) for name in ("right", "missed", "extra")}
                    self.sentence = found.sentence
                self._hide()
