"""A checkpoint as safetensors files: one, or a directory that `from_pretrained` reads, every element of it checked."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardviz.checks.checkpoints.beside import written_directory, written_file
from shardviz.checks.checkpoints.checkpoint import Checkpoint
from shardviz.checks.checkpoints.content import elements
from shardviz.checks.checkpoints.datafiles import DataFiles, read_whole, shown
from shardviz.checks.checkpoints.facts import StoredTensor
from shardviz.checks.checkpoints.hugging import parts
from shardviz.checks.checkpoints.optimizer import is_optimizer_state
from shardviz.checks.checkpoints.words import many
from shardviz.core.errors import FileError

__all__ = ["SHARD_BYTES", "Converted", "convert"]

SHARD_BYTES = 5_000_000_000
"""Bytes of tensors in one file, above which a directory gets several; what transformers writes by default is as large."""

_LARGEST_CONFIG = 1 << 24
_OTHER_FILES = {".bin", ".pt", ".pth", ".ckpt", ".gguf", ".json", ".npz", ".safetensor", ".txt"}

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Converted:
    """What was written.

    Attributes:
        target: the file, or the directory.
        names: the tensors' names in it.
        files: the names of the safetensors files.
        left_out: number of tensors that were left out, by the reason.
    """

    target: Path
    names: tuple[str, ...]
    files: tuple[str, ...]
    left_out: Mapping[str, int]

    @property
    def text(self) -> str:
        """What was written and what was left out, in sentences."""
        where = f" in {many(len(self.files), 'file')} and an index" if len(self.files) > 1 else ""
        lines = [f"{many(len(self.names), 'tensor')} written to {shown(str(self.target))}{where}, every element checked"]
        lines += [f"left out, {reason}: {count:,}" for reason, count in self.left_out.items() if count]
        return "\n".join(lines)


def convert(
    found: Checkpoint,
    target: str | Path,
    strip: str = "",
    optimizer: bool = False,
    shard_bytes: int = SHARD_BYTES,
    config: Path | None = None,
    progress: Progress | None = None,
) -> Converted:
    """Write a checkpoint's tensors as safetensors, and check every element.

    Torch's own reader reads them, safetensors' own writer writes them; then the files are compared with the checkpoint's data
    files, read without either. They are written under other names beside the target, and renamed when all are right. Memory
    holds one file's tensors at a time. Entries that are no tensors have no place in the format and are left out.

    Args:
        found: a whole checkpoint; mend a broken one first.
        target: a file that ends in `.safetensors`, or a directory, which must not exist or be empty.
        strip: what to take off the names, such as `"app.model."`; tensors whose names do not begin with it are left out.
        optimizer: whether to write the optimizer's state too.
        shard_bytes: bytes of tensors from which on a directory gets several files, and an index of them.
        config: a model's configuration, to be copied into the directory for `from_pretrained`.
        progress: called with a sentence and the fraction done, 0 to 1.

    Raises:
        FileError: the checkpoint is not whole, nothing is left to be written, the target is in the way or cannot be written,
            or a tensor has a dtype that safetensors does not know.
    """
    path = Path(target)
    if not found.whole:
        raise FileError(f"{shown(str(found.directory))} is not whole: {found.text.splitlines()[-1]}; mend it first")
    if path.suffix in _OTHER_FILES and not path.is_dir():
        raise FileError(f"{shown(path.name)!r}: a checkpoint is converted to a .safetensors file, or to a directory of them")
    if path.resolve().is_relative_to(found.directory.resolve()):
        raise FileError(f"{shown(str(path))} lies in the checkpoint's directory, which is never changed")
    names, left_out = _names(found, strip, optimizer)
    tell = progress or (lambda _stage, _fraction: None)
    try:
        if path.suffix == ".safetensors":
            with written_file(path) as made:
                _write(found, names, made, tell)
            return Converted(path, tuple(names), (path.name,), left_out)
        if path.exists() and (not path.is_dir() or path.is_symlink() or any(path.iterdir())):
            raise FileError(f"{shown(str(path))} exists and is not empty: give a new directory, or a .safetensors file")
        with written_directory(path) as made:
            files = _write_all(found, names, made, shard_bytes, tell)
            if config is not None:
                (made / "config.json").write_bytes(read_whole(config, _LARGEST_CONFIG))
    except OSError as error:
        raise FileError(f"{shown(str(path))} cannot be written: {error.strerror or error}; nothing is left of it") from error
    return Converted(path, tuple(names), files, left_out)


def _names(found: Checkpoint, strip: str, optimizer: bool) -> tuple[dict[str, StoredTensor], dict[str, int]]:
    """The tensors to be written by their new names, and how many are left out for what reason."""
    names: dict[str, StoredTensor] = {}
    states = others = 0
    for tensor in found.tensors:
        if is_optimizer_state(tensor.name) and not optimizer:
            states += 1
        elif not tensor.name.startswith(strip) or tensor.name == strip:
            others += 1
        else:
            names[tensor.name.removeprefix(strip)] = tensor
    if not names:
        raise FileError(f"{shown(str(found.directory))} has nothing to write: no tensor's name begins with {shown(strip)!r}")
    reasons = {
        "an optimizer's state": states,
        f"names that do not begin with {shown(strip)!r}": others,
        "what is no tensor": len(found.others),
    }
    return names, reasons


def _write_all(
    found: Checkpoint, names: Mapping[str, StoredTensor], directory: Path, shard_bytes: int, tell: Progress
) -> tuple[str, ...]:
    shards: list[dict[str, StoredTensor]] = [{}]
    size = 0
    for name, tensor in names.items():
        if shards[-1] and size + tensor.bytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.bytes
    many_files = len(shards) > 1
    files = [f"model-{n:05}-of-{len(shards):05}.safetensors" if many_files else "model.safetensors" for n in _numbers(shards)]
    for place, (file, shard) in enumerate(zip(files, shards, strict=True)):
        tell(f"writing {file}", place / len(files))
        _write(found, shard, directory / file, lambda _stage, _fraction: None)
    if many_files:
        total = sum(tensor.bytes for tensor in names.values())
        where = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
        index = {"metadata": {"total_size": total}, "weight_map": where}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", "utf-8")
    return tuple(files)


def _numbers(shards: Sequence[object]) -> range:
    return range(1, len(shards) + 1)


def _write(found: Checkpoint, names: Mapping[str, StoredTensor], path: Path, tell: Progress) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.api import CheckpointException

    tell(f"writing {path.name}", 0.0)
    try:
        save_file(_loaded(found, names), path, metadata={"format": "pt"})
    except (SafetensorError, CheckpointException, AttributeError, KeyError, ValueError) as error:
        raise FileError(f"{shown(path.name)} cannot be written: {shown(str(error), 500)}") from error
    tell(f"checking {path.name}", 0.5)
    _check(found, names, path)


def _loaded(found: Checkpoint, names: Mapping[str, StoredTensor]) -> dict[str, Any]:
    import torch

    if found.format == "torch":
        from torch.distributed.checkpoint.filesystem import FileSystemReader
        from torch.distributed.checkpoint.state_dict_loader import load

        state = {t.name: torch.zeros(t.shape, dtype=getattr(torch, t.dtype)) for t in names.values()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that no ranks take part
            load(state, storage_reader=FileSystemReader(found.directory), no_dist=True)
        return {name: state[tensor.name] for name, tensor in names.items()}
    with DataFiles(found.directory) as files:
        flat = {name: torch.from_numpy(elements(files, tensor).reshape(-1)) for name, tensor in names.items()}
    return {name: flat[name].view(getattr(torch, tensor.dtype)).view(tensor.shape) for name, tensor in names.items()}


def _check(found: Checkpoint, names: Mapping[str, StoredTensor], path: Path) -> None:
    """Compare a written file with the checkpoint, element by element."""
    import numpy as np

    with DataFiles(found.directory) as files, DataFiles(path.parent) as written:
        stored = {name: tensor for name, _, tensor, _ in parts(written, path.name)}
        for name, tensor in names.items():
            record = stored.pop(name, None)
            if record is None or record.shape != tensor.shape or record.dtype != tensor.dtype:
                raise FileError(f"{shown(path.name)} does not hold {shown(name)} as it should")
            data = np.frombuffer(written.read(path.name, record.byte_offset, record.bytes), np.uint8)
            if not np.array_equal(elements(files, tensor).reshape(-1), data):
                raise FileError(f"{shown(path.name)} does not hold the elements of {shown(name)}")
        if stored:
            raise FileError(f"{shown(path.name)} holds more than the checkpoint: {shown(next(iter(stored)))}")
