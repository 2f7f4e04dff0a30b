"""A distributed checkpoint's directory, looked into: every chunk's promised size against what is really stored."""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardviz.checks.checkpoints.datafiles import DataFiles, read_whole, shown, writer
from shardviz.checks.checkpoints.facts import Chunk, FileTotal, StoredTensor, Stray
from shardviz.checks.checkpoints.hugging import parts, safetensors_files
from shardviz.checks.checkpoints.metadata import Place, Promise, read_metadata
from shardviz.checks.checkpoints.sharing import shared_bytes
from shardviz.checks.checkpoints.verify import Verified, verified
from shardviz.core.errors import FileError

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.expected import Compared
    from shardviz.checks.checkpoints.mend import Rescue
    from shardviz.picture.picture import Picture

__all__ = ["Checkpoint", "checkpoint"]

METADATA = ".metadata"
LARGEST_METADATA = 1 << 28
"""Bytes: about two million chunks."""

_MOST_EXPLAINED = 40

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint's directory holds. `checkpoint["name"]` is a tensor; iteration gives all of them.

    Attributes:
        directory: where it is.
        tensors: its tensors.
        others: names of the entries that are stored as plain bytes (numbers, texts, lists): they are never read.
        problems: what is wrong beside sizes and coverage, in sentences: files that are missing or damaged.
        format: "torch", or "safetensors" for what the Hugging Face writer made.
        only: what the names of its entries have in them, where it was asked for these alone.
        read: what reading the elements found; None where only their sizes were looked at.
    """

    directory: Path
    tensors: tuple[StoredTensor, ...] = field(repr=False)
    others: tuple[str, ...] = field(repr=False)
    problems: tuple[str, ...]
    format: str
    only: str = ""
    read: Verified | None = field(default=None, repr=False)

    @cached_property
    def whole(self) -> bool:
        """Whether every element of every tensor is stored where the metadata promises it, once.

        That is said of places and sizes; `read` says whether the elements themselves were read, and compared with checksums.
        """
        return not self.problems and all(tensor.whole for tensor in self.tensors)

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """What is wrong with what it holds, in sentences: optimizer states of another shape than their parameter's."""
        from shardviz.checks.checkpoints.optimizer import misshapen

        return tuple(misshapen(self.tensors))

    @property
    def ok(self) -> bool:
        """Whether nothing was found: it is whole, and what it holds fits together."""
        return self.whole and not self.findings

    def __bool__(self) -> bool:
        """Whether something was found wrong: as every report, it is true where something was."""
        return not self.ok

    @cached_property
    def broken(self) -> tuple[StoredTensor, ...]:
        """The tensors that are not whole."""
        return tuple(tensor for tensor in self.tensors if not tensor.whole)

    def __getitem__(self, name: str) -> StoredTensor:
        return self._named[name]

    def __iter__(self) -> Iterator[StoredTensor]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    @cached_property
    def _named(self) -> Mapping[str, StoredTensor]:
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def files(self) -> tuple[FileTotal, ...]:
        """What each data file holds, in the order of the ranks that wrote them."""
        totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for tensor in self.tensors:
            for chunk in tensor.chunks:
                if chunk.place is not None:
                    total = totals[chunk.place.file]
                    total[0] += 1
                    total[1] += chunk.stored
                    total[2] += chunk.tensor.bytes if chunk.tensor else 0
        found = [FileTotal(name, writer(name), *total) for name, total in totals.items()]
        return tuple(sorted(found, key=lambda file: (-1 if file.rank is None else file.rank, file.name)))

    @cached_property
    def rescues(self) -> Mapping[str, Rescue]:
        """Per broken tensor that stores other sizes than it promises what can be got back; of the first 40 alone."""
        from shardviz.checks.checkpoints.mend import rescue

        moved = [tensor for tensor in self.broken if any(c.tensor and c.tensor.shape != c.size for c in tensor.chunks)]
        return {rescued.tensor.name: rescued for rescued in rescue(self, moved[:_MOST_EXPLAINED])}

    @cached_property
    def strays(self) -> Mapping[str, tuple[Stray, ...]]:
        """Per broken tensor where elements lie that are not where they are promised, as far as `rescues` can tell."""
        return {name: rescued.strays for name, rescued in self.rescues.items()}

    @cached_property
    def text(self) -> str:
        """The verdict, what is wrong, and the totals, in words."""
        from shardviz.checks.checkpoints.words import checkpoint_words

        return checkpoint_words(self)

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from shardviz.checks.checkpoints.report import notebook_html

        return {"text/plain": self.text, "text/html": notebook_html(self)}

    def expect(self, config: str | Path) -> Compared:
        """What it has of what a model needs: which tensors are missing, extra or of another shape.

        Args:
            config: a `config.json` of transformers, or the directory that has one.

        Raises:
            FileError: it is no configuration of a model that the installed transformers knows.
            TorchError: transformers is not installed.
        """
        from shardviz.checks.checkpoints.expected import compared
        from shardviz.checks.checkpoints.model_class import needed_by

        return compared(self, needed_by(config))

    def picture(self, name: str) -> Picture:
        """The map of one tensor: its chunks as boxes over the global shape, with what is missing and what is promised twice."""
        from shardviz.checks.checkpoints.report import tensor_picture

        return tensor_picture(self[name], self.strays.get(name, ()))

    def save(self, path: str | Path) -> Path:
        """Write the map as a self-contained page.

        Args:
            path: a file name that ends in `.html`.

        Raises:
            FileError: another ending, or the file cannot be written.
        """
        from shardviz.checks.checkpoints.report import save_page

        return save_page(self, Path(path))

    def document(self) -> dict[str, Any]:
        """The map as plain data: the document of `shardviz checkpoint --json`, with findings where there are any."""
        tensors = [_tensor_document(tensor) for tensor in self.tensors]
        more: dict[str, Any] = {"findings": self.findings} if self.findings else {}
        if self.read is not None:
            more["read"] = {"right": self.read.right, "unsigned": self.read.unsigned, "wrong": self.read.wrong}
        return {"tensors": tensors, "whole": self.whole, **more}


