"""Two answers side by side, and every rank on which they part: the picture of a comparison."""

from __future__ import annotations

from shardviz.core.compare import Comparison, Difference
from shardviz.core.layout import Layout
from shardviz.core.trace import Buffer, Trace, start
from shardviz.picture.answers import Told, draw_answers
from shardviz.picture.picture import Picture

__all__ = ["draw_comparison"]


def draw_comparison(found: Comparison) -> Picture:
    """Draw what was compared: of two stories the first step at which they part, else what the ranks hold at the start."""
    parting = found.differences[0] if found.differences else Difference(0, "")
    number, second_number = parting.step, parting.other_step
    one, other = found.answers
    differs = tuple((d.rank, d.sentence) for d in found.differences if d.step == number)
    first = Told(found.first, _source(one, number), _buffers(one, number))
    second = Told(found.second, _source(other, second_number), _buffers(other, second_number), differs, found.first)
    return draw_answers(one.spec, [first, second])


def _buffers(answer: Layout | Trace, number: int | None) -> tuple[Buffer, ...]:
    if isinstance(answer, Layout):
        return start(answer)
    return answer.steps[number or 0].buffers


def _source(answer: Layout | Trace, number: int | None) -> str:
    if isinstance(answer, Layout):
        return "predicted"
    if number is None:
        return answer.source.text
    return f"{answer.source.text}; step {number + 1}, {answer.steps[number].name}"
