"""A sweep over sizes: a strip chart, and a slider that asks about one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
from traitlets import Bool, Int, List, Unicode, observe

from shardviz.checks.audits.picture import misreported
from shardviz.core.errors import ShardvizError, SpecError
from shardviz.core.spec import Spec
from shardviz.core.sweeping import Axis, Swept, axes, resized, size_of, sweep
from shardviz.picture.scene_sweep import draw_sweep, margins
from shardviz.widgets.answers import Answer
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.framed import framed

__all__ = ["Sweep"]

MOST_SIZES = 128
MOST_RANKS = 1024
REACH = 32


class Sweep(anywidget.AnyWidget):
    """A chart over a range of sizes; it handles `{"do": "size"}` by asking about that size.

    Args:
        ask: takes a question.

    Attributes:
        unfolded: whether it is unfolded.
        axes: what can be varied, by name.
        axis: what is varied.
        first: the first size, as text.
        last: the last size, as text.
        error: why there is no such range, or "".
        markup: the chart.
        bounds: the first and last size of the chart.
        now: the present size.
        sentence: what is found at the present size.
        margins: the per cent of the chart's width to the left and right of its columns, and its width in pixels.
        answered: a number that changes with every answer.
    """

    _esm = script("sweep.js")
    _css = STYLE

    unfolded = Bool(False).tag(sync=True)
    axes = List(Unicode()).tag(sync=True)
    axis = Unicode().tag(sync=True)
    first = Unicode().tag(sync=True)
    last = Unicode().tag(sync=True)
    error = Unicode().tag(sync=True)
    markup = Unicode().tag(sync=True)
    bounds = List(Int(), [0, 0]).tag(sync=True)
    now = Int(0).tag(sync=True)
    sentence = Unicode().tag(sync=True)
    margins = List().tag(sync=True)
    answered = Int(0).tag(sync=True)

    def __init__(self, ask: Callable[[Spec], None]) -> None:
        self._ask = ask
        self._spec: Spec | None = None
        self._settling = False
        self._known: tuple[object, tuple[Swept, ...]] = (None, ())
        super().__init__()
        self.on_msg(self._act)

    def show(self, answer: Answer) -> None:
        """Sweep about another question; the range stays while the present size lies in it."""
        self._spec = answer.layout.spec
        named = axes(self._spec)
        if list(named) != self.axes or self.axis not in named:
            self.axes = list(named)
            self.axis = self.axis if self.axis in named else self.axes[0]
        self._draw()

    @observe("axis")
    def _range_anew(self, _change: object) -> None:
        if self._spec is not None:
            self.first = self.last = ""
            self._draw()

    @observe("first", "last")
    def _typed(self, _change: object) -> None:
        if not self._settling:
            self._draw()

    def _draw(self) -> None:
        spec = self._spec
        if spec is None or self.axis not in axes(spec):
            return
        axis = axes(spec)[self.axis]
        now = size_of(spec, axis)
        try:
            low, high = self._bounds(axis, now)
            found = self._found(spec, axis, low, high)
        except ShardvizError as error:
            self.error = str(error)
            return
        here = next((one for one in found if one.size == now), None)
        picture = draw_sweep(self.axis, found, now)
        with self.hold_sync():
            self.error, self.bounds, self.now = "", [low, high], now
            self.markup = framed(picture, "Sweep")
            self.margins = [*margins(picture.scene), round(picture.scene.width)]
            self.sentence = here.sentence if here else f"The present size, {now:,}, is outside."

    def _bounds(self, axis: Axis, now: int) -> tuple[int, int]:
        """The range: what was typed, or one around the present size."""
        least = 0 if axis[0] == "tensor" else 1
        if not self.first and not self.last:
            low = max(least, now - REACH // 2)
            self._settling = True
            self.first, self.last = str(low), str(low + (REACH if axis[0] == "tensor" else REACH // 2 - 1))
            self._settling = False
        try:
            low, high = int(self.first), int(self.last)
        except ValueError:
            raise SpecError(f"{self.first!r} to {self.last!r}: a range is two whole numbers") from None
        if not least <= low < high or high - low >= MOST_SIZES:
            raise SpecError(f"{low} to {high}: a range begins at {least} or later, and has 2 to {MOST_SIZES} sizes")
        return low, high

    def _found(self, spec: Spec, axis: Axis, low: int, high: int) -> tuple[Swept, ...]:
        """The facts, which do not change while a person walks through the range."""
        base = resized(spec, axis, low)
        if resized(spec, axis, high).mesh.size > MOST_RANKS:
            raise SpecError(f"a sweep goes up to meshes of {MOST_RANKS:,} ranks")
        key = (base, axis, low, high)
        if self._known[0] != key:
            self._known = (key, sweep(spec, axis, range(low, high + 1), misreported))
        return self._known[1]

    def _act(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        if message.get("do") == "size" and self._spec is not None:
            self._ask(resized(self._spec, axes(self._spec)[self.axis], int(message["size"])))
            self.answered += 1
