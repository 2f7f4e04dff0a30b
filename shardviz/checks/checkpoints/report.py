"""A checkpoint as pictures, as a page, and as what a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from shardviz.checks.checkpoints.beside import written_file
from shardviz.checks.checkpoints.chunks import Box
from shardviz.checks.checkpoints.content import Difference, recut
from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.facts import StoredTensor, Stray
from shardviz.checks.checkpoints.words import many
from shardviz.core.errors import FileError
from shardviz.picture import Picture, Section, Table, page
from shardviz.picture.pages import MOST_ROWS
from shardviz.picture.scene_chunks import ChunkMap, MappedChunk, draw_chunks

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint

__all__ = ["checkpoint_page", "chunk_map", "comparison_page", "notebook_html", "save_page", "tensor_picture", "write_page"]

_MOST_PICTURES = 24
"""The most maps on a page: of the broken tensors first, then of the largest."""


def tensor_picture(tensor: StoredTensor, strays: Sequence[Stray] = ()) -> Picture:
    """The map of one tensor, with the chunks that hold other elements than they promise where these belong."""
    return draw_chunks([chunk_map(tensor, strays)])


def chunk_map(tensor: StoredTensor, strays: Sequence[Stray] = (), name: str | None = None) -> ChunkMap:
    """The facts of a tensor's map.

    Args:
        tensor: the tensor.
        strays: the chunks that hold other elements than they promise.
        name: what to call it on the map, where its own name does not do.
    """
    held = {id(stray.chunk): (stray.box.offset, stray.box.size) for stray in strays}
    chunks = tuple(
        MappedChunk(
            chunk.offset,
            chunk.size,
            chunk.stored,
            chunk.right,
            -1 if chunk.rank is None else chunk.rank,
            shown(chunk.place.file) if chunk.place else "",
            held.get(id(chunk)),
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
    first, *_, verdict = found.text.splitlines()
    sections = [
        Section(
            prose="\n\n".join(
                [verdict, first.removeprefix(f"{shown(str(found.directory))}: "), *found.problems[:20], *found.findings[:20]]
            )
        ),
        Section(
            "Tensors", "To see the broken ones alone, type “not whole”." * (len(found) > MOST_ROWS), table=_tensor_table(found)
        ),
        Section("Files", table=_file_table(found)),
        Section("Maps", prose=_drawn(found, len(pictured))),
        *(Section(picture=tensor_picture(tensor, found.strays.get(tensor.name, ()))) for tensor in pictured),
    ]
    return page(title, sections, source=shown(str(found.directory)))


def _drawn(found: Checkpoint, count: int) -> str:
    """Which tensors are drawn, and how to see others."""
    about = "Every chunk over the global shape, in the colour of the rank whose file it is in."
    if count == len(found):
        return about
    broken = len(found.broken)
    which = (
        f"{count} of the {broken:,} broken tensors" if broken > count else f"{many(broken, 'broken tensor')} and the largest"
    )
    which = which if broken else "the largest"
    more = f"shardviz checkpoint {shown(str(found.directory))} --tensor NAME -o map.html"
    return f"{about}\n\nDrawn here: {count} of {len(found):,} tensors, {which}. Others, by a part of their names: {more}"


def comparison_page(one: Checkpoint, other: Checkpoint, differences: Sequence[Difference]) -> str:
    """Two checkpoints as one page: what differs, and the maps of these tensors one above the other."""
    rows = tuple((shown(d.name), d.sentence.removeprefix(f"{shown(d.name)} ")) for d in differences)
    moved = set(recut(one, other))
    cuts = f"\n\n{many(len(moved), 'tensor')} cut in other ways: the maps show how." if moved else ""
    sections = [Section(prose=("They differ." if rows else "They are equal, element by element.") + cuts)]
    if rows:
        sections.append(Section("Differences", table=Table(("tensor", "what differs"), rows)))
    named, there = {difference.name for difference in differences}, {tensor.name for tensor in other.tensors}
    both = [tensor for tensor in one.tensors if tensor.name in there]
    drawn = sorted(both, key=lambda tensor: (tensor.name not in named, tensor.name not in moved))[:_MOST_PICTURES]
    if len(drawn) < len(both):
        which = "those that differ first, then those cut in other ways"
        more = f"Drawn here: {len(drawn)} of {len(both):,} tensors, {which}. --tensor NAME -o FILE draws others."
        sections.append(Section("Maps", more))
    for tensor in drawn:
        maps = [
            chunk_map(t[tensor.name], t.strays.get(tensor.name, ()), f"{tensor.name} in {t.directory}") for t in (one, other)
        ]
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
        with written_file(target) as made:
            made.write_text(document, "utf-8")
    except OSError as error:
        raise FileError(f"the page cannot be written to {shown(str(target))}: {error.strerror}") from error
    return target


def notebook_html(found: Checkpoint) -> str:
    """What a notebook shows: the words, and the maps of the first broken tensors."""
    words = f"<pre>{escape(found.text)}</pre>"
    return words + "".join(found.picture(tensor.name).markup() for tensor in found.broken[:3])


def _tensor_table(found: Checkpoint) -> Table:
    rows = tuple(
        (
            shown(tensor.name),
            "whole" if tensor.whole else "NOT whole",
            f"[{', '.join(map(str, tensor.shape))}]",
            tensor.dtype,
            f"{len(tensor.chunks)}",
            f"{Box((), tensor.shape).numel:,}",
            f"{tensor.missing_elements:,}",
            f"{tensor.overlapping_elements:,}",
            f"{len(tensor.wrong_chunks)}",
        )
        for tensor in (*found.broken, *(tensor for tensor in found.tensors if tensor.whole))
    )
    head = ("tensor", "verdict", "shape", "dtype", "chunks", "elements", "missing", "promised twice", "wrong chunks")
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
