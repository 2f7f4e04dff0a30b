"""Pictures: against an artist per cell, the time of one step of a slider, the size of a page, and whether memory grows."""

from __future__ import annotations

import gc
import io
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from shardviz.bench.measure import Measurement, seconds
from shardviz.core.spec import parse
from shardviz.core.trace import Trace
from shardviz.core.unshuffle import unshuffle
from shardviz.picture import draw
from shardviz.picture.figure import make_png
from shardviz.picture.scene import Cell, Scene
from shardviz.picture.theme import HUES

__all__ = ["bench_draw"]

RANKS, CELLS = 8, 64
CELL, GAP = 22.0, 2.0
FASTER = 10
SLIDERS = {"[5] on dp=2, tp=2: _S(0, 2), S(0)": ("five elements", 60), "[64, 8] on dp=4, tp=2: _S(0, 2), S(0)": ("8 × 64", 120)}
PAGE_MEGABYTES = 2.0
REDRAWS, GROWTH_MEGABYTES = 1000, 8.0


def bench_draw() -> Iterator[Measurement]:
    """What people wait for when they look, and the promises for it."""
    yield _at_most(f"memory gained over {REDRAWS:,} redraws", _growth(), GROWTH_MEGABYTES)
    cells = _grid()
    ours, theirs = (seconds(lambda way=way: way(cells), repeats=5) for way in (_collections, _artists))  # type: ignore[misc]
    yield Measurement(f"{RANKS} × {CELLS} labelled cells as PNG: shardviz", 1000 * ours, "milliseconds")
    yield Measurement(f"{RANKS} × {CELLS} labelled cells as PNG: an artist per cell", 1000 * theirs, "milliseconds")
    ratio = theirs / ours
    yield Measurement("faster than an artist per cell", ratio, "times", f"at least {FASTER}", ratio >= FASTER)
    for text, (name, most) in SLIDERS.items():
        took = 1000 * statistics.median(_step_seconds(unshuffle(text)))
        yield Measurement(f"a step of the story, {name}", took, "milliseconds", f"at most {most}", took <= most)
        took = 1000 * statistics.median(_change_seconds(text))
        yield Measurement(f"another size in the explorer, {name}", took, "milliseconds", f"at most {most}", took <= most)
    megabytes = len(draw(_long_story()).html().encode()) / 1e6
    yield _at_most("a page of 64 ranks × 20 steps × 8 elements", megabytes, PAGE_MEGABYTES)


def _at_most(name: str, megabytes: float, most: float) -> Measurement:
    return Measurement(name, megabytes, "megabytes", f"at most {most:g}", megabytes <= most)


def _grid() -> Scene:
    cells = [
        Cell(CELL * column, CELL * row, CELL - GAP, CELL - GAP, hue=row, label=str(CELLS * row + column), size=8.0)
        for row in range(RANKS)
        for column in range(CELLS)
    ]
    return Scene(CELL * CELLS, CELL * RANKS, tuple(cells))


def _collections(grid: Scene) -> bytes:
    return make_png(grid, 96)


def _artists(grid: Scene) -> bytes:
    """The plain way to draw the same with matplotlib: a rectangle and a text for every cell."""
    figure = Figure(figsize=(grid.width / 96, grid.height / 96), dpi=96)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, grid.width)
    axes.set_ylim(grid.height, 0)
    for cell in grid.cells:
        axes.add_patch(Rectangle((cell.x, cell.y), cell.width, cell.height, facecolor=HUES[cell.hue]))
        middle = (cell.x + cell.width / 2, cell.y + cell.height / 2)
        axes.text(*middle, cell.label, fontsize=6, ha="center", va="center", color="white")
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)  # type: ignore[no-untyped-call]
    return out.getvalue()


def _step_seconds(story: Trace) -> Iterator[float]:
    """From a step's number to its picture as a notebook gets it, every step a few times."""
    for _ in range(5):
        for step in range(len(story.steps)):
            began = time.perf_counter()
            draw(story, step=step).markup()
            yield time.perf_counter() - began


def _change_seconds(text: str) -> Iterator[float]:
    """From another size of the first dimension to the explorer's new pictures, layout and story."""
    from shardviz.widgets.explorer import explore

    explorer = explore(text)
    first, *rest = parse(text).shape
    try:
        for size in range(first + 1, first + 16):
            began = time.perf_counter()
            explorer.state.shape = ", ".join(map(str, (size, *rest)))
            yield time.perf_counter() - began
    finally:
        explorer.close()


def _long_story() -> Trace:
    story = unshuffle(parse("[512] on dp=32, tp=2: _S(0, 2), S(0)"))
    return replace(story, steps=story.steps[:1] * 20)


def _growth() -> float:
    """Memory in megabytes (10⁶ bytes) that stays after many redraws, once the allocator and the caches have settled."""
    story = unshuffle(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)"))

    def redraw(times: int) -> float:
        for number in range(times):
            picture = draw(story, step=number % len(story.steps))
            picture.svg()
            if number % 10 == 0:
                picture.png(96)
        gc.collect()
        return _resident()

    _, before, after = (redraw(REDRAWS) for _ in range(3))
    return after - before


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
