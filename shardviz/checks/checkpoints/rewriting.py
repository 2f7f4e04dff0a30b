"""New chunks in a checkpoint's metadata, everything else in it kept; written by torch's own classes."""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shardviz.checks.checkpoints.chunks import Box
from shardviz.checks.checkpoints.facts import Chunk
from shardviz.checks.checkpoints.metadata import ALLOWED, read_metadata
from shardviz.checks.checkpoints.pickles import Name
from shardviz.core.errors import FileError

__all__ = ["rewritten"]


def rewritten(metadata: bytes, chunks: Mapping[str, Sequence[tuple[Box, Chunk]]], without: Collection[str] = ()) -> bytes:
    """The content of a `.metadata` file in which some tensors have other chunks.

    Args:
        metadata: the content as it was.
        chunks: per name of a tensor the elements that each chunk holds, and the chunk.
        without: the names of tensors that are left out; the metadata goes on to name them, so that this can be seen.

    Raises:
        FileError: the metadata is not to be trusted.
    """
    from torch import Size
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

    read_metadata(metadata)  # only what is nothing but metadata may be made into objects
    try:
        tree = _Restricted(io.BytesIO(metadata)).load()
    except Exception as error:
        raise FileError(f"its metadata cannot be read by torch {_version()}: {error}") from error
    moved: dict[str, dict[tuple[int, ...], Any]] = {name: {} for name in {*chunks, *without}}
    for key in [key for key in tree.storage_data if key.fqn in moved]:
        moved[key.fqn][tuple(key.offset)] = tree.storage_data.pop(key)
    named = tree.planner_data or {}
    for name in without:
        del tree.state_dict_metadata[name]
        named = {**named, name: named.get(name, (name,))}
    tree.planner_data = named or None
    for name, placed in chunks.items():
        tree.state_dict_metadata[name].chunks = [ChunkStorageMetadata(Size(box.offset), Size(box.size)) for box, _ in placed]
        for place, (box, chunk) in enumerate(placed):
            tree.storage_data[MetadataIndex(name, Size(box.offset), place)] = moved[name][chunk.offset]
    return pickle.dumps(tree)


class _Restricted(pickle.Unpickler):
    """Makes objects of the classes of torch's checkpoint format, and of nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Look up an allowed name."""
        if Name(module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a checkpoint's metadata")
        return getattr(importlib.import_module(module), name)


def _version() -> str:
    from torch import __version__

    return str(__version__)
