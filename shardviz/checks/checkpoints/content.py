"""The elements themselves: read from the data files byte by byte, and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from shardviz.checks.checkpoints.checkpoint import Checkpoint
from shardviz.checks.checkpoints.chunks import Box, box_text, intersection
from shardviz.checks.checkpoints.datafiles import DataFiles, shown
from shardviz.checks.checkpoints.dtypes import itemsize
from shardviz.checks.checkpoints.facts import StoredTensor
from shardviz.checks.checkpoints.words import many
from shardviz.core.errors import FileError

if TYPE_CHECKING:
    import numpy as np

    Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

__all__ = ["Difference", "compare_checkpoints", "elements", "recut"]


@dataclass(frozen=True)
class Difference:
    """What differs between two checkpoints in one tensor.

    Attributes:
        name: the tensor.
        sentence: what differs.
        index: global index of the first element that differs; None where something else does.
        count: number of elements that differ.
    """

    name: str
    sentence: str
    index: tuple[int, ...] | None = None
    count: int = 0


def elements(files: DataFiles, tensor: StoredTensor) -> Bytes:
    """A whole tensor's elements as bytes: an array of its shape with one dimension more.

    Raises:
        FileError: a data file ends before its elements do.
    """
    import numpy as np

    found = np.zeros((*tensor.shape, itemsize(tensor.dtype)), np.uint8)
    for box, data in _stored_boxes(files, tensor):
        found[_slices(box, (0,) * len(box.offset))] = data
    return found


def _stored_boxes(files: DataFiles, tensor: StoredTensor) -> Iterator[tuple[Box, Bytes]]:
    """What can be read of a tensor: boxes of elements, and these as bytes."""
    import numpy as np

    unit = itemsize(tensor.dtype)
    for chunk in tensor.chunks:
        box, stored = chunk.reachable, chunk.tensor
        if stored is None or chunk.place is None or not box.numel or stored.dtype != tensor.dtype:
            continue
        span = unit * (1 + sum((size - 1) * step for size, step in zip(stored.shape, stored.stride, strict=True)))
        data = files.read(chunk.place.file, stored.byte_offset, span)
        if len(data) != span:
            raise FileError(f"{shown(chunk.place.file)} is cut short")
        flat = np.frombuffer(data, np.uint8)
        steps = [step * unit for step in stored.stride]
        view = np.lib.stride_tricks.as_strided(flat, (*stored.shape, unit), (*steps, 1), writeable=False)
        yield box, view[tuple(slice(size) for size in box.size)]


def _slices(box: Box, origin: tuple[int, ...]) -> tuple[slice, ...]:
    """Where a box lies in an array whose first element has the global index `origin`."""
    return tuple(slice(low - at, low - at + size) for low, size, at in zip(box.offset, box.size, origin, strict=True))


def compare_checkpoints(one: Checkpoint, other: Checkpoint) -> Iterator[Difference]:
    """What differs between two checkpoints: names, shapes, dtypes, and elements, bit by bit, however they are cut."""
    names = {tensor.name for tensor in one.tensors}, {tensor.name for tensor in other.tensors}
    for tensor in chain(one.tensors, (tensor for tensor in other.tensors if tensor.name not in names[0])):
        if tensor.name not in names[0] & names[1]:
            holder = one if tensor.name in names[0] else other
            yield Difference(tensor.name, f"{shown(tensor.name)} is in {shown(str(holder.directory))} alone")
    with DataFiles(one.directory) as left, DataFiles(other.directory) as right:
        for tensor in one.tensors:
            if tensor.name in names[1]:
                yield from _differences(tensor, other[tensor.name], left, right)


def recut(one: Checkpoint, other: Checkpoint) -> tuple[str, ...]:
    """The tensors of both checkpoints that are cut into other chunks; empty chunks do not count."""
    cuts: list[dict[str, set[tuple[tuple[int, ...], tuple[int, ...]]]]] = [
        {tensor.name: {(c.offset, c.size) for c in tensor.chunks if c.promised} for tensor in found.tensors}
        for found in (one, other)
    ]
    return tuple(name for name, boxes in cuts[0].items() if cuts[1].get(name, boxes) != boxes)


def _differences(one: StoredTensor, other: StoredTensor, left: DataFiles, right: DataFiles) -> Iterator[Difference]:
    name = shown(one.name)
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        texts = [f"[{', '.join(map(str, tensor.shape))}] {tensor.dtype}" for tensor in (one, other)]
        yield Difference(one.name, f"{name} is {texts[0]} in one and {texts[1]} in the other")
        return
    for tensor, which in ((one, "the first"), (other, "the second")):
        if not tensor.whole:
            yield Difference(one.name, f"{name} is not whole in {which}: {many(tensor.missing_elements, 'element')} missing")
    index, count = _first_difference(one, other, left, right)
    if index is not None:
        at = box_text(Box(index, (1,) * len(index)))
        total = math.prod(one.shape)
        yield Difference(one.name, f"{name} differs in {count:,} of {many(total, 'element')}, first at {at}", index, count)


def _first_difference(
    one: StoredTensor, other: StoredTensor, left: DataFiles, right: DataFiles
) -> tuple[tuple[int, ...] | None, int]:
    """The first element that both store and that differs, and how many do."""
    import numpy as np

    first: tuple[int, ...] | None = None
    count = 0
    others = list(_stored_boxes(right, other))
    for box, data in _stored_boxes(left, one):
        for other_box, other_data in others:
            shared = intersection(box, other_box)
            if shared is None:
                continue
            differs = (data[_slices(shared, box.offset)] != other_data[_slices(shared, other_box.offset)]).any(axis=-1)
            if differs.any():
                count += int(differs.sum())
                local = np.unravel_index(int(differs.argmax()), differs.shape) if differs.ndim else ()
                index = tuple(low + int(at) for low, at in zip(shared.offset, local, strict=True))
                first = index if first is None else min(first, index)
    return first, count
