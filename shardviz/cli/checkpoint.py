"""`shardviz checkpoint`: look into a checkpoint, rescue it, convert it, compare it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from shardviz.core.errors import FileError

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint

__all__ = ["checkpoint_command"]

_FOUND_WRONG = 1


@click.command("checkpoint")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the map as an .html page.")
@click.option("--mend", "out", type=click.Path(path_type=Path), help="Write a rescued checkpoint into this new directory.")
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path), help="Convert to one .safetensors file.")
@click.option("--compare", "other", type=click.Path(path_type=Path), help="Compare with another checkpoint.")
def checkpoint_command(
    directory: Path, as_json: bool, output: Path | None, out: Path | None, target: Path | None, other: Path | None
) -> None:
    """What the distributed checkpoint in DIRECTORY holds: every chunk's promised size against what is really stored.

    Nothing in it is run or changed. Exit status: 0 whole, 1 not whole (with --mend: something is gone for good; with --compare:
    something differs), 2 it cannot be read as a checkpoint.
    """
    from shardviz.checks.checkpoints.checkpoint import checkpoint
    from shardviz.cli.terminal import progress_bar

    if sum(option is not None for option in (out, target, other)) > 1:
        raise click.UsageError("--mend, --to and --compare do one thing each: give one of them")
    if output is not None and output.suffix != ".html":
        raise FileError(f"{output.name}: a map of a checkpoint is written as .html")
    with progress_bar() as progress:
        found = checkpoint(directory, progress)
    if out is not None:
        _mend(found, out, output, as_json)
    elif other is not None:
        _compare(found, other, output, as_json)
    else:
        if target is not None:
            _convert(found, target, as_json)
        _show(found, output, as_json)


def _show(found: Checkpoint, output: Path | None, as_json: bool, more: dict[str, Any] | None = None) -> None:
    if output is not None:
        found.save(output)
    if as_json:
        for problem in found.problems:
            click.echo(f"shardviz: {problem}", err=True)
        click.echo(msgspec.json.encode({**found.document(), **(more or {})}).decode())
    elif more is None:
        click.echo(found.text)
    if not found.whole:
        sys.exit(_FOUND_WRONG)


def _mend(found: Checkpoint, out: Path, output: Path | None, as_json: bool) -> None:
    from shardviz.checks.checkpoints.mend import mend

    mended = mend(found, out)
    if not as_json:
        click.echo(mended.text)
    gone = [
        {"name": rescue.tensor.name, "offset": box.offset, "size": box.size} for rescue in mended.rescues for box in rescue.gone
    ]
    _show(mended.checkpoint, output, as_json, {"gone": gone})


def _convert(found: Checkpoint, target: Path, as_json: bool) -> None:
    from shardviz.checks.checkpoints.content import convert

    if found.whole:
        written = convert(found, target)
        if not as_json:
            click.echo(f"{len(found)} tensors written to {written}, every element checked")
            if found.others:
                click.echo(f"left out, for they are no tensors: {len(found.others)} entries")
    else:
        click.echo("shardviz: nothing is converted: the checkpoint is not whole; mend it first (--mend)", err=True)


def _compare(found: Checkpoint, directory: Path, output: Path | None, as_json: bool) -> None:
    from shardviz.checks.checkpoints.checkpoint import checkpoint
    from shardviz.checks.checkpoints.content import compare_checkpoints

    other = checkpoint(directory)
    differences = list(compare_checkpoints(found, other))
    if output is not None:
        from shardviz.checks.checkpoints.report import comparison_page, write_page

        write_page(comparison_page(found, other, differences), output)
    if as_json:
        rows = [{"name": d.name, "sentence": d.sentence, "index": d.index, "count": d.count} for d in differences]
        click.echo(msgspec.json.encode({"equal": not differences, "differences": rows}).decode())
    else:
        click.echo("\n".join(d.sentence for d in differences) or f"equal: {len(found)} tensors, every element")
    if differences:
        sys.exit(_FOUND_WRONG)
