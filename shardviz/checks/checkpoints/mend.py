"""Rescue a broken checkpoint: the metadata is rewritten by what is really stored, the data files are never touched."""

from __future__ import annotations

import errno
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from shardviz.checks.checkpoints.beside import bring, written_directory
from shardviz.checks.checkpoints.checkpoint import LARGEST_METADATA, METADATA, Checkpoint, Progress, checkpoint
from shardviz.checks.checkpoints.chunks import Box, box_text, coverage
from shardviz.checks.checkpoints.datafiles import read_whole, shown, writer
from shardviz.checks.checkpoints.explained import explanations
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor, Stray
from shardviz.checks.checkpoints.origin import Origin
from shardviz.checks.checkpoints.rewriting import rewritten
from shardviz.checks.checkpoints.words import chunk_words, many
from shardviz.core.errors import FileError, SpecError
from shardviz.core.spec import Spec

__all__ = ["SHARED", "Mended", "Rescue", "mend", "rescue"]

SHARED = "its data files are hard links to the original's: load from it, but do not save into it"

_MOST_LISTED = 20


@dataclass(frozen=True)
class Rescue:
    """What can be got back of one broken tensor.

    Attributes:
        tensor: the tensor as it was found.
        spec: how it was saved, where placements describe it and that can be told.
        how: the same in words, where it can be told; "" otherwise.
        boxes: per chunk of the tensor where its elements belong; None where it holds none, or where that cannot be told.
        gone: the elements that are stored nowhere, or nowhere that can be told.
        doubted: the chunks that hold elements of which it cannot be told where they belong; none of them is used.
        reason: why that cannot be told; "" where nothing is in doubt.
    """

    tensor: StoredTensor
    spec: Spec | None
    how: str
    boxes: tuple[Box | None, ...]
    gone: tuple[Box, ...]
    doubted: tuple[Chunk, ...] = ()
    reason: str = ""

    @property
    def left_out(self) -> bool:
        """Whether nothing of it is believed: a rescued checkpoint then lacks it, so that loading it is an error."""
        return bool(self.doubted) and not any(self.boxes)

    @property
    def strays(self) -> tuple[Stray, ...]:
        """The chunks that hold other elements than they promise, as far as that can be told."""
        pairs = zip(self.tensor.chunks, self.boxes, strict=True)
        return tuple(Stray(c, box) for c, box in pairs if box and (box.offset, box.size) != (c.offset, c.size))

    @property
    def gone_elements(self) -> int:
        """Number of elements that are gone."""
        return sum(box.numel for box in self.gone)

    @property
    def text(self) -> str:
        """What came back, what is gone, and what is in doubt, in a sentence."""
        name = shown(self.tensor.name)
        how = f" ({self.how})" if self.how else ""
        if not self.gone:
            return f"{name}: whole again{how}"
        doubted = ", ".join(map(chunk_words, self.doubted[:_MOST_LISTED])) + ", …" * (len(self.doubted) > _MOST_LISTED)
        if self.left_out:
            return f"{name}: left out, nothing of it is believed: {self.reason}; in doubt: {doubted}"
        listed = ", ".join(box_text(box) for box in self.gone[:_MOST_LISTED]) + ", …" * (len(self.gone) > _MOST_LISTED)
        total = many(math.prod(self.tensor.shape), "element")
        aside = f"; {self.reason}; in doubt: {doubted}" if self.doubted else ""
        return f"{name}: {self.gone_elements:,} of {total} gone: {listed}{how}{aside}"


@dataclass(frozen=True)
class Mended:
    """A rescued checkpoint.

    Attributes:
        checkpoint: the new directory, looked into.
        rescues: what became of each tensor that was broken.
        shared: whether its data files are the original's own (hard links, asked for): a later save into the new directory would
            then change both.
    """

    checkpoint: Checkpoint
    rescues: tuple[Rescue, ...]
    shared: bool

    def __bool__(self) -> bool:
        """Whether something is gone, or wrong with the files: as every report, it is true where something was found."""
        return not self.whole

    @property
    def whole(self) -> bool:
        """Whether nothing is gone."""
        return self.checkpoint.whole and not any(rescue.gone for rescue in self.rescues)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.whole

    @property
    def text(self) -> str:
        """What came back and what is gone, tensor by tensor."""
        lines = [rescue.text for rescue in self.rescues] or ["nothing was broken"]
        lines += list(self.checkpoint.problems[:_MOST_LISTED])
        lines.append(f"{shown(str(self.checkpoint.directory))} is {'whole' if self.whole else 'NOT whole'}")
        if self.shared:
            lines.append(SHARED)
        return "\n".join(lines)


def rescue(found: Checkpoint, tensors: Sequence[StoredTensor] | None = None) -> tuple[Rescue, ...]:
    """What can be got back of every broken tensor, or of these; nothing is written.

    A tensor's chunks are believed as far as every explanation of their sizes says the same of them.
    """
    ranks = _ranks(found)
    broken = found.broken if tensors is None else tensors
    known: dict[Hashable, tuple[Origin, ...]] = {}  # a model has many tensors that are stored alike
    explained = []
    for tensor in broken:
        stored = tuple((c.rank, c.offset, c.size, c.tensor.shape if c.tensor else None, c.right) for c in tensor.chunks)
        alike = tensor.shape, stored
        if alike not in known:
            known[alike] = explanations(tensor, ranks)
        explained.append(known[alike])
    shared = _shared_meshes(explained)
    return tuple(_rescue(tensor, _agreeing(ways, shared)) for tensor, ways in zip(broken, explained, strict=True))


