"""What a checkpoint's `.metadata` promises: every tensor's shape, dtype and chunks, and where each chunk is stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import add, gt
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from shardviz.checks.checkpoints.dtypes import DTYPES
from shardviz.checks.checkpoints.pickles import Made, Name, read_pickle
from shardviz.core.errors import FileError

__all__ = ["ALLOWED", "Place", "Promise", "PromisedTensor", "Promises", "read_metadata"]

_TORCH = "torch.distributed.checkpoint.metadata"
_METADATA, _INDEX, _TENSOR, _CHUNK, _BYTES, *_OTHERS = (
    Name(_TORCH, name)
    for name in (
        "Metadata",
        "MetadataIndex",
        "TensorStorageMetadata",
        "ChunkStorageMetadata",
        "BytesStorageMetadata",
        "StorageMeta",
        "TensorProperties",
        "_MEM_FORMAT_ENCODING",
    )
)
_SIZE = Name("torch", "Size")
_STORED = Name("torch.distributed.checkpoint.filesystem", "_StorageInfo")
_PATHS = [Name(module, "PosixPath") for module in ("pathlib", "pathlib._local")]
_LAYOUT = Name("torch.serialization", "_get_layout")

ALLOWED = frozenset(
    {_METADATA, _INDEX, _TENSOR, _CHUNK, _BYTES, *_OTHERS, _SIZE, _STORED, _LAYOUT}
    | {*DTYPES, *_PATHS, Name("collections", "OrderedDict")}
)
"""Everything that torch's own metadata names."""

_LARGEST_SIZE = 1 << 62
_ONLY_INT = {int}


# These are Structs and no dataclasses, since they are made several times faster, and a checkpoint has thousands of each.


class Place(Struct, frozen=True):
    """A stretch of a data file: its name, the first byte, the number of bytes, and how these are compressed, if they are."""

    file: str
    start: int
    length: int
    packed: str = ""


class Promise(Struct, frozen=True):
    """One chunk as the metadata describes it; `place` is None where it names none."""

    offset: tuple[int, ...]
    size: tuple[int, ...]
    place: Place | None


class PromisedTensor(Struct, frozen=True):
    """One tensor as the metadata describes it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[Promise, ...]


class Promises(Struct, frozen=True):
    """All that a checkpoint's metadata promises: its tensors, the entries stored as plain bytes, and what it only names."""

    tensors: tuple[PromisedTensor, ...]
    others: Mapping[str, Place | None]
    unstored: tuple[str, ...] = ()


def read_metadata(data: bytes) -> Promises:
    """Read a `.metadata` file's content without running anything in it.

    Raises:
        FileError: it is not the metadata of a checkpoint, or contradicts itself.
    """
    tree = read_pickle(data, ALLOWED)
    fields = _fields(tree, _METADATA)
    stored = _stored(fields.get("storage_data"))
    entries = fields.get("state_dict_metadata")
    if type(entries) is not dict:
        raise FileError("it has no list of tensors")
    tensors, others = [], {}
    cuts: dict[int, _Cut] = {}  # tensors that are cut alike share an entry
    for name, entry in entries.items():
        if type(name) is not str:
            raise FileError("it has a tensor whose name is no text")
        if type(entry) is Made and entry.kind == _BYTES:
            others[name] = stored.get((name, None))
        else:
            cut = cuts.get(id(entry)) or cuts.setdefault(id(entry), _cut(name, entry))
            chunks = [Promise(offset, size, stored.get((name, offset))) for offset, size in cut.boxes]
            tensors.append(PromisedTensor(name, cut.shape, cut.dtype, tuple(chunks)))
    named = fields.get("planner_data")  # where each entry stood in the state dict
    unstored = [name for name in named if name not in entries and type(name) is str] if type(named) is dict else []
    return Promises(tuple(tensors), others, tuple(unstored))


def _stored(entries: Any) -> dict[tuple[str, tuple[int, ...] | None], Place]:
    """Where everything is stored, by its name and its offset."""
    if type(entries) is not dict:
        raise FileError("it does not say where anything is stored")
    found: dict[tuple[str, tuple[int, ...] | None], Place] = {}
    inside: set[str] = set()
    offsets: dict[int, tuple[int, ...]] = {}  # chunks at the same place mostly share an object
    for key, entry in entries.items():
        index, info = _fields(key, _INDEX), _fields(entry, _STORED)
        name, offset = index.get("fqn"), index.get("offset")
        file, start, length = info.get("relative_path"), info.get("offset"), info.get("length")
        if not (type(name) is type(file) is str and type(start) is type(length) is int and start >= 0 <= length):
            raise FileError("it has a place that is no stretch of a file")
        if file not in inside:
            _check_inside(file)
            inside.add(file)
        packed = info.get("transform_descriptors")
        if packed and not (type(packed) in (list, tuple) and all(type(step) is str for step in packed)):
            raise FileError("it has a place that is packed in no known way")
        at = None if offset is None else offsets.get(id(offset)) or offsets.setdefault(id(offset), _numbers(offset))
        found[name, at] = Place(file, start, length, ", ".join(packed) if packed else "")
    return found


def _check_inside(file: str) -> None:
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\0" in file:
        raise FileError(f"it points out of the directory, at {file[:100]!r}")


class _Cut(Struct, frozen=True):
    """A tensor's shape, dtype, and the offset and size of its chunks, apart from its name and from where they are stored."""

    shape: tuple[int, ...]
    dtype: str
    boxes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _cut(name: str, entry: Any) -> _Cut:
    fields = _fields(entry, _TENSOR)
    properties = fields.get("properties")
    state = properties.state if type(properties) is Made else None
    first = state[0] if type(state) is tuple and state else None
    dtype = DTYPES.get(first) if type(first) is Name else None
    if dtype is None:
        raise FileError(f"it gives {name[:100]!r} no dtype")
    shape = _numbers(fields.get("size"))
    chunks = fields.get("chunks")
    if type(chunks) is not list:
        raise FileError(f"it gives {name[:100]!r} no chunks")
    return _Cut(shape, dtype, tuple([_box(name, shape, chunk) for chunk in chunks]))


def _box(name: str, shape: tuple[int, ...], chunk: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    fields = _fields(chunk, _CHUNK)
    offset, size = _numbers(fields.get("offsets")), _numbers(fields.get("sizes"))
    if len(offset) != len(shape) or len(size) != len(shape) or any(map(gt, map(add, offset, size), shape)):
        raise FileError(f"a chunk of {name[:100]!r} at {offset} with size {size} does not lie in its shape {shape}")
    return offset, size


def _fields(made: Any, kind: Name) -> dict[str, Any]:
    if type(made) is not Made or made.kind != kind or type(made.state) is not dict:
        raise FileError(f"it is not the metadata of a checkpoint: a {kind.name} is expected")
    return made.state


def _numbers(size: Any) -> tuple[int, ...]:
    numbers = size.args[0] if type(size) is Made and size.kind == _SIZE and len(size.args) == 1 else size
    if type(numbers) not in (tuple, list) or len(numbers) > 64 or not _ONLY_INT.issuperset(map(type, numbers)):
        raise FileError("it has a size that is no list of whole numbers")
    if numbers and (min(numbers) < 0 or max(numbers) > _LARGEST_SIZE or math.prod(numbers) > _LARGEST_SIZE):
        raise FileError("it has a size that no tensor can have")
    return tuple(numbers)
