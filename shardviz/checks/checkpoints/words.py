"""A checkpoint in words: the verdict, what is wrong, and the totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardviz.checks.checkpoints.chunks import Box, box_text
from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint

__all__ = ["checkpoint_words", "tensor_words"]

_MOST_TENSORS, _MOST_CHUNKS, _MOST_FILES = 40, 8, 16


def checkpoint_words(found: Checkpoint) -> str:
    """A checkpoint in words; long lists are cut, and say so."""
    chunks = sum(len(tensor.chunks) for tensor in found.tensors)
    size = sum(tensor.bytes for tensor in found.tensors)
    others = f" and {_many(len(found.others), 'other entry', 'other entries')}" if found.others else ""
    lines = [
        f"{shown(str(found.directory))}: {_many(len(found), 'tensor')} in {_many(chunks, 'chunk')}{others}, "
        f"{size:,} bytes in {_many(len(found.files), 'file')}"
    ]
    lines += _some([tensor_words(tensor) for tensor in found.broken], _MOST_TENSORS, "broken tensors")
    lines += _some(list(found.problems), _MOST_TENSORS, "problems")
    files = [
        f"{shown(file.name)}: {_many(file.chunks, 'chunk')}, {file.elements:,} elements, {file.bytes:,} bytes"
        for file in found.files
    ]
    lines += _some(files, _MOST_FILES, "files")
    return "\n".join([*lines, _verdict(found)])


def tensor_words(tensor: StoredTensor) -> str:
    """A tensor and what is wrong with it, in a sentence."""
    about = f"{shown(tensor.name)} [{', '.join(map(str, tensor.shape))}] {tensor.dtype}"
    parts = []
    if tensor.missing_elements:
        total = Box((), tensor.shape).numel
        parts.append(f"{tensor.missing_elements:,} of {total:,} elements missing: {_boxes(tensor.covered.gaps)}")
    if tensor.overlapping_elements:
        parts.append(f"{tensor.overlapping_elements:,} elements promised twice: {_boxes(tensor.covered.overlaps)}")
    wrong = tensor.wrong_chunks
    parts += [_chunk(chunk) for chunk in wrong[:_MOST_CHUNKS]]
    if len(wrong) > _MOST_CHUNKS:
        parts.append(f"{len(wrong) - _MOST_CHUNKS} more chunks that store other than they promise")
    return f"{about}: {'; '.join(parts) or 'whole'}"


def _chunk(chunk: Chunk) -> str:
    where = f" ({shown(chunk.place.file)})" if chunk.place else ""
    at = f" at {box_text(Box(chunk.offset, (1,) * len(chunk.offset)))}" if chunk.offset else ""
    return f"the chunk{at} promises {chunk.promised:,} and stores {chunk.stored:,}{where}"


def _boxes(boxes: Sequence[Box]) -> str:
    return ", ".join(map(box_text, boxes[:_MOST_CHUNKS])) + (", …" if len(boxes) > _MOST_CHUNKS else "")


def _verdict(found: Checkpoint) -> str:
    if found.whole:
        return "whole: every chunk stores what is promised, every element once"
    missing = sum(tensor.missing_elements for tensor in found.broken)
    parts = [f"{_many(len(found.broken), 'tensor')} broken, {missing:,} elements missing" if found.broken else ""]
    parts.append(f"{_many(len(found.problems), 'problem')} with its files" if found.problems else "")
    return f"NOT whole: {'; '.join(filter(None, parts))}"


def _some(lines: list[str], most: int, what: str) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most:,} more {what}"]


def _many(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
