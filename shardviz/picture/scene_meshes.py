"""A map of meshes: a cell for each, the sizes of one dimension down and of the last across, red where something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from shardviz.picture.drawn import Table
from shardviz.picture.panels import Panel, below, lines, padded
from shardviz.picture.picture import Picture
from shardviz.picture.scene import Box, Mark, Text, scene
from shardviz.picture.theme import BODY, SMALL, text_width

__all__ = ["MeshMap", "draw_meshes"]

EDGE, PITCH, GAP = 16.0, 24.0, 22.0


@dataclass(frozen=True)
class MeshMap:
    """What a map of meshes shows.

    Attributes:
        title: in one line.
        premises: what it is about and how it is known, a line each.
        names: the mesh dimensions that vary.
        sizes: the sizes of each.
        signs: a letter per mesh, by its sizes; `well` where nothing is wrong.
        well: the sign of a mesh on which nothing is wrong.
        legend: every sign that is used, with what it means and on how many meshes it stands.
    """

    title: str
    premises: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]
    signs: Mapping[tuple[int, ...], str]
    well: str
    legend: tuple[tuple[str, str, int], ...]


def draw_meshes(shown: MeshMap, text: str) -> Picture:
    """Draw the map; more than two dimensions give a grid for each combination of the first ones.

    Args:
        shown: the facts.
        text: the map in words.
    """
    *outer, down, across = ((1,), *shown.sizes) if len(shown.sizes) == 1 else shown.sizes
    grids = []
    for place in product(*outer):
        said = ", ".join(f"{name}={size}" for name, size in zip(shown.names, place, strict=False))
        grid = _grid(shown, place, down, across)
        grids.append(below([lines([said], BODY, 10, bold=True), grid]) if said else grid)
    head = below([lines([shown.title], BODY + 2, 20, bold=True), lines(shown.premises, SMALL, 15, "muted")])
    legend = Panel(tuple(_legend(shown)), 260, 26.0 * len(shown.legend))
    whole = padded(below([head, below(grids, GAP), legend], GAP), EDGE, EDGE + 10, 0)
    width = max(whole.width, *(EDGE + text_width(line, SMALL) for line in (*shown.premises, "")), 240) + EDGE
    rows = tuple((", ".join(map(str, sizes)), sign) for sizes, sign in shown.signs.items())
    return Picture(scene(width, whole.height, whole.marks), shown.title, text, Table((", ".join(shown.names), "sign"), rows))


def _grid(shown: MeshMap, place: tuple[int, ...], down: Sequence[int], across: Sequence[int]) -> Panel:
    alone = len(shown.names) == 1
    name = "" if alone else shown.names[-2]
    left = 8 + max(text_width(f"{name}={size}", SMALL) for size in down) if not alone else 0.0
    marks: list[Mark] = [Text(left, 10, f"{shown.names[-1]} =", SMALL, "muted")]
    wide = max(PITCH, max(text_width(str(size), SMALL) for size in across) + 6)
    for column, size in enumerate(across):
        marks.append(Text(left + (column + 0.5) * wide, 26, str(size), SMALL, "muted", "middle"))
    for row, size in enumerate(down):
        y = 34 + row * PITCH
        if not alone:
            marks.append(Text(left - 8, y + PITCH / 2 + 3.5, f"{name}={size}", SMALL, "muted", "end"))
        for column, last in enumerate(across):
            sign = shown.signs[(last,) if alone else (*place, size, last)]
            marks += _cell(left + column * wide, y, wide, sign, sign == shown.well)
    return Panel(tuple(marks), left + len(across) * wide, 34 + len(down) * PITCH)


def _cell(x: float, y: float, wide: float, sign: str, well: bool) -> Iterator[Mark]:
    """A quiet field where all is well; red, with its letter, where not."""
    if well:
        yield Box(x + 1, y + 1, wide - 2, PITCH - 2, fill="panel", radius=2)
    else:
        yield Box(x + 1.5, y + 1.5, wide - 3, PITCH - 3, fill="surface", stroke="red", line=1.6, radius=2)
    yield Text(x + wide / 2, y + PITCH / 2 + 4, sign, SMALL, "muted" if well else "red", "middle", not well)


def _legend(shown: MeshMap) -> Iterator[Mark]:
    for row, (sign, words, count) in enumerate(shown.legend):
        yield from _cell(0, row * 26.0 - 12, PITCH, sign, sign == shown.well)
        yield Text(PITCH + 8, row * 26.0 + 4, f"{words}: {count:,} mesh{'es' * (count != 1)}", SMALL)