def checkpoint(directory: str | Path, progress: Progress | None = None, only: str = "", verify: bool = False) -> Checkpoint:
    """Look into a distributed checkpoint, down to the stored bytes. Nothing in it is unpickled or changed.

    Args:
        directory: what `torch.distributed.checkpoint.save` wrote, or its Hugging Face writer.
        progress: called with a sentence and the fraction done, 0 to 1.
        only: look into the entries alone whose names have this in them; `*` in it stands for anything.
        verify: read the elements too, and compare them with the checksums that torch stored. What differs is a problem.

    Returns:
        What it holds. Data files that are missing, cut short or damaged count as storing nothing, and `problems` says so.

    Raises:
        FileError: the directory is no checkpoint, its metadata cannot be read or is not to be trusted, or it has no such entry.

    Example:
        >>> import tempfile, torch
        >>> from torch.distributed.checkpoint.state_dict_saver import save
        >>> directory = tempfile.mkdtemp()
        >>> _ = save({"weight": torch.ones(3, 2)}, checkpoint_id=directory, no_dist=True)
        >>> found = checkpoint(directory)
        >>> found.whole, [(tensor.name, tensor.shape) for tensor in found.tensors]  # 3 × 2 × 4 bytes are there
        (True, [('weight', (3, 2))])
    """
    if not isinstance(directory, str | PathLike):
        raise FileError(f"the directory of a checkpoint was expected, as text or a path; got {type(directory).__name__}")
    place = Path(directory)
    wanted = re.compile(".*".join(map(re.escape, only.split("*"))), re.DOTALL)
    try:
        found = _looked_at(place, progress or _silent, lambda name: wanted.search(name) is not None, verify)
    except OSError as error:
        raise FileError(f"{shown(str(place))} cannot be read: {error.strerror}") from error
    if only and not found.tensors and not found.others:
        raise FileError(f"{shown(str(place))} has no tensor with {shown(only)!r} in its name")
    return replace(found, only=only)


def _looked_at(place: Path, progress: Progress, wanted: Callable[[str], bool], verify: bool) -> Checkpoint:
    if not place.is_dir():
        raise FileError(f"{shown(str(place))} is no directory")
    with DataFiles(place) as files:
        if (place / METADATA).exists():
            found, others = _torch(place, files, progress, wanted)
        elif safetensors_files(place):
            found, others = _hugging(place, files, progress, wanted), []
        else:
            raise _no_checkpoint(place)
        chunks = [(t.name, c.place) for t in found.tensors for c in t.chunks if c.place and c.tensor]
        problems = (*found.problems, *_sentences(dict.fromkeys(shared_bytes([*chunks, *others]), 1)))
        if not verify:
            return replace(found, problems=problems)
        read = verified(files, [*chunks, *others], found.format == "torch", progress)
        return replace(found, problems=(*problems, *read.wrong), read=read)


def _no_checkpoint(place: Path) -> FileError:
    others = sorted(place.glob("__*.metadata"))
    hint = f"; {shown(others[0].name)} is of a save without coordination, which is not read" if others else ""
    return FileError(f"{shown(str(place))} is no checkpoint: it has neither {METADATA} nor safetensors files{hint}")


