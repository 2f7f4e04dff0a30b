"""`shardviz checkpoint`: look into a checkpoint, rescue it, convert it, compare it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from shardviz.core.errors import FileError

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint
    from shardviz.checks.checkpoints.expected import Compared

__all__ = ["checkpoint_command"]

_FOUND_WRONG = 1


@click.command("checkpoint")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the map as an .html page.")
@click.option("--verify", is_flag=True, help="Read every element too, and compare with the checksums that torch stored.")
@click.option("--expect", "config", type=click.Path(path_type=Path), help="A model's config.json: are its tensors there?")
@click.option("--mend", "out", type=click.Path(path_type=Path), help="Write a rescued checkpoint into this new directory.")
@click.option("--link", is_flag=True, help="With --mend: hard links to the original's data files, in place of copies.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="Convert to a .safetensors file or a directory of them.")
@click.option("--strip", metavar="PREFIX", help="With --to: take this off the names, such as app.model. (--expect tells it).")
@click.option("--with-optimizer", is_flag=True, help="With --to: write the optimizer's state too.")
@click.option("--shard-size", default="5GB", show_default=True, help="With --to a directory: several files above this size.")
@click.option("--compare", "other", type=click.Path(path_type=Path), help="Compare with another checkpoint.")
@click.option("--tensor", "only", default="", metavar="PART", help="Only tensors with this in their names; * is anything.")
@click.option("--at", "index", metavar="INDEX", help="Which file and bytes hold the element at a global index, such as 8,0.")
@click.option("--read-by", "cut", metavar="MESH", help='What its ranks would read, such as "dp=4, tp=2: _S(0, 2), S(0)".')
@click.option("--rank", type=int, help="With --read-by: this rank alone, piece by piece.")
def checkpoint_command(
    directory: Path,
    as_json: bool,
    output: Path | None,
    verify: bool,
    config: Path | None,
    out: Path | None,
    link: bool,
    target: Path | None,
    strip: str | None,
    with_optimizer: bool,
    shard_size: str,
    other: Path | None,
    only: str,
    index: str | None,
    cut: str | None,
    rank: int | None,
) -> None:
    """What the distributed checkpoint in DIRECTORY holds: every chunk's promised size against what is really stored.

    Nothing in it is run or changed. Exit status: 0 whole, 1 not whole (with --mend: something is gone for good; with --compare:
    something differs; with --at and --read-by: something is missing; with --expect: tensors are missing, extra or of another
    shape; with --verify: elements are not what was written), 2 it cannot be read as a checkpoint.
    """
    from shardviz.checks.checkpoints.checkpoint import checkpoint
    from shardviz.cli.terminal import progress_bar

    if sum(option is not None for option in (out, target, other, index, cut)) > 1:
        raise click.UsageError("--mend, --to, --compare, --at and --read-by do one thing each: give one of them")
    if (verify or config) and any(option is not None for option in (out, other, index, cut)):
        raise click.UsageError("--verify and --expect look at what is there: they go alone, with each other, or with --to")
    if out is not None and only:
        raise click.UsageError("--mend rescues all tensors: leave out --tensor")
    if config is not None and only:
        raise click.UsageError("--expect compares all tensors of a model: leave out --tensor")
    if link and out is None:
        raise click.UsageError("--link goes with --mend, which says where")
    if (strip or with_optimizer) and target is None:
        raise click.UsageError("--strip and --with-optimizer go with --to, which says where")
    if rank is not None and cut is None:
        raise click.UsageError("--rank goes with --read-by, which says on what mesh")
    if output is not None and (index or cut):
        raise click.UsageError("--at and --read-by draw nothing: leave out -o")
    if output is not None and output.suffix != ".html":
        raise FileError(f"{output.name}: a map of a checkpoint is written as .html")
    shard_bytes = _bytes(shard_size)
    with progress_bar() as progress:
        found = checkpoint(directory, progress, only, verify)
    if out is not None:
        _mend(found, out, link, output, as_json)
    elif other is not None:
        _compare(found, other, output, as_json)
    elif index is not None:
        _locate(found, index, as_json)
    elif cut is not None:
        _read(found, cut, rank, as_json)
    else:
        expected = found.expect(config) if config else None
        if target is not None:
            _convert(found, target, _Wanted(strip, with_optimizer, shard_bytes), expected, as_json)
        _show(found, expected, output, as_json)


class _Wanted(NamedTuple):
    """How to convert: what to take off the names, whether to write the optimizer's state, and bytes in one file."""

    strip: str | None
    optimizer: bool
    shard_bytes: int


