"""Pieces of a tensor along one dimension: find elements in a buffer, take them out, pad."""

from __future__ import annotations

from bisect import bisect_right

import torch
import torch.nn.functional as functional

from shardviz.core.runs import Run, Runs, joined

__all__ = ["locate", "pad", "take"]


def locate(held: Runs, wanted: Runs) -> Runs | None:
    """Where wanted elements stand in a buffer, as `(first, last + 1)` runs of its slots in the wanted order.

    Args:
        held: the global indices that the buffer holds, slot by slot; padding counts as slots.
        wanted: the global indices to find.

    Returns:
        The slots; None where a wanted element is not held.

    Example:
        >>> from shardviz.core.runs import padding
        >>> locate(((0, 2), (3, 4), (2, 3), padding(1)), ((0, 4),))  # 0 1 3 2 #: 0 1 | 2 | 3 stand in slots 0 1 | 3 | 2
        ((0, 2), (3, 4), (2, 3))
        >>> locate(((0, 2),), ((1, 3),)) is None
        True
    """
    slots, before = list[tuple[int, int, int]](), 0
    for start, stop in held:
        if start >= 0:
            slots.append((start, stop, before))
        before += stop - start
    slots.sort()
    starts = [start for start, _, _ in slots]
    found: list[Run] = []
    for first, last in wanted:
        index = first
        while index < last:
            place = bisect_right(starts, index) - 1
            if place < 0 or slots[place][1] <= index:
                return None
            start, stop, before = slots[place]
            end = min(stop, last)
            found.append((before + index - start, before + end - start))
            index = end
    return joined(found)


def take(tensor: torch.Tensor, dim: int, slots: Runs) -> torch.Tensor:
    """The slots of a tensor dimension, joined in the order given; a view where they are one run or none.

    Example:
        >>> take(torch.arange(5), 0, ((3, 5), (0, 1))).tolist()
        [3, 4, 0]
    """
    parts = [tensor.narrow(dim, start, stop - start) for start, stop in slots]
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts, dim) if parts else tensor.narrow(dim, 0, 0)


def pad(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor with zeros added at the end of a dimension, up to `size` slots.

    Example:
        >>> pad(torch.tensor([[1], [2]]), 0, 3).tolist()
        [[1], [2], [0]]
    """
    missing = size - tensor.shape[dim]
    # functional.pad counts dimensions from the last, two numbers each.
    return functional.pad(tensor, [0, 0] * (tensor.ndim - 1 - dim) + [0, missing]) if missing else tensor
