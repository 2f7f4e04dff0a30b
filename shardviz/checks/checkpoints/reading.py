"""Where one element of a checkpoint lies, and what the ranks of a mesh would read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardviz.checks.checkpoints.chunks import Box, box_text
from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.dtypes import itemsize
from shardviz.checks.checkpoints.facts import Location, Piece
from shardviz.checks.checkpoints.words import many
from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout, layout
from shardviz.core.placements import Replicate
from shardviz.core.spec import Spec, parse

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint

__all__ = ["Found", "RankRead", "locate", "reads"]

_MOST_DIMS = 8
"""Tensor dimensions that a placement may name."""


@dataclass(frozen=True)
class Found:
    """Where an element of one tensor lies.

    Attributes:
        name: the tensor.
        index: the element's global index.
        location: where it is stored; None where it is nowhere.
        astray: whether it is stored elsewhere than promised, where plain torch does not find it.
    """

    name: str
    index: tuple[int, ...]
    location: Location | None
    astray: bool

    @property
    def text(self) -> str:
        """Where it lies, in a sentence."""
        element = f"{shown(self.name)} at {box_text(Box(self.index, (1,) * len(self.index)))}"
        if self.location is None:
            return f"{element}: missing"
        first, last = self.location.byte_offset, self.location.byte_offset + self.location.bytes - 1
        aside = ", where it is not promised" if self.astray else ""
        return f"{element}: {shown(self.location.file)}, bytes {first}-{last}{aside}"


@dataclass(frozen=True)
class RankRead:
    """What one rank would read to fill its shards, where plain torch looks for them.

    Attributes:
        rank: its number.
        pieces: the names of tensors, and what is read of each.
        elements: number of elements that are read.
        missing: number of elements that are not where they are promised.
        bytes: number of bytes of the elements that are read.
    """

    rank: int
    pieces: tuple[tuple[str, Piece], ...]
    elements: int
    missing: int
    bytes: int

    @property
    def text(self) -> str:
        """The totals, in a sentence."""
        files = {piece.file for _, piece in self.pieces}
        lost = f"; {many(self.missing, 'element')} missing" if self.missing else ""
        parts = f"{many(len(self.pieces), 'piece')} from {many(len(files), 'file')}"
        return f"rank {self.rank} reads {many(self.elements, 'element')}, {many(self.bytes, 'byte')}: {parts}{lost}"


def locate(found: Checkpoint, index: Sequence[int]) -> tuple[Found, ...]:
    """Where the element at a global index lies, in every tensor that has one.

    Raises:
        SpecError: no tensor has such an element.
    """
    at = tuple(index)
    answers = []
    for tensor in found.tensors:
        if len(at) == len(tensor.shape) and all(0 <= i < size for i, size in zip(at, tensor.shape, strict=True)):
            promised = tensor.where(at)
            location = promised or tensor.where(at, found.strays.get(tensor.name, ()))
            answers.append(Found(tensor.name, at, location, promised is None and location is not None))
    if not answers:
        shapes = sorted({tensor.shape for tensor in found.tensors}, key=lambda shape: (len(shape), shape))
        alone = '; the one element of a tensor without dimensions is --at ""' if () in shapes else ""
        raise SpecError(f"no tensor has an element {at}; there are the shapes {', '.join(map(str, shapes[:8]))}{alone}")
    return tuple(answers)


def reads(found: Checkpoint, cut: str, rank: int | None = None) -> tuple[RankRead, ...]:
    """What the ranks of a mesh would read, if every tensor that can be is cut in one way, and the others are read whole.

    Args:
        found: the checkpoint.
        cut: the mesh and one placement per mesh dimension, such as `"dp=4, tp=2: _S(0, 2), S(0)"`.
        rank: one rank alone.

    Raises:
        SpecError: the mesh or the placements cannot be read, or the mesh has no such rank.
    """
    mesh = parse(f"{[1] * _MOST_DIMS} on {cut}").mesh
    ranks = mesh.ranks if rank is None else (mesh.ranks[mesh.position(rank)],)
    layouts: dict[tuple[int, ...], Layout] = {}
    for shape in {tensor.shape for tensor in found.tensors}:
        try:
            layouts[shape] = layout(f"{list(shape)} on {cut}")
        except SpecError:  # it has no such tensor dimension
            layouts[shape] = layout(Spec(shape, mesh, [Replicate()] * mesh.ndim))
    return tuple(_read(found, one, layouts) for one in ranks)


def _read(found: Checkpoint, rank: int, layouts: Mapping[tuple[int, ...], Layout]) -> RankRead:
    pieces: list[tuple[str, Piece]] = []
    elements = wanted = size = 0
    for tensor in found.tensors:
        held = layouts[tensor.shape][rank]
        wanted += held.numel
        for piece in tensor.pieces(held.runs):
            pieces.append((tensor.name, piece))
            elements += piece.box.numel
            size += piece.box.numel * itemsize(tensor.dtype)
    return RankRead(rank, tuple(pieces), elements, max(wanted - elements, 0), size)
