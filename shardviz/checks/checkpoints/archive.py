"""What is really stored in a chunk's archive: the tensor's record, found in the archive's directory and never unpickled."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from shardviz.checks.checkpoints.dtypes import DTYPES, STORAGES, itemsize
from shardviz.checks.checkpoints.metadata import Place
from shardviz.checks.checkpoints.pickles import Made, Name, read_pickle
from shardviz.core.errors import FileError

__all__ = ["Read", "Stored", "stored_tensor"]

Read: TypeAlias = Callable[[int, int], bytes]
"""Reads from a file: first byte and number of bytes."""

_REBUILD = {Name("torch._utils", f"_rebuild_tensor_v{version}"): version for version in (2, 3)}
_UNTYPED = Name("torch.storage", "UntypedStorage")
_ALLOWED = frozenset({*_REBUILD, *DTYPES, *STORAGES, _UNTYPED, Name("collections", "OrderedDict")})

_HEAD, _TAIL = 1024, 768  # torch's records of a chunk mostly lie in the first, the directory in the second
_LARGEST_RECORD = 1 << 16  # of the directory and of the description, which are some hundred bytes
_MOST_ALIKE = 256
_KEY = 256  # bytes at the start of an archive, which describe the tensor
_ENTRY = struct.Struct("<4x2H2xH4x4x2I3H8xI")
_FULL = 0xFFFFFFFF

_Records: TypeAlias = dict[str, tuple[int, int, int]]
"""Per record, without the archive's own name, where its header is, its size, and its method of compression (0 for none)."""


class Stored(Struct, frozen=True):
    """The tensor in an archive.

    Attributes:
        dtype: its dtype.
        shape: its shape.
        stride: elements to step in the file, per tensor dimension.
        byte_offset: first byte of its first element in the file.
        bytes: number of bytes of its elements.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    byte_offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Described:
    """A tensor as its archive's pickle describes it; `start` is its first element in the storage, `needs` how many it spans."""

    dtype: str
    storage: str
    start: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    needs: int


class _Alike:
    """An archive that was read, and the bytes on which what was found depends: archives that agree in them hold the like."""

    __slots__ = ("bytes", "found", "head", "tail")

    def __init__(self, found: Stored, looked: _Looked, head: bytes, tail: bytes) -> None:
        self.found = found
        self.head, self.tail = _reader(looked.head), _reader(looked.tail)
        self.bytes = self.head(head), self.tail(tail)


@dataclass(slots=True)
class _Looked:
    """The stretches of an archive's two ends that were looked at, and whether nothing between them was."""

    head: list[tuple[int, int]]
    tail: list[tuple[int, int]]
    all: bool = True


def _reader(stretches: Sequence[tuple[int, int]]) -> Callable[[bytes], tuple[bytes, ...]]:
    """Takes these stretches out of an archive's end, and nothing between them."""
    joined: list[list[int]] = []
    for at, count in sorted(stretches):
        if joined and at <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], at + count)
        else:
            joined.append([at, at + count])
    ends = [0, *(end for _, end in joined)]
    layout = "".join(f"{at - before}x{end - at}s" for before, (at, end) in zip(ends, joined, strict=False))
    return struct.Struct(f"<{layout}").unpack_from


_alike: dict[tuple[int, bytes], _Alike] = {}
"""By length and first bytes: most chunks of a checkpoint differ only in their elements and the checksums of these."""


def stored_tensor(read: Read, place: Place, file_size: int) -> Stored:
    """Find the tensor that is stored at a place.

    Args:
        read: reads from the file.
        place: where the archive of the chunk lies in it.
        file_size: bytes of the file.

    Raises:
        FileError: there is no archive of a plain tensor, or it is cut short, or its lengths are not true.
    """
    if place.start + place.length > file_size:
        raise FileError(f"the file is cut short: the chunk ends at byte {place.start + place.length} of {file_size}")
    if place.length < 22:
        raise FileError(f"{place.length} bytes are no archive of a tensor")
    head = read(place.start, min(_HEAD, place.length))
    tail_at = max(place.length - _TAIL, 0)
    tail = read(place.start + tail_at, place.length - tail_at)
    key = place.length, head[:_KEY]
    alike = _alike.get(key)
    if alike is not None and (alike.head(head), alike.tail(tail)) == alike.bytes:
        found = alike.found
        return Stored(found.dtype, found.shape, found.stride, place.start + found.byte_offset, found.bytes)
    looked = _Looked([], [])

    def part(at: int, size: int) -> bytes:
        if at < 0 or size < 0 or at + size > place.length:
            raise FileError("a length in its archive is not true")
        if at + size <= len(head):
            looked.head.append((at, size))
            return head[at : at + size]
        if at >= tail_at:
            looked.tail.append((at - tail_at, size))
            return tail[at - tail_at : at - tail_at + size]
        looked.all &= not size
        return read(place.start + at, size)

    found = _found(part, place.length)
    if looked.all:
        if len(_alike) >= _MOST_ALIKE:
            _alike.clear()
        _alike[key] = _Alike(found, looked, head, tail)
    return Stored(found.dtype, found.shape, found.stride, place.start + found.byte_offset, found.bytes)


