"""A checkpoint in words: the verdict, what is wrong, and the totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardviz.checks.checkpoints.chunks import Box, box_text, intersection
from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor, Stray

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint
    from shardviz.checks.checkpoints.mend import Rescue

__all__ = ["checkpoint_words", "chunk_words", "many", "some", "stray_words", "tensor_words"]

_MOST_TENSORS, _MOST_CHUNKS, _MOST_FILES = 40, 8, 16
_UNREAD = "places and sizes were looked at, and no element was read (--verify reads them)"


def checkpoint_words(found: Checkpoint) -> str:
    """A checkpoint in words; long lists are cut, and say so."""
    chunks = sum(len(tensor.chunks) for tensor in found.tensors)
    size = sum(tensor.bytes for tensor in found.tensors)
    others = f" and {many(len(found.others), 'other entry', 'other entries')}" if found.others else ""
    lines = [
        f"{shown(str(found.directory))}: {many(len(found), 'tensor')} in {many(chunks, 'chunk')}{others}, "
        f"{many(size, 'byte')} in {many(len(found.files), 'file')}"
        + (f"; only entries with {shown(found.only)!r} in their names" if found.only else "")
    ]
    broken = [tensor_words(tensor, found.rescues.get(tensor.name)) for tensor in found.broken]
    for listed, what in ((broken, "broken tensors"), (found.problems, "problems"), (found.findings, "findings")):
        lines += [*listed[:_MOST_TENSORS], *some(len(listed), _MOST_TENSORS, what)]
    files = [
        f"{shown(file.name)}: {many(file.chunks, 'chunk')}, {many(file.elements, 'element')}, {many(file.bytes, 'byte')}"
        for file in found.files
    ]
    lines += [*files[:_MOST_FILES], *some(len(files), _MOST_FILES, "files")]
    lines.append(found.read.text if found.read else _UNREAD)
    return "\n".join([*lines, _verdict(found)])


def tensor_words(tensor: StoredTensor, rescued: Rescue | None = None) -> str:
    """A tensor, what is wrong with it, where what seems lost really lies, and what is in doubt, in a sentence."""
    about = f"{shown(tensor.name)} [{', '.join(map(str, tensor.shape))}] {tensor.dtype}"
    parts = []
    if tensor.missing_elements:
        total = many(Box((), tensor.shape).numel, "element")
        parts.append(f"{tensor.missing_elements:,} of {total} missing: {_boxes(tensor.covered.gaps)}")
    if tensor.overlapping_elements:
        parts.append(f"{many(tensor.overlapping_elements, 'element')} promised twice: {_boxes(tensor.covered.overlaps)}")
    wrong = tensor.wrong_chunks
    parts += [f"the {chunk_words(chunk)}" for chunk in wrong[:_MOST_CHUNKS]]
    if len(wrong) > _MOST_CHUNKS:
        parts.append(f"{len(wrong) - _MOST_CHUNKS} more chunks that store other than they promise")
    if rescued:
        parts += [stray_words(stray) for stray in rescued.strays[:_MOST_CHUNKS]]
    if rescued and rescued.doubted:
        parts.append(f"{rescued.reason}: {many(len(rescued.doubted), 'chunk')} in doubt")
    return f"{about}: {'; '.join(parts) or 'whole'}"


def chunk_words(chunk: Chunk) -> str:
    """A chunk, what it promises and what it stores."""
    where = f" ({shown(chunk.place.file)})" if chunk.place else ""
    at = f" at {box_text(Box(chunk.offset, (1,) * len(chunk.offset)))}" if chunk.offset else ""
    return f"chunk{at} promises {chunk.promised:,} and stores {chunk.stored:,}{where}"


def stray_words(stray: Stray) -> str:
    """Where elements lie that are promised elsewhere, or nowhere."""
    place = stray.chunk.place
    return f"{box_text(stray.box)} really lies in {shown(place.file) if place else 'no file'}"


def _boxes(boxes: Sequence[Box]) -> str:
    return ", ".join(map(box_text, boxes[:_MOST_CHUNKS])) + (", …" if len(boxes) > _MOST_CHUNKS else "")


def _verdict(found: Checkpoint) -> str:
    if found.whole and found.findings:
        return f"whole, and {many(len(found.findings), 'tensor')} not as it should be"
    if found.whole:
        return "whole: every chunk stores what is promised, every element once"
    missing = sum(tensor.missing_elements for tensor in found.broken)
    there = sum(_gap(found[name], stray) for name, strays in found.strays.items() for stray in strays)
    elsewhere = f", {there:,} of them stored where they are not promised (--mend brings them back)" if there else ""
    broken = f"{many(len(found.broken), 'tensor')} broken, {many(missing, 'element')} missing{elsewhere}"
    parts = [broken if found.broken else ""]
    doubted = sum(bool(rescued.doubted) for rescued in found.rescues.values())
    parts.append(f"{many(doubted, 'tensor')} with chunks in doubt" if doubted else "")
    parts.append(f"{many(len(found.problems), 'problem')} with its files" if found.problems else "")
    return f"NOT whole: {'; '.join(filter(None, parts))}"


def _gap(tensor: StoredTensor, stray: Stray) -> int:
    """How many of the missing elements a chunk holds."""
    shared = (intersection(gap, stray.box) for gap in tensor.covered.gaps)
    return sum(box.numel for box in shared if box)


def some(count: int, most: int, what: str) -> list[str]:
    """The line that says how many are not listed; none where all are."""
    return [f"and {count - most:,} more {what}"] if count > most else []


def many(count: int, one: str, more: str | None = None) -> str:
    """A count and what is counted.

    Example:
        >>> many(1, "tensor"), many(2000, "tensor"), many(2, "entry", "entries")
        ('1 tensor', '2,000 tensors', '2 entries')
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"
