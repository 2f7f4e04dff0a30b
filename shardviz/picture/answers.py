"""Several answers to one question side by side: a column each, a lane per rank, red where one is not what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardviz.core.runs import joined, runs_text
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer
from shardviz.picture.drawn import Table
from shardviz.picture.facts import drawn_dims, owners
from shardviz.picture.picture import Picture
from shardviz.picture.scene import Box, Mark, Scene, Text, moved, scene
from shardviz.picture.scene_grid import Placed, Scale, View, axes_of, nothing, paint, place
from shardviz.picture.scene_mesh import mesh_panel
from shardviz.picture.scene_parts import EDGE, gap_words, head, head_width, lane_label_width, lane_labels, rank_hues
from shardviz.picture.theme import BODY, HEADING, SMALL, text_width, wrap
from shardviz.picture.words import buffer_words, plural

__all__ = ["Told", "draw_answers"]

LANES = 16
SINGLE = 12
"""The most slots of a buffer that are drawn one by one."""

TITLE = "Answers side by side"
RUN_WIDTH, GRID_HEIGHT = 190.0, 54.0


@dataclass(frozen=True)
class Told:
    """One answer.

    Attributes:
        name: which: "predicted", "reported", "held" or "used".
        source: where it comes from, in words.
        buffers: what each rank has by it, in the mesh's order.
        differs: a sentence per rank on which it parts from what it should be.
        against: what that is, in words.
    """

    name: str
    source: str
    buffers: tuple[Buffer, ...]
    differs: tuple[tuple[int, str], ...] = ()
    against: str = ""

    @property
    def verdict(self) -> str:
        """How it compares, in words."""
        if not self.against:
            return ""
        if not self.differs:
            return f"as {self.against}"
        ranks = runs_text(joined((rank, rank + 1) for rank, _ in self.differs), 6)
        return f"differs from {self.against} on {plural(len(self.differs), 'rank')}: {ranks}"


def draw_answers(spec: Spec, answers: Sequence[Told]) -> Picture:
    """Draw answers beside each other; red outlines, counted in words, stand where one parts from what it should be."""
    lines = [str(spec)]
    for told in answers:
        lines.append(". ".join(filter(None, (f"{told.name} ({told.source})", told.verdict))))
        lines += [f"rank {rank} {sentence.removeprefix(f'rank {rank} ')}" for rank, sentence in told.differs[:LANES]]
    table = Table(("rank", *(told.name for told in answers)), tuple(_rows(spec, answers)))
    dims = drawn_dims(spec, (buffer for told in answers for buffer in told.buffers))
    return Picture(_scene(spec, answers, dims), TITLE, "\n".join(lines), table, (), spec.shape, dims)


def _rows(spec: Spec, answers: Sequence[Told]) -> list[tuple[str, ...]]:
    shown = spec.mesh.ranks[: 4 * LANES]
    return [(str(rank), *(buffer_words(told.buffers[i], 8) for told in answers)) for i, rank in enumerate(shown)]


def _scene(spec: Spec, answers: Sequence[Told], dims: tuple[int, ...]) -> Scene:
    owned = owners(spec, answers[0].buffers)
    view = View.of(spec, owned, dims)
    shown = _shown(spec, answers)
    label = lane_label_width(spec, shown, 30) + 20
    high = max(_height(told.buffers[i], view) for told in answers for i in shown)
    lane = max(high + 14, 34.0)
    top = 78.0
    body: list[Mark] = []
    middles = {position: top + lane * row + lane / 2 for row, position in enumerate(shown)}
    for position, middle in middles.items():
        body += moved(lane_labels(spec, position, middle, lane - 4), EDGE, 0)
    x = EDGE + label
    for told in answers:
        wide = 0.0
        red = {rank for rank, _ in told.differs}
        for position, middle in middles.items():
            cells, width, height = _buffer(told.buffers[position], view, spec.mesh.ranks[position])
            body += moved(cells, x, middle - height / 2)
            if spec.mesh.ranks[position] in red:
                body.append(Box(x - 4, middle - height / 2 - 4, width + 8, height + 8, stroke="red", line=2))
            wide = max(wide, width)
        wide = max(wide, 168.0)
        body += moved(_heading(told, wide), x, 0)
        x += wide + 34
    left_out = len(spec.mesh.ranks) - len(shown)
    bottom = top + lane * len(shown) + 10
    if left_out:
        body.append(Text(EDGE, bottom + 8, f"{gap_words(left_out)}, drawn as these", SMALL, "muted"))
        bottom += 20
    panel = mesh_panel(spec.mesh, rank_hues(spec, answers[0].buffers, owned))
    lines = [str(spec)]
    width = max(x - 34 + EDGE, head_width(TITLE, lines, panel))
    marks, y = head(TITLE, lines, panel, width)
    return scene(width, y + bottom + 8, [*marks, *moved(body, 0, y)])


def _shown(spec: Spec, answers: Sequence[Told]) -> list[int]:
    """All ranks, or those on which answers part, filled up with the first ones."""
    count = spec.mesh.size
    if count <= LANES:
        return list(range(count))
    parting = sorted({spec.mesh.position(rank) for told in answers for rank, _ in told.differs})[: LANES - 4]
    first = [position for position in range(LANES) if position not in parting]
    return sorted([*parting, *first[: LANES - len(parting)]])


def _heading(told: Told, width: float) -> list[Mark]:
    marks: list[Mark] = [Text(0, 12, told.name, HEADING, bold=True)]
    marks += [Text(0, 27 + 12 * i, line, SMALL, "muted") for i, line in enumerate(wrap(told.source, width + 20, SMALL, 2))]
    wrong = bool(told.differs)
    words = wrap(told.verdict, (width + 20) / 1.12, SMALL, 2)
    marks += [Text(0, 54 + 12 * i, line, SMALL, "red" if wrong else "muted", bold=wrong) for i, line in enumerate(words)]
    return marks


def _height(buffer: Buffer, view: View) -> float:
    if view.flat or buffer.cells is not None:
        return 24.0
    rows, _ = axes_of(buffer, view)
    return min(GRID_HEIGHT, max(24.0, 14.0 * sum(piece.length for piece in rows)))


def _buffer(buffer: Buffer, view: View, rank: int) -> tuple[list[Mark], float, float]:
    """The cells of a buffer, and how wide and tall they are."""
    if not buffer.numel:
        return nothing(0, 0, 24.0), text_width("nothing", SMALL) + 14, 24.0
    rows, cols = axes_of(buffer, view)
    flat = buffer.cells is not None and view.spec.ndim > 1
    slots = sum(piece.length for piece in cols)
    single = slots <= SINGLE
    placed = place(cols, Scale(26.0 if view.flat else 16.0, True, 3.0) if single else Scale(RUN_WIDTH / slots, False))
    high = _height(buffer, view)
    count = sum(piece.length for piece in rows)
    down = [Placed(rows[0], 0.0, high)] if view.flat or flat else place(rows, Scale(high / count, count <= 4, 1.5))
    marks = paint(down, placed, view, rank, buffer.pending, flat)
    width = placed[-1].at + placed[-1].size
    if view.flat and not single and len(placed) == 1:
        marks.append(Text(width + 6, high / 2 + 4, plural(buffer.numel, "element"), BODY, "muted"))
        width += 10 + text_width(plural(buffer.numel, "element"), BODY)
    return marks, width, high