def mend(found: Checkpoint, out: str | Path, link: bool = False, progress: Progress | None = None) -> Mended:
    """Write a checkpoint beside a broken one, in which plain torch reaches every element that is stored.

    It is written under another name beside `out` and renamed when it is complete: a full disk or an interrupt leaves nothing.

    Args:
        found: the broken checkpoint; its directory is not changed.
        out: the new directory; it must not exist, or be empty.
        link: make its data files hard links to the original's, where these need not be copied. They take no room, and whoever
            saves into the new directory then destroys the original too.
        progress: called with a sentence and the fraction done, 0 to 1.

    Raises:
        FileError: the checkpoint is not one of torch's own format, a data file is a link that leads out of its directory, or
            the new one cannot be written.

    Example:
        >>> import tempfile, torch
        >>> from torch.distributed.checkpoint.state_dict_saver import save
        >>> directory = tempfile.mkdtemp()
        >>> _ = save({"weight": torch.ones(3, 2)}, checkpoint_id=f"{directory}/saved", no_dist=True)
        >>> mend(checkpoint(f"{directory}/saved"), f"{directory}/mended").whole
        True
    """
    if not isinstance(found, Checkpoint):
        raise SpecError(f"what checkpoint(directory) returns was expected, to mend it; got {type(found).__name__}")
    if not isinstance(out, str | PathLike):
        raise FileError(f"a directory was expected for the mended checkpoint, as text or a path; got {type(out).__name__}")
    if found.format != "torch":
        raise FileError("the Hugging Face writer keeps offsets inside its data files: only torch's own format can be mended")
    target = Path(out)
    if target.resolve().is_relative_to(found.directory.resolve()):
        raise FileError(f"{shown(str(target))} lies in the original directory, which is never changed")
    rescues = rescue(found)
    chunks = {r.tensor.name: _placed(r) for r in rescues if not r.left_out}
    without = [r.tensor.name for r in rescues if r.left_out]
    content = rewritten(read_whole(found.directory / METADATA, LARGEST_METADATA), chunks, without)
    files = _data_files(found)
    shared = False
    try:
        if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
            raise FileError(f"{shown(str(target))} exists and is not empty: a mended checkpoint gets a directory of its own")
        with written_directory(target) as made:
            for place, file in enumerate(files):
                if progress:
                    progress("linking the data files" if link else "copying the data files", place / len(files))
                shared |= bring(found.directory / file, made / file, link)
            (made / METADATA).write_bytes(content)  # last: without it, a directory is no checkpoint
    except OSError as error:
        room = " (link=True, or --link, shares the data files with the original)" if error.errno == errno.ENOSPC else ""
        raise FileError(
            f"the mended checkpoint cannot be written to {shown(str(target))}: {error.strerror}{room}; nothing is left of it"
        ) from error
    return Mended(checkpoint(target), rescues, shared)


def _ranks(found: Checkpoint) -> int:
    """How many ranks wrote a checkpoint: each leaves a file, if only an empty one."""
    named = [writer(path.name) for path in found.directory.iterdir()] + [file.rank for file in found.files]
    return 1 + max((rank for rank in named if rank is not None), default=0)


def _shared_meshes(explained: Sequence[Sequence[Origin]]) -> set[tuple[int, ...]]:
    """The meshes on which every broken tensor that was cut can have been saved; empty where there is none."""
    meshes = [{way.spec.mesh.sizes for way in ways if way.spec} for ways in explained]
    known = [some for some in meshes if some]
    return set.intersection(*known) if known else set()


def _agreeing(ways: Sequence[Origin], meshes: set[tuple[int, ...]]) -> tuple[Origin, ...]:
    """The ways on shared meshes, one per set of boxes: the first, which is the simplest."""
    kept = [way for way in ways if way.spec is None or way.spec.mesh.sizes in meshes]
    kept = kept if any(way.spec for way in kept) or not any(way.spec for way in ways) else list(ways)
    return tuple({way.boxes: way for way in reversed(kept)}.values())


def _rescue(tensor: StoredTensor, ways: Sequence[Origin]) -> Rescue:
    told = ways[0] if len(ways) == 1 else Origin(None, ())
    agreed = [boxes[0] if len(set(boxes)) == 1 else None for boxes in zip(*(way.boxes for way in ways), strict=True)]
    boxes = tuple(agreed) or (None,) * len(tensor.chunks)
    doubted = []
    for place, chunk in enumerate(tensor.chunks):
        if boxes[place] is None and chunk.stored and (not ways or any(way.boxes[place] for way in ways)):
            doubted.append(chunk)
    reason = ""
    if doubted:
        reason = f"{'more than one way' if ways else 'no way'} of cutting explains what its ranks stored"
    covered = coverage(tensor.shape, [box for box in boxes if box])
    how = f"saved as {told.spec}" if told.spec else told.how
    return Rescue(tensor, told.spec, how, boxes, covered.gaps, tuple(doubted), reason)


def _placed(found: Rescue) -> list[tuple[Box, Chunk]]:
    """The chunks that hold something, where they belong, in order."""
    pairs = [(box, chunk) for box, chunk in zip(found.boxes, found.tensor.chunks, strict=True) if box]
    return sorted(pairs, key=lambda pair: pair[0].offset)


def _data_files(found: Checkpoint) -> list[str]:
    """The data files that exist: those of the tensors, and the others that ranks wrote.

    Raises:
        FileError: one of them is a link that leads out of the directory.
    """
    names = {file.name for file in found.files} | {p.name for p in found.directory.iterdir() if p.suffix == ".distcp"}
    root = found.directory.resolve()
    for name in sorted(names):
        if not (found.directory / name).resolve().is_relative_to(root):
            raise FileError(f"{shown(name)} is a link that leads out of {shown(str(found.directory))}: it is not followed")
    return sorted(name for name in names if (found.directory / name).is_file())
