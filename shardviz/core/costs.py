"""What a story costs: bytes that every rank sends, and how many of them are padding. Folds over its steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from shardviz.core.errors import SpecError
from shardviz.core.runs import is_padding, length
from shardviz.core.trace import Buffer, Trace

__all__ = ["Costs", "costs"]


@dataclass(frozen=True)
class Costs:
    """Bytes over a whole story, per rank in the mesh's order.

    Attributes:
        sent: what each rank sends.
        padding: how much of that is padding.
    """

    sent: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def waste(self) -> float:
        """The share of padding in all that is sent, 0 to 1."""
        return sum(self.padding) / sum(self.sent) if sum(self.sent) else 0.0


def costs(trace: Trace) -> Costs:
    """Add up what the ranks send.

    Raises:
        SpecError: it is no story.

    Example:
        >>> from shardviz.core.spec import parse
        >>> from shardviz.core.unshuffle import unshuffle
        >>> five = costs(unshuffle(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")))
        >>> five.sent  # over tp 2 slots of 8 bytes or 1, then over dp 3
        (40, 40, 32, 32)
        >>> five.padding, round(five.waste, 3)  # rank 1 pads over tp, ranks 2 and 3 over dp: 24 of 144 bytes
        ((0, 8, 8, 8), 0.167)
    """
    if not isinstance(trace, Trace):
        raise SpecError(f"a story was expected, such as unshuffle(spec) gives; got {type(trace).__name__}")
    sent, padding = [0] * len(trace.ranks), [0] * len(trace.ranks)
    for before, now in pairwise(trace.steps):
        for place, (count, buffer) in enumerate(zip(now.bytes, before.buffers, strict=True)):
            sent[place] += count
            padding[place] += count * _padded(buffer) // max(buffer.numel, 1)
    return Costs(tuple(sent), tuple(padding))


def _padded(buffer: Buffer) -> int:
    """Number of slots that are padding."""
    if buffer.cells is not None:
        return length(filter(is_padding, buffer.cells))
    filled = 1
    for runs in buffer.axes:
        filled *= length(run for run in runs if not is_padding(run))
    return buffer.numel - filled
