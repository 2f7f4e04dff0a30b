"""Complete layouts against torch's own arithmetic, and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from shardviz.bench.measure import Measurement, seconds
from shardviz.core.layout import layout
from shardviz.core.spec import Spec, parse

__all__ = ["bench_layout"]

SAMPLED = 16
"""torch is asked at every 16th coordinate, and its time taken times 16: it needs minutes for all of them."""
GOALS = {128_256: 200, 8_388_608: 10_000}
IMPORT_GOAL = 20


def bench_layout() -> Iterator[Measurement]:
    """All 1,024 ranks of dp=128, tp=8: coordinate, shape, offset and runs of each, against torch's shape and offset of each."""
    for rows, goal in GOALS.items():
        spec = parse(f"[{rows}] on dp=128, tp=8: _S(0, 8), S(0)")
        ours, theirs = seconds(lambda spec=spec: layout(spec)), _torch_seconds(spec)  # type: ignore[misc]
        yield Measurement(f"1,024 ranks, {rows:,} rows: shardviz", ours, "seconds")
        yield Measurement(f"1,024 ranks, {rows:,} rows: torch, from a sample", theirs, "seconds")
        ratio = theirs / ours
        yield Measurement(f"1,024 ranks, {rows:,} rows: faster than torch", ratio, "times", f"at least {goal:,}", ratio >= goal)
    small, large = (seconds(lambda rows=rows: layout(_spec(rows))) for rows in (10**3, 10**12))  # type: ignore[misc]
    yield Measurement("10¹² rows against 10³", large / small, "times", "at most 1.5", large / small <= 1.5)
    ratio = _import_seconds("torch") / _import_seconds("shardviz")
    yield Measurement(
        "import shardviz, faster than import torch", ratio, "times", f"at least {IMPORT_GOAL}", ratio >= IMPORT_GOAL
    )


def _spec(rows: int) -> Spec:
    return parse(f"[{rows}] on dp=128, tp=8: _S(0, 8), S(0)")


def _torch_seconds(spec: Spec) -> float:
    """The time that torch would need for every coordinate, one call each."""
    from shardviz.tensors.reported import shape_and_offset_at

    places = spec.mesh.coordinates[::SAMPLED]
    ask = shape_and_offset_at(spec)
    return seconds(lambda: [ask(place) for place in places], repeats=1) * SAMPLED


def _import_seconds(module: str) -> float:
    """The median time of an import in a fresh interpreter, less that of starting it."""

    def run(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats=5)

    return max(run(f"import {module}") - run("pass"), 1e-4)
