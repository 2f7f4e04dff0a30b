"""What pictures have in common: the head with title, source and mesh, the ranks' labels, brackets, and the legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Source
from shardviz.picture.facts import Owners, coordinate_text
from shardviz.picture.panels import Panel
from shardviz.picture.scene import Box, Cell, Line, Mark, Text, moved
from shardviz.picture.theme import BODY, LABEL, SMALL, TITLE, clip, text_width
from shardviz.picture.words import buffer_words, number, plural

__all__ = [
    "EDGE",
    "PAGE",
    "bracket_columns",
    "brackets",
    "cell_words",
    "head",
    "head_width",
    "lane_label_width",
    "lane_labels",
    "legend",
    "rank_hues",
]

EDGE = 26.0
"""Quiet space around a picture."""

PAGE = 1040.0
"""The width at which a picture is still read on a page."""


def head_width(title: str, lines: Sequence[str], mesh: Panel) -> float:
    """The width at which the mesh stands beside the title, unless that is wider than a page."""
    wide = max(text_width(title, TITLE, True), *(text_width(line, BODY) for line in lines))
    return min(2 * EDGE + wide + (mesh.width + 40 if mesh.width else 0), PAGE)


def head(title: str, lines: Sequence[str], mesh: Panel, width: float) -> tuple[list[Mark], float]:
    """Title and quiet lines on the left, the mesh on the right where it fits there, and below them otherwise.

    Returns:
        The marks, and the y where the picture's body may begin.
    """
    beside = width - 2 * EDGE - mesh.width - 30
    wide = max(text_width(title, TITLE, True), *(text_width(line, BODY) for line in lines))
    stacked = bool(mesh.width) and min(wide, 520) > beside
    room = width - 2 * EDGE if stacked or not mesh.width else beside
    marks: list[Mark] = [Text(EDGE, EDGE + 14, clip(title, room, TITLE, True), TITLE, bold=True)]
    y = EDGE + 36.0
    for line in lines:
        marks.append(Text(EDGE, y, clip(line, room, BODY), BODY, "muted"))
        y += 17
    if stacked:
        return [*marks, *moved(mesh.marks, EDGE, y)], y + mesh.height + 26
    marks += moved(mesh.marks, width - EDGE - mesh.width, EDGE - 4)
    return marks, max(y, EDGE + mesh.height) + 16


def rank_hues(spec: Spec, buffers: Sequence[Buffer], owned: Owners) -> tuple[int, ...]:
    """Per rank the hue of what it holds first; −1 where it holds nothing."""
    return tuple(_hue(rank, buffer, owned) for rank, buffer in zip(spec.mesh.ranks, buffers, strict=True))


def _hue(rank: int, buffer: Buffer, owned: Owners) -> int:
    if not buffer.numel:
        return -1
    if buffer.pending:
        return owned.hue(rank)
    if buffer.cells is not None:
        return owned.hue(rank)
    index = [next((start for start, _ in runs if start >= 0), -1) for runs in buffer.axes]
    return -1 if -1 in index else owned.hue(owned.of(index))


def lane_labels(spec: Spec, position: int, middle: float, tall: float, devices: Sequence[str] = ()) -> list[Mark]:
    """A rank's number and coordinate: in two lines where the lane is tall enough."""
    rank = f"rank {spec.mesh.ranks[position]}"
    place = coordinate_text(spec, position)
    if len(set(devices)) > 1 and position < len(devices):
        place += f" · {devices[position]}"
    if tall >= 25:
        return [Text(0, middle - 1, rank, LABEL + 0.5, bold=True), Text(0, middle + 12, place, SMALL - 0.5, "muted")]
    size = min(LABEL, max(7.5, tall * 0.72))
    return [
        Text(0, middle + size * 0.36, rank, size, bold=True),
        Text(text_width(f"rank {max(spec.mesh.ranks)}", size, True) + 8, middle + size * 0.36, place, size - 1.5, "muted"),
    ]


def lane_label_width(spec: Spec, positions: Sequence[int], tall: float, devices: Sequence[str] = ()) -> float:
    """The room that the labels take."""
    marks = [mark for position in positions for mark in lane_labels(spec, position, 0, tall, devices)]
    return max(m.x + text_width(m.text, m.size, m.bold) for m in marks if isinstance(m, Text))


def bracket_columns(groups: Sequence[Sequence[int]], shown: Mapping[int, float]) -> list[tuple[int, list[float]]]:
    """Per group that is shown the column of its bracket and the lanes' middles: brackets that overlap stand side by side."""
    taken: list[float] = []
    found = []
    for group in groups:
        lanes = sorted(shown[rank] for rank in group if rank in shown)
        if len(lanes) < 2:
            continue
        column = next((c for c, end in enumerate(taken) if end < lanes[0]), len(taken))
        taken[column:] = [lanes[-1], *taken[column + 1 :]]
        found.append((column, lanes))
    return found


