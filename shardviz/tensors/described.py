"""A rank's part of a DTensor as blocks, and a tensor that says itself which blocks of the global one it holds."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from typing import Any

import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from shardviz.core.errors import ShardvizError, TorchError
from shardviz.core.layout import applied_reading, local_shape_and_offset, runs_at
from shardviz.core.placements import Partial
from shardviz.core.readings import two_layouts
from shardviz.core.spec import Spec

__all__ = ["Block", "Described", "Describer", "Refused", "blocks"]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of elements that a rank holds: where it begins in the global and in the local tensor, and its size.

    Attributes:
        offset: global index of its first element.
        local: the same element's index in the local tensor.
        size: number of elements per tensor dimension.
    """

    offset: tuple[int, ...]
    local: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def whole(self) -> tuple[slice, ...]:
        """Where it lies in the global tensor."""
        return _slices(self.offset, self.size)

    @property
    def part(self) -> tuple[slice, ...]:
        """Where it lies in the local tensor."""
        return _slices(self.local, self.size)


def blocks(spec: Spec, coordinate: Sequence[int]) -> tuple[Block, ...]:
    """What the rank at a coordinate holds, one block per run; where that is nothing, one empty block at torch's place for it.

    Example:
        >>> from shardviz.core.spec import parse
        >>> for block in blocks(parse("[8, 3] on tp=2: _S(0, 2)"), (1,)):  # rows 0-3 and 4-7, each cut in two
        ...     print(block.offset, block.local, block.size)
        (2, 0) (0, 0) (2, 3)
        (6, 0) (2, 0) (2, 3)
    """
    return _blocks(spec, spec.made_by, tuple(coordinate))


@lru_cache(maxsize=1 << 14)
def _blocks(spec: Spec, made_by: str | None, coordinate: tuple[int, ...]) -> tuple[Block, ...]:
    """`made_by` is named here since two specs that differ in it alone are equal."""
    spec = spec.with_made_by(made_by)
    shape, offset = local_shape_and_offset(spec, coordinate)
    if 0 in shape:
        return (Block(offset, (0,) * spec.ndim, shape),)
    held = [runs_at(spec, dim, applied_reading(spec, dim), coordinate) for dim in range(spec.ndim)]
    placed = [[(start, at, stop - start) for (start, stop), at in zip(runs, _begins(runs), strict=True)] for runs in held]
    return tuple(Block(*map(tuple, zip(*parts, strict=True))) if parts else Block((), (), ()) for parts in product(*placed))


def _begins(runs: Sequence[tuple[int, int]]) -> list[int]:
    return list(accumulate((stop - start for start, stop in runs[:-1]), initial=0))


def _slices(offset: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(low, low + count) for low, count in zip(offset, size, strict=True))


class Described(torch.Tensor):
    """A rank's local tensor, with the fields of torch's `CheckpointableTensor`: which blocks of the global tensor it holds.

    It shares its elements with the DTensor that it was made of. What any operation makes of it is a plain tensor.
    """

    global_shape: tuple[int, ...]
    global_offsets: tuple[tuple[int, ...], ...]
    local_offsets: tuple[tuple[int, ...], ...]
    local_sizes: tuple[tuple[int, ...], ...]

    __torch_function__ = nn.Parameter.__torch_function__

    @classmethod
    def of(cls, local: torch.Tensor, shape: Sequence[int], held: Sequence[Block]) -> Described:
        """Describe a local tensor by the blocks of a global shape that it holds."""
        made = local.detach().as_subclass(cls)
        made.requires_grad_(local.requires_grad)
        made.global_shape = tuple(shape)
        made.global_offsets = tuple(block.offset for block in held)
        made.local_offsets = tuple(block.local for block in held)
        made.local_sizes = tuple(block.size for block in held)
        return made


def _items(self: Described, name: str, _object: object) -> list[WriteItem]:
    about = TensorProperties.create_from_tensor(self)
    size = torch.Size(self.global_shape)
    return [
        WriteItem(
            index=MetadataIndex(name, chunk.offsets),
            type=WriteItemType.SHARD,
            tensor_data=TensorWriteData(chunk=chunk, properties=about, size=size),
        )
        for chunk in _chunks(self)
    ]


def _chunks(self: Described) -> list[ChunkStorageMetadata]:
    return [
        ChunkStorageMetadata(torch.Size(offset), torch.Size(size))
        for offset, size in zip(self.global_offsets, self.local_sizes, strict=True)
    ]


