"""A sweep over sizes: a strip chart, and a slider that asks about one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traitlets import Bool, Int, List, Unicode, observe

from shardviz.checks.audits.picture import misreported
from shardviz.core.errors import ShardvizError, SpecError
from shardviz.core.spec import Spec
from shardviz.core.sweeping import Axis, Swept, axes, resized, size_of, sweep
from shardviz.picture.scene_sweep import draw_sweep, margins
from shardviz.widgets.answers import Answer
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.framed import framed
from shardviz.widgets.limits import drawable, places, quick
from shardviz.widgets.part import Part

__all__ = ["Sweep"]

MOST_SIZES = 128
MOST_PLACES = 4096
"""How much is looked at in all sizes together, as `places` counts it."""

REACH = 32


class Sweep(Part):
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

    def show(self, answer: Answer) -> None:
        """Sweep about another question; the range stays while the present size lies in it."""
        self._spec = answer.layout.spec
        named = axes(self._spec)
        if list(named) != self.axes or self.axis not in named:
            self.axes = list(named)
            self.axis = self.axis if self.axis in named else self.axes[0]
        axis = axes(self._spec)[self.axis]
        if not self.bounds[0] <= size_of(self._spec, axis) <= self.bounds[1]:
            self._settle("", "")
        self._draw()

    @observe("axis")
    def _range_anew(self, _change: object) -> None:
        if self._spec is not None:
            self._settle("", "")
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
            low, high = self._bounds(spec, axis, now)
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

    def _settle(self, first: str, last: str) -> None:
        """Set the range without drawing it."""
        self._settling = True
        self.first, self.last = first, last
        self._settling = False

    def _bounds(self, spec: Spec, axis: Axis, now: int) -> tuple[int, int]:
        """The range: what was typed, or one around the present size."""
        least = 0 if axis[0] == "tensor" else 1
        if not self.first and not self.last:
            self._settle(*map(str, _around(spec, axis, now, least)))
        try:
            low, high = int(self.first), int(self.last)
        except ValueError:
            raise SpecError(f"{self.first[:20]!r} to {self.last[:20]!r}: a range is two whole numbers") from None
        if not least <= low < high or high - low >= MOST_SIZES:
            raise SpecError(
                f"{self.first[:20]} to {self.last[:20]}: a range begins at {least} or later, and has 2 to {MOST_SIZES} sizes"
            )
        return low, high

    def _found(self, spec: Spec, axis: Axis, low: int, high: int) -> tuple[Swept, ...]:
        """The facts, which do not change while a person walks through the range."""
        base = resized(spec, axis, low)
        if (work := _work(spec, axis, low, high)) > MOST_PLACES:
            raise SpecError(f"{work:,} pieces in all these sizes: a sweep looks at {MOST_PLACES:,}; choose fewer sizes")
        key = (base, axis, low, high)
        if self._known[0] != key:
            self._known = (key, sweep(spec, axis, range(low, high + 1), misreported))
        return self._known[1]

    def act(self, message: dict[str, Any]) -> None:
        """Ask about another size."""
        if message.get("do") == "size" and self._spec is not None:
            self._ask(resized(self._spec, axes(self._spec)[self.axis], int(message["size"])))
            self.answered += 1


def _around(spec: Spec, axis: Axis, now: int, least: int) -> tuple[int, int]:
    """As many sizes around the present one as are looked at while somebody waits."""
    wide = REACH if axis[0] == "tensor" else REACH // 2
    low = max(least, now - wide // 2)
    high = low + wide
    while high - low > 1 and not _fits(spec, axis, low, high):
        low, high = (low + 1 if low < now else low), (high - 1 if high > now else high)
    return (low, high) if low < high else (low - 1, high)


def _fits(spec: Spec, axis: Axis, low: int, high: int) -> bool:
    try:
        return _work(spec, axis, low, high) <= MOST_PLACES
    except SpecError:
        return False


def _work(spec: Spec, axis: Axis, low: int, high: int) -> int:
    """How much there is to look at; the largest size has the most.

    Raises:
        SpecError: the largest size is larger than the explorer draws.
    """
    largest = resized(spec, axis, high)
    drawable(largest)
    return (high - low + 1) * places(quick(largest, "auto"))
