"""The lanes of one step of a story: every rank's buffer, the groups' brackets, and what moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from shardviz.core.trace import Buffer, Step, Trace, whole_buffer
from shardviz.picture.scene import Box, Cell, Line, Mark, Text, moved
from shardviz.picture.scene_grid import Placed, Scale, View, axes_of, headers, nothing, paint, place
from shardviz.picture.scene_parts import bracket_columns, brackets
from shardviz.picture.theme import SMALL, text_width
from shardviz.picture.words import buffer_words, bytes_text, plural

__all__ = ["MOST_ROWS", "Plan", "bracket_step", "has_arcs", "most_slots", "names_room", "panel_marks", "uneven", "wrong_words"]


MOST_ROWS = 24
"""The most rows of a grid that are drawn one by one."""


@dataclass(frozen=True)
class Plan:
    """How the lanes of a story are drawn: the same on all of its panels.

    `tall` is a buffer's height and `lane` the distance of two ranks; `indent` is the room for brackets and row numbers.
    """

    trace: Trace
    view: View
    shown: tuple[int, ...]
    cols: Scale
    rows: Scale
    tall: float
    lane: float
    over: float
    indent: float

    @cached_property
    def middles(self) -> dict[int, float]:
        """Per rank that is shown the middle of its lane; a gap stands where ranks are left out."""
        found, y, before = {}, 0.0, -1
        for position in self.shown:
            y += 18.0 if position != before + 1 else 0.0
            found[self.trace.ranks[position]] = y + self.over + self.half
            y, before = y + self.lane + 2 * self.over, position
        return found

    @property
    def half(self) -> float:
        """From the top of a buffer to where its rank is named: its middle, or the first rows of a grid."""
        return self.tall / 2 if self.view.flat else min(self.tall, 26.0) / 2

    @property
    def height(self) -> float:
        """Height of all lanes."""
        return max(self.middles.values()) - self.half + self.tall + self.over + (self.lane - self.tall) / 2

    @cached_property
    def wide(self) -> float:
        """Width of the widest buffer."""
        return max(1, most_slots(self.trace, self.view, self.shown)[1]) * self.cols.pitch


def most_slots(trace: Trace, view: View, shown: Sequence[int]) -> tuple[int, int]:
    """The most slots downwards and across of any buffer that is drawn."""
    tall = wide = 1
    for step in trace.steps:
        for position in shown:
            buffer = step.buffers[position]
            if buffer.cells is not None:
                wide = max(wide, buffer.numel)
                continue
            down = 1
            for dim in view.rows:
                down *= buffer.shape[dim]
            tall = max(tall, down)
            wide = max(wide, *(buffer.shape[dim] for dim in view.cols), 1)
    return tall, wide


def uneven(step: Step) -> bool:
    """Whether ranks send amounts that differ in words, so that each lane has to say its own."""
    return step.kind == "collective" and bytes_text(min(step.bytes), True) != bytes_text(max(step.bytes), True)


def names_room(view: View, tall: int) -> float:
    """The room for global indices to the left of a grid of so many rows: runs where there are more than can be drawn."""
    sizes = [view.spec.shape[dim] - 1 for dim in view.rows]
    widest = ",".join(f"{size}-{size}" if tall > MOST_ROWS else f"{size}" for size in sizes)
    return text_width(widest, 7.5) + 8 if sizes else 0.0


def bracket_step(columns: int) -> float:
    """The distance of brackets that stand side by side."""
    return 7.0 if columns < 5 else max(2.5, 34 / columns)


def panel_marks(plan: Plan, step: int) -> list[Mark]:
    """The lanes of one step, their first corner at the origin; buffers begin at the plan's indent."""
    trace, now = plan.trace, plan.trace.steps[step]
    columns = max((1 + c for c, _ in bracket_columns(now.groups, plan.middles)), default=0)
    edge = plan.indent - 6 - names_room(plan.view, most_slots(trace, plan.view, plan.shown)[0])
    marks = brackets(now.groups, plan.middles, edge + 3, bracket_step(columns))
    differ = uneven(now)
    for position in plan.shown:
        rank = trace.ranks[position]
        y = plan.middles[rank] - plan.half
        buffer = now.buffers[position]
        cells: list[Mark] = []
        if not buffer.numel:
            marks += nothing(plan.indent, y, plan.tall)
            right = plan.indent + 60
        else:
            rows, cols = placed(plan, buffer)
            cells = paint(rows, cols, plan.view, rank, buffer.pending, _flat(plan, buffer), step)
            marks += moved(cells, plan.indent, y)
            right = plan.indent + cols[-1].at + cols[-1].size
            if not plan.view.flat and buffer.cells is None:
                marks += moved(headers(rows, cols, bool(buffer.pending)), plan.indent, y)
            marks += moved(_moves(plan, step, position, rows, cols), plan.indent, y)
            marks += moved(_wrong(plan, step, buffer, rows, cols), plan.indent, y)
        beside = bytes_text(now.bytes[position], True) if differ else _unlabelled(plan, buffer, cells)
        if beside:
            marks.append(Text(right + 8, plan.middles[rank] + 3.5, beside, SMALL, "muted"))
    return marks