def _found(part: Read, length: int) -> Stored:
    """The tensor in an archive of some length; its first byte counts from the archive's."""
    records = _records(part, length)
    described = _described(part(*_record(part, records, "data.pkl", _LARGEST_RECORD)))
    at, size = _record(part, records, f"data/{described.storage}", length)
    unit = itemsize(described.dtype)
    count = math.prod(described.shape)
    if max(described.start + described.needs, count) * unit > size:
        raise FileError(f"it describes a tensor of shape {described.shape} and stores {size // unit} elements")
    return Stored(described.dtype, described.shape, described.stride, at + described.start * unit, count * unit)


def _records(part: Read, length: int) -> _Records:
    """The archive's directory, which stands at its end."""
    end = part(length - 22, 22)
    if end[:4] != b"PK\5\6":
        raise FileError("it is no archive of a tensor: its directory is not at its end")
    count, size, at = struct.unpack_from("<HII", end, 10)
    if (count == 0xFFFF or _FULL in (size, at)) and length >= 42:
        locator = part(length - 42, 20)
        if locator[:4] == b"PK\6\7":
            wide = part(struct.unpack_from("<Q", locator, 8)[0], 56)
            count, size, at = struct.unpack_from("<QQQ", wide, 32)
    if size > _LARGEST_RECORD:
        raise FileError("it is no archive of one tensor: its directory is too large")
    return _entries(part, at, size, count)


def _entries(part: Read, at: int, size: int, count: int) -> _Records:
    """The records that a directory lists; the checksums in it are not looked at."""
    part(at + size, 0)  # it ends inside the archive
    found: _Records = {}
    end = at + size
    for _ in range(count):
        if at + 46 > end:
            raise FileError("the directory of its archive is damaged")
        first = part(at, 16) + b"\0\0\0\0" + part(at + 20, 26)
        _, _, method, packed, plain, name_size, extra_size, note_size, header = _ENTRY.unpack(first)
        if first[:4] != b"PK\1\2":
            raise FileError("the directory of its archive is damaged")
        names = part(at + 46, min(name_size + extra_size, end - at - 46))
        if _FULL in (packed, plain, header):
            plain, packed, header = _wide(names[name_size:], plain, packed, header)
        found[names[:name_size].decode("utf-8", "replace").partition("/")[2]] = (
            header,
            plain,
            method if packed == plain else -1,
        )
        at += 46 + name_size + extra_size + note_size
    return found


def _wide(extra: bytes, *numbers: int) -> tuple[int, ...]:
    """The numbers of an entry that do not fit into 32 bits stand one after the other in its extra field number 1."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{size // 8}Q", extra, at + 4))
            return tuple(next(wide, number) if number == _FULL else number for number in numbers)
        at += 4 + size
    return numbers


def _record(part: Read, records: _Records, name: str, largest: int) -> tuple[int, int]:
    """First byte and size of a record, the header before it skipped."""
    if name not in records:
        raise FileError(f"it is no archive of a tensor: it has no {name[:50]!r}")
    header, size, method = records[name]
    if method:
        raise FileError("its archive is compressed, which torch's never are")
    if size > largest:
        raise FileError("a length in its archive is not true")
    if part(header, 4) != b"PK\3\4":
        raise FileError("a length in its archive is not true")
    at = header + 30 + sum(struct.unpack("<HH", part(header + 26, 4)))
    part(at + size, 0)  # it ends inside the archive
    return at, size


@lru_cache(maxsize=1024)
def _described(pickle: bytes) -> _Described:
    made = read_pickle(pickle, _ALLOWED)
    version = _REBUILD.get(made.kind) if type(made) is Made else None
    if version is None or len(made.args) < (6 if version == 2 else 7):
        raise FileError("it is no plain tensor")
    storage, start, shape, stride = made.args[:4]
    numbers = (start, *shape, *stride) if type(shape) is type(stride) is tuple and len(shape) == len(stride) <= 64 else (-1,)
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers):
        raise FileError("it describes no plain tensor")
    place = storage.args[0] if type(storage) is Made and storage.kind.module == "persistent" else None
    if type(place) is not tuple or len(place) != 5 or type(place[2]) is not str:
        raise FileError("it is no plain tensor: its elements are not in the archive")
    named: Any = made.args[6] if version == 3 else place[1]
    dtype = (DTYPES if version == 3 else STORAGES).get(named) if type(named) is Name else None
    if dtype is None:
        raise FileError("it describes a tensor without a dtype")
    empty = 0 in shape
    needs = 0 if empty else 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return _Described(dtype, place[2], start, shape, stride, needs)
