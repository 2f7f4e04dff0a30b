"""Checkpoints made without ranks: saved by torch in this process, and damaged by hand."""

import os
import pickle

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

TENSORS = {
    "weight": torch.arange(12, dtype=torch.float32).view(3, 4),
    "<b>bold</b>\n": torch.arange(5).to(torch.bfloat16),
    "flags": torch.tensor([True, False, True]),
    "wide": torch.arange(6).to(torch.complex128).view(1, 2, 3),
    "step": torch.tensor(7.0),
    "none": torch.zeros(0, 3),
    "turned": torch.arange(6, dtype=torch.int64).view(2, 3).t(),
    "small": torch.arange(4).to(torch.float8_e4m3fn),
    "count": torch.arange(3).to(torch.uint16),
}


def save(directory, state=None, **more):
    """Save tensors and plain values with torch, in one process."""
    state = {**TENSORS, "epoch": 3, "note": "text"} if state is None else state
    dcp.save(dict(state), storage_writer=dcp.FileSystemWriter(directory, **more), no_dist=True)
    return directory


def metadata(directory):
    return pickle.loads((directory / ".metadata").read_bytes())


def write_metadata(directory, tree):
    (directory / ".metadata").write_bytes(pickle.dumps(tree))


def cut(directory, name, pieces):
    """Save a vector of 1, 2, …, and say in the metadata that its elements lie in pieces of (offset, promised, stored)."""
    stored = [torch.arange(first + 1, first + 1 + count, dtype=torch.float32) for first, _, count in pieces]
    save(directory, {f"{name}{place}": tensor for place, tensor in enumerate(stored)})
    tree = metadata(directory)
    entry = tree.state_dict_metadata[f"{name}0"]
    infos = [tree.storage_data[MetadataIndex(f"{name}{place}", [0])] for place in range(len(pieces))]
    entry.size = torch.Size([max(first + promised for first, promised, _ in pieces)])
    entry.chunks = [ChunkStorageMetadata(torch.Size([first]), torch.Size([promised])) for first, promised, _ in pieces]
    tree.state_dict_metadata = {name: entry}
    tree.storage_data = {MetadataIndex(name, [first]): info for (first, _, _), info in zip(pieces, infos, strict=True)}
    tree.planner_data = None
    write_metadata(directory, tree)
    return directory


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def contents(directory):
    """Every file's bytes and time of change: what must stay as it was."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.rglob("*") if path.is_file()}


def number(tensor):
    """A tensor's elements as bytes, in the order of its indices."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
