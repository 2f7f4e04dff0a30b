"""`shardviz lessons`: the exercises, for those who teach with them and those who solve them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from shardviz.cli.lab import notebooks_folder
from shardviz.core.errors import FileError

if TYPE_CHECKING:
    from shardviz.lessons.store import Record

__all__ = ["lessons_command"]

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
_name = click.option("--name", default="", help="Whose progress, where several people share an account.")
_seed = click.option("--seed", default="0", show_default=True, help="A number or a word: another seed, other questions.")


@click.group("lessons")
def lessons_command() -> None:
    """Exercises that check themselves: which there are, handouts without answers, sheets to print, and progress."""


@lessons_command.command("list")
@_name
@_json
def list_command(name: str, as_json: bool) -> None:
    """Every exercise, with its notebook and what has become of it."""
    from shardviz.lessons.catalogue import IDS, NOTEBOOKS, find
    from shardviz.lessons.functions import Code

    records, problem = _records(name)
    rows = []
    for exercise in map(find, IDS):
        record = records.get(exercise.id)
        state = "solved" if record and record.solved else "begun" if record else "new"
        kind = "code" if isinstance(exercise, Code) else "question"
        rows.append((f"{exercise.notebook:02} {NOTEBOOKS[exercise.notebook]}", exercise.id, kind, state))
    _print(("notebook", "exercise", "kind", "state"), rows, as_json)
    _tell(problem)


@lessons_command.command("progress")
@_name
@_json
def progress_command(name: str, as_json: bool) -> None:
    """How far somebody has come, notebook by notebook."""
    from shardviz.lessons.catalogue import IDS, NOTEBOOKS, find
    from shardviz.lessons.store import Record

    records, problem = _records(name)
    rows = []
    for number, title in NOTEBOOKS.items():
        there = [records.get(one, Record()) for one in IDS if find(one).notebook == number]
        solved, attempts, hints = sum(r.solved for r in there), sum(r.attempts for r in there), sum(r.hints for r in there)
        rows.append((f"{number:02} {title}", len(there), solved, attempts, hints))
    _print(("notebook", "exercises", "solved", "attempts", "hints"), rows, as_json)
    _tell(problem)


@lessons_command.command("handout")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@_seed
def handout_command(directory: Path, seed: str) -> None:
    """Copy the notebooks into DIRECTORY without their answers; the first cell of each sets the seed."""
    from shardviz.lessons.handout import write_handout

    for path in write_handout(notebooks_folder(), directory, seed):
        click.echo(path)


@lessons_command.command("sheet")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_seed
@click.option("--answers", is_flag=True, help="Add a last page with the answers.")
def sheet_command(file: Path, seed: str, answers: bool) -> None:
    """Write the questions that need no computer to FILE, an .html page to print, with room to write."""
    from shardviz.lessons.sheet import sheet_page

    if file.suffix != ".html":
        raise FileError(f"{file.name}: a sheet is written as .html; a browser prints it, or saves it as PDF")
    try:
        file.write_text(sheet_page(seed, answers), "utf-8")
    except OSError as error:
        raise FileError(f"the sheet cannot be written to {file}: {error.strerror}") from error
    click.echo(file)


def _records(name: str) -> tuple[dict[str, Record], str]:
    from shardviz.lessons.store import Store, progress_path

    store = Store(progress_path(name))
    return store.records(), store.problem()


def _print(head: tuple[str, ...], rows: list[tuple[Any, ...]], as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode([dict(zip(head, row, strict=True)) for row in rows]))
        return
    table = Table(box=None, pad_edge=False)
    for heading in head:
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(str, row))
    Console(highlight=False, markup=False, soft_wrap=True).print(table)


def _tell(problem: str) -> None:
    if problem:
        click.echo(f"shardviz: {problem}", err=True)