def _bytes(text: str) -> int:
    """A size such as 5GB, as transformers writes it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not found or not float(found[1]):
        raise click.UsageError(f"--shard-size {text!r}: a size is a number and a unit, such as 5GB or 500MB")
    return int(float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " "))


def _show(found: Checkpoint, expected: Compared | None, output: Path | None, as_json: bool) -> None:
    if output is not None:
        found.save(output)
    if as_json:
        for problem in found.problems:
            click.echo(f"shardviz: {problem}", err=True)
        more = {"expected": expected.document()} if expected is not None else {}
        click.echo(msgspec.json.encode({**found.document(), **more}).decode())
    else:
        click.echo(found.text)
        if expected is not None:
            click.echo(expected.text)
    if found or expected:
        sys.exit(_FOUND_WRONG)


def _mend(found: Checkpoint, out: Path, link: bool, output: Path | None, as_json: bool) -> None:
    from shardviz.checks.checkpoints.beside import ended_softly
    from shardviz.checks.checkpoints.mend import SHARED, mend
    from shardviz.cli.terminal import progress_bar

    with ended_softly(), progress_bar() as progress:
        mended = mend(found, out, link, progress)
    if output is not None:
        mended.checkpoint.save(output)
    if as_json:
        gone = [{"name": r.tensor.name, "offset": box.offset, "size": box.size} for r in mended.rescues for box in r.gone]
        doubted = [
            {"name": r.tensor.name, "offset": c.offset, "size": c.size, "stored": c.stored, "file": c.place and c.place.file}
            for r in mended.rescues
            for c in r.doubted
        ]
        if mended.shared:
            click.echo(f"shardviz: {SHARED}", err=True)
        more = {"whole": mended.whole, "gone": gone, "doubted": doubted, "shared": mended.shared}
        click.echo(msgspec.json.encode({**mended.checkpoint.document(), **more}).decode())
    else:
        click.echo(mended.text)
    if mended:
        sys.exit(_FOUND_WRONG)


def _convert(found: Checkpoint, target: Path, wanted: _Wanted, expected: Compared | None, as_json: bool) -> None:
    from shardviz.checks.checkpoints.beside import ended_softly
    from shardviz.checks.checkpoints.converting import convert
    from shardviz.cli.terminal import progress_bar

    if not found.whole:
        click.echo("shardviz: nothing is converted: the checkpoint is not whole; mend it first (--mend)", err=True)
        return
    if expected is not None and (expected.missing or expected.other_shape):
        click.echo("shardviz: nothing is converted: it is not what the configuration needs", err=True)
        return
    strip = expected.prefix if expected is not None and wanted.strip is None else wanted.strip or ""
    config = expected.source if expected is not None else None
    with ended_softly(), progress_bar() as progress:
        written = convert(found, target, strip, wanted.optimizer, wanted.shard_bytes, config, progress)
    if not as_json:
        click.echo(written.text)


def _compare(found: Checkpoint, directory: Path, output: Path | None, as_json: bool) -> None:
    from shardviz.checks.checkpoints.checkpoint import checkpoint
    from shardviz.checks.checkpoints.content import compare_checkpoints, recut
    from shardviz.checks.checkpoints.datafiles import shown
    from shardviz.checks.checkpoints.words import many

    other = checkpoint(directory, only=found.only)
    differences, moved = list(compare_checkpoints(found, other)), recut(found, other)
    if output is not None:
        from shardviz.checks.checkpoints.report import comparison_page, write_page

        write_page(comparison_page(found, other, differences), output)
    if as_json:
        rows = [{"name": d.name, "sentence": d.sentence, "index": d.index, "count": d.count} for d in differences]
        click.echo(msgspec.json.encode({"equal": not differences, "differences": rows, "recut": moved}).decode())
    else:
        click.echo("\n".join(d.sentence for d in differences) or f"equal: {many(len(found), 'tensor')}, every element")
        if moved:
            click.echo(
                f"{many(len(moved), 'tensor')} cut in other ways: {', '.join(map(shown, moved[:8]))}{', …' * (len(moved) > 8)}"
            )
    if differences:
        sys.exit(_FOUND_WRONG)


def _locate(found: Checkpoint, index: str, as_json: bool) -> None:
    from shardviz.checks.checkpoints.reading import locate

    numbers = index.split(",") if index.strip() else []
    if not all(number.strip().isdecimal() for number in numbers):
        raise click.UsageError(
            f"--at {index!r}: an index is a number per tensor dimension, with commas between, such as 8,0; of a tensor without "
            'dimensions it is --at ""'
        )
    answers = locate(found, [int(number) for number in numbers])
    if as_json:
        rows = [
            {
                "name": answer.name,
                "index": answer.index,
                "file": answer.location.file if answer.location else None,
                "byte_offset": answer.location.byte_offset if answer.location else None,
                "bytes": answer.location.bytes if answer.location else 0,
                "astray": answer.astray,
            }
            for answer in answers
        ]
        click.echo(msgspec.json.encode({"elements": rows}).decode())
    else:
        click.echo("\n".join(answer.text for answer in answers))
    if any(answer.location is None or answer.astray for answer in answers):
        sys.exit(_FOUND_WRONG)


def _read(found: Checkpoint, cut: str, rank: int | None, as_json: bool) -> None:
    from shardviz.checks.checkpoints.chunks import box_text
    from shardviz.checks.checkpoints.datafiles import shown
    from shardviz.checks.checkpoints.reading import reads

    answers = reads(found, cut, rank)
    if as_json:
        rows = [
            {
                "rank": answer.rank,
                "elements": answer.elements,
                "missing": answer.missing,
                "bytes": answer.bytes,
                "pieces": [
                    {"name": name, "offset": piece.box.offset, "size": piece.box.size, "file": piece.file}
                    for name, piece in answer.pieces
                ],
            }
            for answer in answers
        ]
        click.echo(msgspec.json.encode({"ranks": rows}).decode())
    else:
        for answer in answers:
            click.echo(answer.text)
            for name, piece in answer.pieces if rank is not None else ():
                click.echo(f"  {shown(name)} {box_text(piece.box)} from {shown(piece.file)}")
    if any(answer.missing for answer in answers):
        sys.exit(_FOUND_WRONG)