def brackets(groups: Sequence[Sequence[int]], shown: Mapping[int, float], right: float, step: float) -> list[Mark]:
    """A bracket around the lanes of each group, ending at `right`."""
    marks: list[Mark] = []
    for column, lanes in bracket_columns(groups, shown):
        x = right - 7 - column * step
        marks.append(Line(((right, lanes[0]), (x, lanes[0]), (x, lanes[-1]), (right, lanes[-1])), "ink", 1.2))
        marks += [Line(((x, y), (right, y)), "ink", 1.2) for y in lanes[1:-1]]
    return marks


def legend(items: Iterable[tuple[str, str]], width: float) -> tuple[list[Mark], float]:
    """What marks mean: a sample and words for each, in as many rows as it takes. Samples are named by their kind."""
    marks: list[Mark] = []
    x, y = 0.0, 0.0
    for kind, words in items:
        room = 26 + text_width(words, SMALL) + 22
        if x and x + room > width:
            x, y = 0.0, y + 20
        marks += moved(_sample(kind), x, y)
        marks.append(Text(x + 24, y + 11, words, SMALL, "muted"))
        x += room
    return marks, y + 16


def cell_words(spec: Spec, dims: Sequence[int]) -> str:
    """What one cell is, where it stands for more than one element; "" otherwise."""
    rest = [size for dim, size in enumerate(spec.shape) if dim not in dims]
    count = 1
    for size in rest:
        count *= size
    if not rest or not dims:
        return ""
    name = {(2, 0): "row", (2, 1): "column"}.get((spec.ndim, dims[0]), "")
    if not name:
        where = ", ".join("i" if dim in dims else ":" for dim in range(spec.ndim))
        return f"each cell is a slice [{where}] of {plural(count, 'element')}"
    return f"each cell is a whole {name} of {plural(count, 'element')}"


def source_line(source: Source, more: Sequence[str] = ()) -> str:
    """Where the facts come from, and on which devices."""
    devices = sorted(set(source.devices))
    where = [f"all on {devices[0]}"] if len(devices) == 1 and devices[0] != "cpu" else []
    return " · ".join([source.text, *where, *(part for part in more if part)])


def gap_words(count: int) -> str:
    """How many ranks are left out."""
    return f"⋮  {number(count)} more {'rank' if count == 1 else 'ranks'}"


def partial_words(spec: Spec, buffer: Buffer, position: int) -> str:
    """Which addend a rank holds: `addend 2 of 4 over dp (sum)`."""
    parts = []
    for m in buffer.pending:
        size, index = spec.mesh.sizes[m], spec.mesh.coordinates[position][m]
        op = getattr(spec.placements[m], "op", "sum")
        parts.append(f"addend {index + 1} of {size} over {spec.mesh.names[m]} ({op})")
    return ", ".join(parts)


def place_words(buffer: Buffer, shape: Sequence[int]) -> str:
    """A rank's local shape and offset, as torch would give them; of a part that is no block, which elements it has."""
    if buffer.cells is not None or not shape:
        return ""
    if any(len(runs) > 1 for runs in buffer.axes):
        return f"no one block: {buffer_words(buffer, 4)}"
    offset = ", ".join(str(runs[0][0] if runs else size) for runs, size in zip(buffer.axes, shape, strict=True))
    return f"shape [{', '.join(map(str, buffer.shape))}], offset {offset}"


def local_order(buffer: Buffer) -> bool:
    """Whether a rank holds its elements in another order than the global one."""
    known = ([run for run in runs if run[0] >= 0] for runs in (buffer.cells or (), *buffer.axes))
    return any(runs != sorted(runs) for runs in known)


def _sample(kind: str) -> list[Mark]:
    match kind:
        case "hue":
            return [Cell(0, 1, 7, 14, hue=0), Cell(8, 1, 7, 14, hue=1)]
        case "bracket":
            return [Line(((12, 2), (5, 2), (5, 14), (12, 14)), "ink", 1.2)]
        case "arrow":
            return [Line(((1, 5), (8, 17), (15, 5)), "muted", 1.1, curved=True, arrow=True)]
        case "addend":
            return [
                Box(4, 0, 12, 12, fill="surface", stroke="faint", line=0.8),
                Box(2, 2, 12, 12, fill="surface", stroke="faint", line=0.8),
                Cell(0, 4, 12, 12, "addend", 0),
            ]
        case "sum":
            return [Cell(0, 1, 15, 14, "sum")]
        case "reported":
            return [Box(0.5, 1, 15, 14, stroke="ink", line=1.2)]
        case "differs":
            return [Box(0.5, 1, 15, 14, stroke="red", line=1.8)]
        case "padding":
            return [Cell(0, 1, 15, 14, "padding")]
        case "unknown":
            return [Cell(0, 1, 15, 14, "unknown", label="?", size=9)]
    return []
