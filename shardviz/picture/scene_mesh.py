"""The mesh: ranks in their grid, with named dimensions; the groups of a collective lit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from shardviz.core.mesh import Mesh
from shardviz.picture.panels import Panel
from shardviz.picture.scene import Cell, Line, Mark, Text
from shardviz.picture.theme import SMALL, text_width

__all__ = ["Panel", "mesh_panel"]

MOST = 64
"""The most ranks that are drawn one by one."""

DOWN = 4
"""The most rows of a grid that is wider when turned."""

ACROSS = 16
"""The most ranks of a one-dimensional mesh in a row."""

PITCH, TALL, NAME = 23.0, 18.0, 8.5


def mesh_panel(mesh: Mesh, hues: Sequence[int], groups: Sequence[Sequence[int]] = ()) -> Panel:
    """The ranks in their grid; nothing where there are too many of them.

    The two last mesh dimensions span a grid, row by row as the ranks count, turned where there would be many rows; the
    dimensions before them repeat it.

    Args:
        mesh: the mesh.
        hues: per rank, in the mesh's order, the hue of what it holds; −1 for an empty one.
        groups: ranks of each process group of a collective, to be lit.
    """
    if mesh.size > MOST:
        return Panel()
    turned = mesh.ndim > 1 and mesh.sizes[-2] > max(DOWN, mesh.sizes[-1])
    order = (mesh.ndim - 1, mesh.ndim - 2) if turned else (mesh.ndim - 2, mesh.ndim - 1)
    chip = max(24.0, text_width(str(max(mesh.ranks)), SMALL, True) + 10)
    left = max(text_width(f"{name} {size - 1}", NAME) for name, size in zip(mesh.names, mesh.sizes, strict=True)) + 8
    if mesh.ndim == 1:
        across, down = min(mesh.size, ACROSS), -(-mesh.size // ACROSS)
    else:
        across, down = mesh.sizes[order[1]], mesh.sizes[order[0]]
    head = 14.0 if mesh.ndim < 3 else 29.0
    step_x, step_y = left + across * (chip + 5) + 10, head + down * PITCH + 6
    columns = max(1, min(mesh.sizes[-3] if mesh.ndim > 2 else 1, int(560 // step_x)))
    marks: list[Mark] = []
    centres: dict[int, tuple[float, float]] = {}
    facets = list(product(*map(range, mesh.sizes[:-2])))
    for number, facet in enumerate(facets):
        x0, y0 = (number % columns) * step_x + left, (number // columns) * step_y + head
        if facet:
            title = " · ".join(f"{name} {i}" for name, i in zip(mesh.names, facet, strict=False))
            marks.append(Text(x0, y0 - 19, title, NAME, "muted", bold=True))
        marks += _names(mesh, order, across, down, x0, y0, chip)
        for place in product(*map(range, mesh.sizes[-2:])):
            position = mesh.coordinates.index((*facet, *place))
            row, col = divmod(place[-1], ACROSS) if mesh.ndim == 1 else (place[1], place[0]) if turned else place
            x, y, rank = x0 + col * (chip + 5), y0 + row * PITCH, mesh.ranks[position]
            centres[rank] = (x + chip / 2, y + TALL / 2)
            hue = hues[position]
            label = str(rank)
            marks.append(Cell(x, y, chip, TALL, "unknown" if hue < 0 else "element", hue, label, rank=rank, size=SMALL))
    marks += [Line(tuple(centres[rank] for rank in group), "lit", 11) for group in groups]
    rows = -(-len(facets) // columns)
    return Panel(tuple(marks), min(columns, len(facets)) * step_x - 15, rows * step_y - 11)


def _names(mesh: Mesh, order: tuple[int, int], across: int, down: int, x0: float, y0: float, chip: float) -> Iterator[Mark]:
    """Coordinates along the top and the left of a grid of ranks."""
    if mesh.ndim == 1:
        yield Text(x0 - 8, y0 - 5, mesh.names[0], NAME, "muted", "end")
        for col in range(across):
            yield Text(x0 + col * (chip + 5) + chip / 2, y0 - 5, str(col), NAME, "muted", "middle")
        for row in range(1, down):
            yield Text(x0 - 8, y0 + row * PITCH + 12.5, f"{row * ACROSS} +", NAME, "muted", "end")
        return
    down_name, across_name = mesh.names[order[0]], mesh.names[order[1]]
    short = text_width(f"{across_name} {across - 1}", NAME) > chip + 3
    if short:
        yield Text(x0 - 8, y0 - 5, across_name, NAME, "muted", "end")
    for col in range(across):
        label = str(col) if short else f"{across_name} {col}"
        yield Text(x0 + col * (chip + 5) + chip / 2, y0 - 5, label, NAME, "muted", "middle")
    for row in range(down):
        yield Text(x0 - 8, y0 + row * PITCH + 12.5, f"{down_name} {row}", NAME, "muted", "end")