def _torch(
    directory: Path, files: DataFiles, progress: Progress, wanted: Callable[[str], bool]
) -> tuple[Checkpoint, list[tuple[str, Place]]]:
    data = read_whole(directory / METADATA, LARGEST_METADATA)
    problems: dict[str, int] = {}
    tensors = []
    with _no_collection():
        try:
            promises = read_metadata(data)
        except FileError as error:
            raise FileError(f"{shown(str(directory / METADATA))} cannot be trusted: {error}") from error
        entries = [tensor for tensor in promises.tensors if wanted(tensor.name)]
        for place, promised in enumerate(entries):
            if place % 256 == 0:
                progress("looking into the data files", place / len(entries))
            chunks = tuple([_looked_into(chunk, promised.dtype, files) for chunk in promised.chunks])
            tensors.append(StoredTensor(promised.name, promised.shape, promised.dtype, chunks))
            for chunk in chunks:
                if chunk.problem:
                    _count(problems, chunk.problem, promised.name, chunk)
    for name in promises.unstored:
        if wanted(name):
            problems[f"{shown(name)} is named in the metadata, and nothing of it is stored"] = 1
    others = {name: place for name, place in promises.others.items() if wanted(name)}
    _check_others(others, files, problems)
    found = Checkpoint(directory, tuple(tensors), tuple(others), _sentences(problems), "torch")
    return found, [(name, place) for name, place in others.items() if place is not None]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold Python's search for cycles: it would go through all the new objects, none of them garbage, again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _looked_into(promise: Promise, dtype: str, files: DataFiles) -> Chunk:
    if promise.place is None:
        return Chunk(promise.offset, promise.size, None, None, "the metadata does not say where it is stored")
    if promise.place.packed:
        raise FileError(f"its data files are packed by {shown(promise.place.packed)}; only unpacked ones can be looked into")
    try:
        stored = files.stored(promise.place)
    except FileError as error:
        return Chunk(promise.offset, promise.size, promise.place, None, str(error))
    problem = "" if stored.dtype == dtype else f"it stores {stored.dtype} where {dtype} is promised"
    return Chunk(promise.offset, promise.size, promise.place, stored, problem)


def _check_others(others: Mapping[str, Place | None], files: DataFiles, problems: dict[str, int]) -> None:
    for name, place in others.items():
        try:
            if place is None:
                raise FileError("the metadata does not say where it is stored")
            if place.start + place.length > files.size(place.file):
                raise FileError(f"the file {shown(place.file)} is cut short")
        except FileError as error:
            _count(problems, str(error), name, None, place)


def _count(problems: dict[str, int], problem: str, name: str, chunk: Chunk | None, place: Place | None = None) -> None:
    """One sentence per file that is lost, one per chunk for what is a chunk's own."""
    if problem.startswith("the file ") and (chunk is None or chunk.place is not None) and "chunk" not in problem:
        sentence = problem
    else:
        file = place.file if place else chunk.place.file if chunk and chunk.place else ""
        where = f" at {chunk.offset}" if chunk and chunk.offset else ""
        sentence = f"{shown(name)}{where}{f' in {shown(file)}' if file else ''}: {problem}"
    problems[sentence] = problems.get(sentence, 0) + 1


def _sentences(problems: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{text} ({count} entries lie in it)" if count > 1 else text for text, count in problems.items())


def _hugging(directory: Path, files: DataFiles, progress: Progress, wanted: Callable[[str], bool]) -> Checkpoint:
    names = safetensors_files(directory)
    found: dict[str, list[Chunk]] = {}
    dtypes: dict[str, str] = {}
    for place, file in enumerate(names):
        progress("looking into the data files", place / len(names))
        for name, offset, stored, _ in parts(files, file):
            if not wanted(name):
                continue
            if len(offset) != len(found.get(name, [Chunk(offset, (), None, None)])[0].offset):
                raise FileError(f"{shown(file)} gives {shown(name)} another number of dimensions than the other files")
            problem = "" if dtypes.setdefault(name, stored.dtype) == stored.dtype else f"it stores {stored.dtype}"
            stretch = Place(file, stored.byte_offset, stored.bytes)
            found.setdefault(name, []).append(Chunk(offset, stored.shape, stretch, stored, problem))
    tensors = []
    for name, chunks in found.items():
        # The format does not say the shape of a tensor in parts: it reaches as far as its parts do.
        ends = [tuple(map(sum, zip(chunk.offset, chunk.size, strict=True))) for chunk in chunks]
        shape = tuple(map(max, *ends)) if len(ends) > 1 else ends[0]
        tensors.append(StoredTensor(name, shape, dtypes[name], tuple(chunks)))
    problems = [f"{shown(t.name)}: {c.problem}" for t in tensors for c in t.chunks if c.problem]
    return Checkpoint(directory, tuple(tensors), (), tuple(problems), "safetensors")


def _tensor_document(tensor: StoredTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": tensor.shape,
        "dtype": tensor.dtype,
        "chunks": [
            {
                "offset": chunk.offset,
                "size": chunk.size,
                "stored": chunk.stored,
                "file": chunk.place.file if chunk.place else None,
                "byte_offset": chunk.tensor.byte_offset if chunk.tensor else None,
                "bytes": chunk.tensor.bytes if chunk.tensor else 0,
            }
            for chunk in tensor.chunks
        ],
        "missing_elements": tensor.missing_elements,
        "overlapping_elements": tensor.overlapping_elements,
        "zero_chunks": tensor.zero_chunks,
    }


def _silent(_stage: str, _fraction: float) -> None:
    """Show no progress."""
