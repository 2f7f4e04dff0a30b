"""Rescue a broken checkpoint: the metadata is rewritten by what is really stored, the data files are never touched."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import shutil
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardviz.checks.checkpoints.checkpoint import LARGEST_METADATA, METADATA, Checkpoint, checkpoint
from shardviz.checks.checkpoints.chunks import Box, box_text, coverage
from shardviz.checks.checkpoints.datafiles import read_whole, shown, writer
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor, Stray
from shardviz.checks.checkpoints.origin import Origin, origins
from shardviz.checks.checkpoints.rewriting import rewritten
from shardviz.checks.checkpoints.words import many
from shardviz.core.errors import FileError
from shardviz.core.spec import Spec

__all__ = ["Mended", "Rescue", "mend", "rescue"]

_CLONE = 0x40049409  # the request that makes two files share their blocks until one is written


@dataclass(frozen=True)
class Rescue:
    """What can be got back of one broken tensor.

    Attributes:
        tensor: the tensor as it was found.
        spec: how it was saved, where that can be told.
        boxes: per chunk of the tensor where its elements belong; None where it holds none, or where that cannot be told.
        gone: the elements that are stored nowhere.
        reason: why `spec` cannot be told, and stored elements may be counted as gone; "" otherwise.
    """

    tensor: StoredTensor
    spec: Spec | None
    boxes: tuple[Box | None, ...]
    gone: tuple[Box, ...]
    reason: str = ""

    @property
    def strays(self) -> tuple[Stray, ...]:
        """The chunks that hold other elements than they promise, as far as that can be told."""
        if self.spec is None:
            return ()
        pairs = zip(self.tensor.chunks, self.boxes, strict=True)
        return tuple(Stray(c, box) for c, box in pairs if box and (box.offset, box.size) != (c.offset, c.size))

    @property
    def gone_elements(self) -> int:
        """Number of elements that are gone."""
        return sum(box.numel for box in self.gone)

    @property
    def text(self) -> str:
        """What came back and what is gone, in a sentence."""
        name = shown(self.tensor.name)
        how = f" (saved as {self.spec})" if self.spec else f" ({self.reason})" if self.reason else ""
        if not self.gone:
            return f"{name}: whole again{how}"
        listed = ", ".join(box_text(box) for box in self.gone[:20]) + (", …" if len(self.gone) > 20 else "")
        total = many(math.prod(self.tensor.shape), "element")
        return f"{name}: {self.gone_elements:,} of {total} gone: {listed}{how}"


@dataclass(frozen=True)
class Mended:
    """A rescued checkpoint.

    Attributes:
        checkpoint: the new directory, looked into.
        rescues: what became of each tensor that was broken.
        shared: whether its data files are the original's own (hard links): a later save into the new directory would then
            change both.
    """

    checkpoint: Checkpoint
    rescues: tuple[Rescue, ...]
    shared: bool

    @property
    def whole(self) -> bool:
        """Whether nothing is gone."""
        return self.checkpoint.whole

    @property
    def text(self) -> str:
        """What came back and what is gone, tensor by tensor."""
        lines = [rescue.text for rescue in self.rescues] or ["nothing was broken"]
        lines += list(self.checkpoint.problems[:20])
        lines.append(f"{shown(str(self.checkpoint.directory))} is {'whole' if self.whole else 'NOT whole'}")
        if self.shared:
            lines.append("its data files are hard links to the original's: load from it, but do not save into it")
        return "\n".join(lines)


def rescue(found: Checkpoint, tensors: Sequence[StoredTensor] | None = None) -> tuple[Rescue, ...]:
    """What can be got back of every broken tensor, or of these; nothing is written."""
    ranks = _ranks(found)
    broken = found.broken if tensors is None else tensors
    known: dict[Hashable, tuple[Origin, ...]] = {}  # a model has many tensors that are stored alike
    explained = []
    for tensor in broken:
        stored = tuple((c.rank, c.offset, c.size, c.tensor.shape if c.tensor else None) for c in tensor.chunks)
        alike = tensor.shape, stored
        if alike not in known:
            known[alike] = origins(tensor, ranks)
        explained.append(known[alike])
    shared = _shared_meshes([ways for ways in explained if ways])
    return tuple(_rescue(tensor, _agreeing(ways, shared)) for tensor, ways in zip(broken, explained, strict=True))


def mend(found: Checkpoint, out: str | Path) -> Mended:
    """Write a checkpoint beside a broken one, in which plain torch reaches every element that is stored.

    Args:
        found: the broken checkpoint; its directory is not changed.
        out: the new directory; it must not exist, or be empty.

    Raises:
        FileError: the checkpoint is not one of torch's own format, or the directory cannot be written.

    Example:
        >>> import tempfile, torch
        >>> from torch.distributed.checkpoint.state_dict_saver import save
        >>> directory = tempfile.mkdtemp()
        >>> _ = save({"weight": torch.ones(3, 2)}, checkpoint_id=f"{directory}/saved", no_dist=True)
        >>> mend(checkpoint(f"{directory}/saved"), f"{directory}/mended").whole
        True
    """
    if found.format != "torch":
        raise FileError("the Hugging Face writer keeps offsets inside its data files: only torch's own format can be mended")
    target = Path(out)
    if target.resolve().is_relative_to(found.directory.resolve()):
        raise FileError(f"{shown(str(target))} lies in the original directory, which is never changed")
    rescues = rescue(found)
    chunks = {r.tensor.name: _placed(r) for r in rescues}
    content = rewritten(read_whole(found.directory / METADATA, LARGEST_METADATA), chunks)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise FileError(f"{shown(str(target))} exists and is not empty: a mended checkpoint gets a directory of its own")
        shared = False
        for file in _data_files(found):
            shared |= _bring(found.directory / file, target / file)
        target.mkdir(parents=True, exist_ok=True)
        (target / METADATA).write_bytes(content)  # last: without it, a directory is no checkpoint
    except OSError as error:
        raise FileError(f"the mended checkpoint cannot be written to {shown(str(target))}: {error.strerror}") from error
    return Mended(checkpoint(target), rescues, shared)


def _ranks(found: Checkpoint) -> int:
    """How many ranks wrote a checkpoint: each leaves a file, if only an empty one."""
    named = [writer(path.name) for path in found.directory.iterdir()] + [file.rank for file in found.files]
    return 1 + max((rank for rank in named if rank is not None), default=0)


def _shared_meshes(explained: Sequence[Sequence[Origin]]) -> set[tuple[int, ...]]:
    """The meshes on which every broken tensor can have been saved; empty where there is none."""
    meshes = [{way.spec.mesh.sizes for way in ways} for ways in explained]
    return set.intersection(*meshes) if meshes else set()


def _agreeing(ways: Sequence[Origin], meshes: set[tuple[int, ...]]) -> tuple[Origin, ...]:
    """The ways on shared meshes, one per set of boxes."""
    kept = [way for way in ways if way.spec.mesh.sizes in meshes] or list(ways)
    return tuple({way.boxes: way for way in reversed(kept)}.values())


def _rescue(tensor: StoredTensor, ways: Sequence[Origin]) -> Rescue:
    if len(ways) == 1:
        spec, boxes, reason = ways[0].spec, ways[0].boxes, ""
    else:
        spec = None
        boxes = tuple(Box(c.offset, c.size) if c.right and c.promised else None for c in tensor.chunks)
        lost = any(chunk.stored for chunk in tensor.wrong_chunks)
        told = "no" if not ways else "more than one"
        reason = f"{told} way of cutting explains what its ranks stored, so nothing is moved" if lost else ""
    covered = coverage(tensor.shape, [box for box in boxes if box])
    return Rescue(tensor, spec, boxes, covered.gaps, reason)


def _placed(found: Rescue) -> list[tuple[Box, Chunk]]:
    """The chunks that hold something, where they belong, in order."""
    pairs = [(box, chunk) for box, chunk in zip(found.boxes, found.tensor.chunks, strict=True) if box]
    return sorted(pairs, key=lambda pair: pair[0].offset)


def _data_files(found: Checkpoint) -> list[str]:
    """The data files that exist: those of the tensors, and the others that ranks wrote."""
    names = {file.name for file in found.files} | {p.name for p in found.directory.iterdir() if p.suffix == ".distcp"}
    return sorted(name for name in names if (found.directory / name).is_file())


def _bring(source: Path, target: Path) -> bool:
    """Make a file appear in another place: as a clone that shares its blocks, a hard link, or a copy. Whether it is a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if _cloned(source, target):
        return False
    try:
        os.link(source.resolve(), target)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise
        shutil.copyfile(source, target)
        return False
    return True


def _cloned(source: Path, target: Path) -> bool:
    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new, _CLONE, old.fileno())
        except OSError:
            target.unlink()
            return False
    return True