def _shard(self: Described, index: MetadataIndex) -> torch.Tensor:
    place = self.global_offsets.index(tuple(index.offset or ()))
    return self[_slices(self.local_offsets[place], self.local_sizes[place])]


if not hasattr(checkpoint, "CheckpointableTensor"):  # before 2.14, torch asks such a tensor by these methods
    for method in {"__create_write_items__": _items, "__create_chunk_list__": _chunks, "__get_tensor_shard__": _shard}.items():
        setattr(Described, *method)


class Refused:
    """Stands for a tensor that must not be saved: torch asks it what to write, on all ranks alike, and it says why not."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __create_write_items__(self, _name: str, _object: object) -> Any:
        """Refuse."""
        raise TorchError(self.message)


class Describer:
    """Tells what the DTensors of one process hold.

    Args:
        made_by: how tensors came to be whose placements stand for two layouts; None to look whether FSDP2 made them.
    """

    def __init__(self, made_by: str | None = None) -> None:
        self.made_by = made_by
        self._sharded: set[tuple[Any, ...]] = set()

    def held(self, tensor: DTensor, name: str = "") -> tuple[Block, ...] | None:
        """The blocks that the calling rank holds, none outside the mesh; None where torch's own answer has to do.

        Raises:
            TorchError: it holds another shape than its placements say, or these stand for two layouts and nothing tells which.
        """
        numbers = [*tensor.shape]
        if not all(type(number) is int for number in numbers):
            return None  # symbolic sizes, while torch.compile traces
        spec = _spec(tensor)
        if spec is None:
            return None
        if any(isinstance(placement, Partial) for placement in spec.placements):
            return None  # torch refuses it
        coordinate = tensor.device_mesh.get_coordinate()
        if coordinate is None:
            return ()
        spec = self._told(spec, name)
        shape, held = local_shape_and_offset(spec, coordinate)[0], tuple(tensor.to_local().shape)
        if shape != held:
            raise TorchError(
                f"{_named(name)} is neither saved nor loaded: by {tensor.placements} on a mesh of "
                f"{tuple(tensor.device_mesh.shape)} this rank should hold the shape {shape}, and it holds {held}"
            )
        return blocks(spec, coordinate)

    def described(self, tensor: DTensor, name: str = "") -> Described | None:
        """A DTensor's local tensor with what it holds; None where torch's own answer has to do.

        Raises:
            TorchError: as `held`.
        """
        if hasattr(tensor.to_local(), "__create_chunk_list__"):
            return None  # a local tensor that knows its own parts
        found = self.held(tensor, name)
        return None if found is None else Described.of(tensor.to_local(), tuple(tensor.shape), found)

    def _told(self, spec: Spec, name: str) -> Spec:
        """The spec with its maker, where that decides what the ranks hold."""
        if self.made_by:
            return spec.with_made_by(self.made_by)
        if not two_layouts(spec):
            return spec
        mark = (spec.shape, spec.placements, spec.mesh.sizes)
        if mark not in self._sharded:
            self._sharded = _marks_of_fsdp2()
        if mark in self._sharded:
            return spec.with_made_by("fsdp2")
        raise TorchError(
            f"{_named(name)} is neither saved nor loaded: {spec} stands for two layouts, of FSDP2 over a packed weight "
            "and of cutting from left to right, and no parameter that FSDP2 made is like it; say which: "
            'corrected_offsets(made_by="fsdp2") or corrected_offsets(made_by="distribute_tensor")'
        )


def _spec(tensor: DTensor) -> Spec | None:
    """A DTensor's spec, without the mesh's names where these are no names of shardviz's; None where it has none."""
    try:
        return Spec.of(tensor)
    except ShardvizError:
        pass
    try:
        return Spec(tuple(tensor.shape), tuple(tensor.device_mesh.shape), tuple(tensor.placements))
    except ShardvizError:
        return None


def _named(name: str) -> str:
    return repr(name) if name else "a tensor"


def _marks_of_fsdp2() -> set[tuple[Any, ...]]:
    """Shape, placements and mesh of every parameter of this process that FSDP2 sharded."""
    marks = set()
    for module in [thing for thing in gc.get_objects() if issubclass(type(thing), FSDPModule)]:
        for parameter in module.parameters():
            if isinstance(parameter, DTensor):
                spec = Spec.of(parameter)
                marks.add((spec.shape, spec.placements, spec.mesh.sizes))
    return marks
