"""One measurement, its goal, and how to time a function."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Measurement", "seconds"]


@dataclass(frozen=True)
class Measurement:
    """One thing that was measured.

    Attributes:
        name: what.
        value: how much.
        unit: of what, in words ("seconds", "times").
        goal: what is promised, in words; "" where nothing is.
        met: whether the promise is kept.
    """

    name: str
    value: float
    unit: str
    goal: str = ""
    met: bool = True


def seconds(function: Callable[[], object], repeats: int = 7) -> float:
    """The median time of a call, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
