"""What pictures of a layout tell: every rank's buffer with what torch says of it, the title, the head, and the legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shardviz.core.compare import report_difference
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report, Source
from shardviz.picture.facts import Owners, held_once
from shardviz.picture.scene_parts import (
    cell_words,
    local_order,
    partial_words,
    place_words,
    source_line,
)
from shardviz.picture.words import buffer_words, plural, tensor_words


@dataclass(frozen=True)
class Facts:
    """What a picture of a layout shows: every rank's buffer, and what torch says of it where that is known."""

    spec: Spec
    buffers: tuple[Buffer, ...]
    source: Source
    owned: Owners
    reports: tuple[Report, ...] = ()
    reading: str = ""
    said: Mapping[int, str] = field(default_factory=dict)
    """What is wrong by other knowledge than torch's report, by rank."""

    def difference(self, position: int) -> str:
        """What is wrong with a rank, in words: by torch's report on it, or by what else is known; "" where nothing is."""
        return self._differences.get(position, "")

    def report(self, position: int) -> Report | None:
        """Torch's report on a rank."""
        return self._reported.get(self.spec.mesh.ranks[position])

    @property
    def differing(self) -> tuple[int, ...]:
        """The positions of the ranks on which report and reality part."""
        return tuple(self._differences)

    @cached_property
    def _reported(self) -> dict[int, Report]:
        return {report.rank: report for report in self.reports}

    @cached_property
    def _differences(self) -> dict[int, str]:
        pairs = ((p, buffer, self.report(p)) for p, buffer in enumerate(self.buffers))
        found = {p: report_difference(self.spec.shape, buffer, report) for p, buffer, report in pairs if report}
        found |= {self.spec.mesh.position(rank): words for rank, words in self.said.items()}
        return {position: found[position] for position in sorted(found) if found[position]}

    def note(self, position: int) -> str:
        """What is to be said of a rank beside its elements."""
        buffer = self.buffers[position]
        if buffer.pending:
            return partial_words(self.spec, buffer, position)
        first = held_once(self.buffers).get(buffer, position) if buffer.numel else position
        if first != position:
            return f"same as rank {self.spec.mesh.ranks[first]}"
        if local_order(buffer):
            return f"in local order {buffer_words(buffer, 8)}"
        return place_words(buffer, self.spec.shape)


def layout_title(facts: Facts) -> str:
    """What the picture says."""
    ranks = len(facts.buffers)
    what = tensor_words(facts.spec)
    used = facts.source.answer == "used"
    if facts.said:
        return f"{what} on {facts.spec.mesh}: where {'use and right' if used else 'arithmetic and its ranks'} part"
    if facts.differing:
        return f"{what} on {facts.spec.mesh}: where torch and its ranks part"
    if used:
        return f"What the forward pass uses of {what} on {plural(ranks, 'rank')}"
    if facts.source.answer == "predicted" and not facts.reports:
        lie = "lies" if facts.spec.ndim != 1 or facts.spec.numel == 1 else "lie"
        return f"How {what} {lie} on {plural(ranks, 'rank')}"
    return f"What {plural(ranks, 'rank')} hold{'s' * (ranks == 1)} of {what}"


def head_lines(facts: Facts, dims: Sequence[int]) -> list[str]:
    """The notation, and where the facts come from."""
    cut = any(facts.spec.cuts(dim) for dim in range(facts.spec.ndim))
    reading = f"read as {facts.reading}" if facts.reading and cut else ""
    lines = [str(facts.spec), source_line(facts.source, (reading, cell_words(facts.spec, dims)))]
    if facts.reports:
        lines.append(f"filled: {facts.source.answer} · outlined: reported by torch {facts.source.torch}".rstrip())
    return lines


def layout_legend(facts: Facts) -> Iterator[tuple[str, str]]:
    """What the marks of a layout mean, as far as they occur."""
    yield "hue", "colour: the rank that holds it" + (", the lowest of several" if _replicated(facts) else "")
    runs = {run for buffer in facts.buffers for axis in (*buffer.axes, buffer.cells or ()) for run in axis if run[0] < 0}
    if any(run[1] == 0 for run in runs):
        yield "padding", "hatched: padding"
    if any(run[1] == -1 for run in runs):
        yield "unknown", "?: no known element"
    if any(buffer.pending for buffer in facts.buffers):
        yield "addend", "stack: an addend, not yet the value"
    if facts.reports:
        yield "reported", "outlined: torch reports it here"
    if facts.differing:
        part = "report and reality part" if len(facts.said) < len(facts.differing) else ""
        yield "differs", f"red: {', or '.join(filter(None, ('not as computed' if facts.said else '', part)))}"


def _replicated(facts: Facts) -> bool:
    filled = [buffer for buffer in facts.buffers if buffer.numel and not buffer.pending]
    return len(held_once(facts.buffers)) < len(filled)
