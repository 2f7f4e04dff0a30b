"""What a checkpoint holds, as plain facts: chunks, tensors, files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from msgspec import Struct

from shardviz.checks.checkpoints.archive import Stored
from shardviz.checks.checkpoints.chunks import Box, Coverage, coverage, intersection
from shardviz.checks.checkpoints.datafiles import writer
from shardviz.checks.checkpoints.dtypes import itemsize
from shardviz.checks.checkpoints.metadata import Place
from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.runs import Runs
from shardviz.core.spec import Spec

__all__ = ["Chunk", "FileTotal", "Location", "Piece", "StoredTensor", "Stray"]


class Chunk(Struct, frozen=True):
    """One chunk of a tensor: what the metadata promises, and what the data file holds.

    Attributes:
        offset: global index of its first element, as promised.
        size: its size, as promised.
        place: the stretch of a data file that the metadata names; None where it names none.
        tensor: what is stored there; None where nothing can be read.
        problem: why nothing, or something else, can be read; "" otherwise.
    """

    offset: tuple[int, ...]
    size: tuple[int, ...]
    place: Place | None
    tensor: Stored | None
    problem: str = ""

    @property
    def promised(self) -> int:
        """Number of elements promised."""
        return math.prod(self.size)

    @property
    def stored(self) -> int:
        """Number of elements really stored."""
        return math.prod(self.tensor.shape) if self.tensor else 0

    @property
    def right(self) -> bool:
        """Whether what is stored has the promised shape."""
        return self.tensor is not None and self.tensor.shape == self.size and not self.problem

    @property
    def rank(self) -> int | None:
        """The rank that wrote it, by the name of its file."""
        return writer(self.place.file) if self.place else None

    @property
    def reachable(self) -> Box:
        """The promised elements that are stored; an empty box where there are none."""
        if self.tensor is None or len(self.tensor.shape) != len(self.size):
            return Box(self.offset, (0,) * len(self.size) or (0,))
        return Box(self.offset, tuple(map(min, self.size, self.tensor.shape)))


@dataclass(frozen=True, slots=True)
class Stray:
    """A chunk that holds other elements than the metadata promises, and the box of those that it holds."""

    chunk: Chunk
    box: Box


@dataclass(frozen=True, slots=True)
class Location:
    """Where one element lies: the file, its first byte there, and the number of bytes."""

    file: str
    byte_offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what a rank would read: the elements, the file, and the chunk that holds them."""

    box: Box
    file: str
    chunk: Chunk


class StoredTensor(Struct, frozen=True, dict=True):
    """One tensor of a checkpoint.

    Attributes:
        name: its name in the state dict.
        shape: its global shape.
        dtype: its dtype, such as "float32".
        chunks: its chunks, in the order of the metadata.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[Chunk, ...]

    @cached_property
    def covered(self) -> Coverage:
        """How the stored elements cover the shape."""
        if len(self.chunks) == 1 and self.chunks[0].right and self.chunks[0].size == self.shape:
            return Coverage(0, 0, (), ())
        boxes = [chunk.reachable for chunk in self.chunks]
        overlaps = coverage(self.shape, [Box(chunk.offset, chunk.size) for chunk in self.chunks])
        if all(chunk.right for chunk in self.chunks):
            return overlaps
        held = coverage(self.shape, [box for box in boxes if box.numel])
        return Coverage(held.missing, overlaps.overlapping, held.gaps, overlaps.overlaps)

    @property
    def missing_elements(self) -> int:
        """Number of elements that are promised nowhere, or promised and not stored."""
        return self.covered.missing

    @property
    def overlapping_elements(self) -> int:
        """Number of elements that two chunks or more promise."""
        return self.covered.overlapping

    @property
    def zero_chunks(self) -> int:
        """Number of chunks that promise nothing; one at the end of a dimension is normal."""
        return sum(not chunk.promised for chunk in self.chunks)

    @property
    def wrong_chunks(self) -> tuple[Chunk, ...]:
        """The chunks that store more, less or something else than they promise."""
        return tuple(chunk for chunk in self.chunks if not chunk.right)

    @property
    def whole(self) -> bool:
        """Whether every element is promised once and stored as promised."""
        if not all(chunk.right for chunk in self.chunks):
            return False
        if len(self.chunks) == 1 and self.chunks[0].size == self.shape:
            return True
        return not (self.covered.missing or self.covered.overlapping)

    @property
    def bytes(self) -> int:
        """Bytes of all its stored elements."""
        return sum(chunk.tensor.bytes for chunk in self.chunks if chunk.tensor)

    def where(self, index: Sequence[int], strays: Sequence[Stray] = ()) -> Location | None:
        """Where the element at a global index is stored; None where it is missing.

        Args:
            index: the global index.
            strays: chunks that hold other elements than they promise, to be taken for what they hold.

        Raises:
            SpecError: the tensor has no such element.
        """
        place = tuple(index)
        if len(place) != len(self.shape) or not all(0 <= i < size for i, size in zip(place, self.shape, strict=True)):
            raise SpecError(f"{place} is no element of {self.name!r}, whose shape is {self.shape}")
        held = [(stray.chunk, stray.box) for stray in strays]
        astray = {id(chunk) for chunk, _ in held}
        held += [(chunk, chunk.reachable) for chunk in self.chunks if id(chunk) not in astray]
        for chunk, box in held:
            local = tuple(i - low for i, low in zip(place, box.offset, strict=True))
            if chunk.tensor is None or chunk.place is None or not box.numel:
                continue
            if all(0 <= i < size for i, size in zip(local, box.size, strict=True)):
                unit = itemsize(self.dtype)
                step = sum(i * stride for i, stride in zip(local, chunk.tensor.stride, strict=True))
                return Location(chunk.place.file, chunk.tensor.byte_offset + step * unit, unit)
        return None

    def read_by(self, spec: Spec, rank: int) -> tuple[Piece, ...]:
        """What a rank would read to fill its shard.

        Args:
            spec: how the tensor is cut on the mesh that loads it.
            rank: a rank of that mesh.

        Raises:
            SpecError: the spec is of another shape, or the rank is not in its mesh.
        """
        if spec.shape != self.shape:
            raise SpecError(f"{self.name!r} has shape {self.shape}, and the spec is of a tensor of shape {spec.shape}")
        return self.pieces(layout(spec)[rank].runs)

    def pieces(self, held: Sequence[Runs]) -> tuple[Piece, ...]:
        """What would be read to fill a shard that holds these runs per tensor dimension."""
        pieces = []
        for runs in product(*held):
            wanted = Box(tuple(start for start, _ in runs), tuple(stop - start for start, stop in runs))
            for chunk in self.chunks:
                shared = intersection(wanted, chunk.reachable) if chunk.reachable.numel else None
                if shared is not None and chunk.place is not None:
                    pieces.append(Piece(shared, chunk.place.file, chunk))
        return tuple(pieces)


@dataclass(frozen=True, slots=True)
class FileTotal:
    """What one data file holds.

    Attributes:
        name: the file.
        rank: the rank that wrote it; None where its name does not tell.
        chunks: number of chunks in it.
        elements: number of elements stored in it.
        bytes: number of bytes of these elements.
    """

    name: str
    rank: int | None
    chunks: int
    elements: int
    bytes: int