def _unlabelled(plan: Plan, buffer: Buffer, cells: Sequence[Mark]) -> str:
    """A buffer in words, where it is a single run too short for its label."""
    drawn = [cell for cell in cells if isinstance(cell, Cell)]
    alone = plan.view.flat and not plan.cols.single and len(drawn) == 1
    return buffer_words(buffer) if alone and not drawn[0].label else ""


def _flat(plan: Plan, buffer: Buffer) -> bool:
    return buffer.cells is not None and plan.view.spec.ndim > 1


def placed(plan: Plan, buffer: Buffer) -> tuple[list[Placed], list[Placed]]:
    rows, cols = axes_of(buffer, plan.view)
    down = place(rows, plan.rows)
    if plan.view.flat or _flat(plan, buffer):
        down = [Placed(down[0].piece, 0.0, plan.tall if plan.view.flat else plan.rows.pitch)]
    return down, place(cols, plan.cols)


def _permutes(trace: Trace, step: int) -> bool:
    """Whether a step moves elements within ranks: the same ones as before, in another order."""
    if not step or trace.steps[step].kind != "local":
        return False
    before, after = trace.steps[step - 1].buffers[0], trace.steps[step].buffers[0]
    return before.shape == after.shape and before != after and before.pending == after.pending


def has_arcs(plan: Plan, step: int) -> bool:
    """Whether a step's panel has arrows."""
    if not _permutes(plan.trace, step):
        return False
    buffer = plan.trace.steps[step].buffers[plan.shown[0]]
    return bool(buffer.numel) and bool(_moves(plan, step, plan.shown[0], *placed(plan, buffer)))


def _moves(plan: Plan, step: int, position: int, rows: list[Placed], cols: list[Placed]) -> list[Mark]:
    """Arrows from where elements stood to where they stand now: to the right below the cells, to the left above them."""
    trace = plan.trace
    if not _permutes(trace, step):
        return []
    old_rows, old_cols = placed(plan, trace.steps[step - 1].buffers[position])
    marks: list[Mark] = []
    bottom = plan.tall
    for source, target in _moved_pieces(old_cols, cols):
        right = target > source
        y = bottom + 1.5 if right else -1.5
        reach = 15.0 if right else -15.0
        points = ((source, y), ((source + target) / 2, y + reach), (target, y + (0.5 if right else -0.5)))
        marks.append(Line(points, "muted", 1.1, curved=True, arrow=True))
    for source, target in _moved_pieces(old_rows, rows) if not plan.view.flat else ():
        x = -16.0 if target > source else cols[-1].at + cols[-1].size + 2
        reach = -12.0 if target > source else 12.0
        marks.append(
            Line(((x, source), (x + reach, (source + target) / 2), (x, target)), "muted", 1.1, curved=True, arrow=True)
        )
    return marks


def _moved_pieces(before: list[Placed], after: list[Placed]) -> Iterator[tuple[float, float]]:
    old = {(p.piece.leading, p.piece.start, p.piece.stop): p.at + p.size / 2 for p in before if p.piece.kind == "element"}
    new = {(p.piece.leading, p.piece.start, p.piece.stop): p.at + p.size / 2 for p in after if p.piece.kind == "element"}
    pairs = [(old[key], middle) for key, middle in new.items() if key in old and abs(old[key] - middle) > 1]
    if len(pairs) <= (12 if after[0].piece.length == 1 else 6):
        yield from pairs


def wrong_words(plan: Plan, step: int) -> str:
    """What went wrong in a step, in words: a first element lost, or a result in the wrong order; "" where nothing did."""
    trace, now = plan.trace, plan.trace.steps[step]
    bad = [buffer for buffer in now.buffers if _is_wrong(trace, step, buffer)]
    if not bad:
        lost = step == trace.wrong_from and step + 1 < len(trace.steps)
        return "goes wrong here: elements are lost" if lost else ""
    return f"wrong on {plural(len(bad), 'rank')}: outlined slots hold other elements"


def _is_wrong(trace: Trace, step: int, buffer: Buffer) -> bool:
    whole = whole_buffer(trace.spec.shape)
    last = step + 1 == len(trace.steps) and step > 0
    return last and buffer.shape == whole.shape and not buffer.pending and buffer != whole


def _wrong(plan: Plan, step: int, buffer: Buffer, rows: list[Placed], cols: list[Placed]) -> list[Mark]:
    """Red outlines around what stands in the wrong place in a result that has the whole tensor's shape."""
    if not _is_wrong(plan.trace, step, buffer):
        return []
    tall, wide = rows[-1].at + rows[-1].size, cols[-1].at + cols[-1].size
    down = [] if plan.view.flat else _misplaced(rows)
    marks: list[Mark] = [Box(x - 2, -2, size + 4, tall + 4, stroke="red", line=2) for x, size in _misplaced(cols)]
    return [*marks, *(Box(-2, y - 2, wide + 4, size + 4, stroke="red", line=2) for y, size in down)]


def _misplaced(along: Sequence[Placed]) -> list[tuple[float, float]]:
    """Places and sizes of the stretches along an axis whose slots do not hold the element of their own index."""
    found: list[tuple[float, float]] = []
    slot, before = 0, False
    for here in along:
        wrong = here.piece.kind != "element" or here.piece.start != slot
        if wrong and before:
            found[-1] = found[-1][0], here.at + here.size - found[-1][0]
        elif wrong:
            found.append((here.at, here.size))
        slot, before = slot + here.piece.length, wrong
    return found
