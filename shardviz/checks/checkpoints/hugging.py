"""Checkpoints of torch's Hugging Face writer: safetensors files, whose headers say what they hold and where it belongs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardviz.checks.checkpoints.archive import Stored
from shardviz.checks.checkpoints.datafiles import DataFiles, shown
from shardviz.checks.checkpoints.dtypes import SAFETENSORS, itemsize
from shardviz.core.errors import FileError

__all__ = ["Part", "parts", "safetensors_files"]

_LARGEST_HEADER = 100_000_000  # safetensors' own limit

Part = tuple[str, tuple[int, ...], Stored, str]
"""A tensor's name, the offset of this part of it, what is stored, and the file."""


def safetensors_files(directory: Path) -> list[str]:
    """The files that make up the checkpoint: the ranks' shards where there are any, since a joined file is their copy."""
    names = sorted(path.name for path in directory.iterdir() if path.name.endswith(".safetensors"))
    return [name for name in names if name.startswith("shard-")] or names


def parts(files: DataFiles, name: str) -> Iterator[Part]:
    """Every tensor in a safetensors file.

    Raises:
        FileError: the file is no safetensors file, or its header is not true.
    """
    size = files.size(name)
    length = int.from_bytes(files.read(name, 0, 8), "little")
    if size < 8 or length > min(size - 8, _LARGEST_HEADER):
        raise FileError(f"{shown(name)} is no safetensors file, or is cut short")
    try:
        header = json.loads(files.read(name, 8, length))
        offsets = json.loads(header.pop("__metadata__", {}).get("DCP_SHARDING_INFO", "{}"))
        for tensor, entry in header.items():
            yield _part(tensor, entry, offsets.get(tensor), name, 8 + length, size)
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"the header of {shown(name)} is damaged") from None


def _part(tensor: str, entry: dict[str, Any], sharding: Any, file: str, begin: int, size: int) -> Part:
    dtype, shape = SAFETENSORS.get(entry["dtype"]), _numbers(entry["shape"])
    offset = _numbers(sharding["saved_offsets"]) if sharding else (0,) * len(shape)
    first, last = _numbers(entry["data_offsets"])
    if dtype is None:
        raise FileError(f"{shown(file)} gives {shown(tensor)} the unknown dtype {shown(str(entry['dtype']), 20)!r}")
    if len(offset) != len(shape) or last - first != math.prod(shape) * itemsize(dtype):
        raise FileError(f"{shown(file)} contradicts itself about the size of {shown(tensor)}")
    if begin + last > size:
        raise FileError(f"{shown(file)} is cut short: {shown(tensor)} ends at byte {begin + last} of {size}")
    tensor.encode()  # a lone surrogate is no name
    stride = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return tensor, offset, Stored(dtype, shape, stride, begin + first, last - first), file


def _numbers(values: Any) -> tuple[int, ...]:
    if len(values) > 64 or not all(type(value) is int and 0 <= value < 1 << 62 for value in values):
        raise ValueError("sizes are whole numbers")
    return tuple(values)
