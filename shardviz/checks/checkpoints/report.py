"""A checkpoint as pictures, as a page, and as what a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from shardviz.checks.checkpoints.chunks import Box
from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.facts import StoredTensor
from shardviz.core.errors import FileError
from shardviz.picture import Picture, Section, Table, page
from shardviz.picture.scene_chunks import ChunkMap, MappedChunk, draw_chunks

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint
    from shardviz.checks.checkpoints.content import Difference

__all__ = ["checkpoint_page", "chunk_map", "comparison_page", "notebook_html", "save_page", "tensor_picture", "write_page"]

_MOST_PICTURES = 24
"""The most maps on a page: of the broken tensors first, then of the largest."""


def tensor_picture(tensor: StoredTensor) -> Picture:
    """The map of one tensor."""
    return draw_chunks([chunk_map(tensor)])


def chunk_map(tensor: StoredTensor, name: str | None = None) -> ChunkMap:
    """The facts of a tensor's map.

    Args:
        tensor: the tensor.
        name: what to call it on the map, where its own name does not do.
    """
    chunks = tuple(
        MappedChunk(
            chunk.offset,
            chunk.size,
            chunk.stored,
            chunk.right,
            -1 if chunk.rank is None else chunk.rank,
            shown(chunk.place.file) if chunk.place else "",
        )
        for chunk in tensor.chunks
    )
    covered = tensor.covered
    gaps, overlaps = ([(box.offset, box.size) for box in boxes] for boxes in (covered.gaps, covered.overlaps))
    shape, dtype = tensor.shape, tensor.dtype
    title = shown(tensor.name if name is None else name)
    return ChunkMap(title, shape, dtype, chunks, tuple(gaps), tuple(overlaps), covered.missing, covered.overlapping)


def checkpoint_page(found: Checkpoint) -> str:
    """A checkpoint as one self-contained page: the verdict, the table of all tensors, the totals, and maps."""
    title = f"Checkpoint {shown(found.directory.name)}"
    whole = sorted((t for t in found.tensors if t.whole), key=lambda tensor: -tensor.bytes)
    pictured = [*found.broken, *whole][:_MOST_PICTURES]
    sections = [
        Section(prose="\n\n".join([found.text.splitlines()[-1], *found.problems[:20]])),
        Section("Tensors", table=_tensor_table(found)),
        Section("Files", table=_file_table(found)),
        *(Section(shown(tensor.name), picture=tensor_picture(tensor)) for tensor in pictured),
    ]
    if len(pictured) < len(found):
        more = f"Drawn: {len(pictured)} of {len(found):,} tensors, the broken ones first; checkpoint.picture(name) draws any."
        sections.insert(1, Section(prose=more))
    return page(title, sections, source=shown(str(found.directory)))


def comparison_page(one: Checkpoint, other: Checkpoint, differences: Sequence[Difference]) -> str:
    """Two checkpoints as one page: what differs, and the maps of these tensors one above the other."""
    rows = tuple((shown(d.name), d.sentence) for d in differences)
    sections = [Section(prose="They differ." if rows else "They are equal, element by element.")]
    if rows:
        sections.append(Section("Differences", table=Table(("tensor", "what differs"), rows)))
    both = [t for t in one.tensors if t.name in {u.name for u in other.tensors}]
    named = {difference.name for difference in differences}
    for tensor in sorted(both, key=lambda tensor: tensor.name not in named)[:_MOST_PICTURES]:
        maps = [chunk_map(t[tensor.name], f"{tensor.name} in {t.directory}") for t in (one, other)]
        sections.append(Section(shown(tensor.name), picture=draw_chunks(maps)))
    return page("Two checkpoints", sections, source=f"{shown(str(one.directory))} and {shown(str(other.directory))}")


def save_page(found: Checkpoint, target: Path) -> Path:
    """Write a checkpoint as a page.

    Raises:
        FileError: the name does not end in `.html`, or the file cannot be written.
    """
    return write_page(checkpoint_page(found), target)


def write_page(document: str, target: Path) -> Path:
    """Write a page.

    Raises:
        FileError: the name does not end in `.html`, or the file cannot be written.
    """
    if target.suffix != ".html":
        raise FileError(f"{shown(target.name)!r}: a map of a checkpoint is saved as .html, by the ending of the name")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(document, "utf-8")
    except OSError as error:
        raise FileError(f"the page cannot be written to {shown(str(target))}: {error.strerror}") from error
    return target


def notebook_html(found: Checkpoint) -> str:
    """What a notebook shows: the words, and the maps of the first broken tensors."""
    words = f"<pre>{escape(found.text)}</pre>"
    return words + "".join(tensor_picture(tensor).markup() for tensor in found.broken[:3])


def _tensor_table(found: Checkpoint) -> Table:
    rows = tuple(
        (
            shown(tensor.name),
            f"[{', '.join(map(str, tensor.shape))}]",
            tensor.dtype,
            f"{len(tensor.chunks)}",
            f"{Box((), tensor.shape).numel:,}",
            f"{tensor.missing_elements:,}",
            f"{tensor.overlapping_elements:,}",
            f"{len(tensor.wrong_chunks)}",
            "whole" if tensor.whole else "NOT whole",
        )
        for tensor in (*found.broken, *(tensor for tensor in found.tensors if tensor.whole))
    )
    head = ("tensor", "shape", "dtype", "chunks", "elements", "missing", "promised twice", "wrong chunks", "verdict")
    return Table(head, rows)


def _file_table(found: Checkpoint) -> Table:
    rows = tuple(
        (
            shown(file.name),
            "" if file.rank is None else str(file.rank),
            f"{file.chunks:,}",
            f"{file.elements:,}",
            f"{file.bytes:,}",
        )
        for file in found.files
    )
    return Table(("file", "rank", "chunks", "elements", "bytes"), rows)
