"""Notebooks for a class: the same ones without the answers, and with a seed."""

from __future__ import annotations

from pathlib import Path

import nbformat

from shardviz.core.errors import FileError

__all__ = ["REMOVED", "write_handout"]

REMOVED = {"answer", "teacher"}
"""The tags of cells that a handout leaves out."""


def write_handout(source: Path, directory: Path, seed: str) -> list[Path]:
    """Copy every notebook of a folder without its answers; those with exercises begin by setting the seed.

    Args:
        source: the folder with the notebooks.
        directory: where the copies go; it is made where it is missing. Nothing in it is written over.
        seed: of the exercises.

    Returns:
        The copies.

    Raises:
        FileError: a notebook cannot be read, or a copy is there already or cannot be written.
    """
    notebooks = sorted(source.glob("*.ipynb"))
    there = [directory / path.name for path in notebooks if (directory / path.name).exists()]
    if there:
        raise FileError(f"{there[0]} is there already, and somebody may have worked in it: name a new directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return [_copy(path, directory / path.name, seed) for path in notebooks]
    except OSError as error:
        raise FileError(f"the handout cannot be written to {directory}: {error.strerror}") from error


def _copy(path: Path, target: Path, seed: str) -> Path:
    try:
        notebook = nbformat.read(path, 4)
    except (ValueError, nbformat.ValidationError) as error:
        raise FileError(f"{path} cannot be read as a notebook: {error}") from error
    kept = [cell for cell in notebook.cells if not REMOVED & set(cell.metadata.get("tags", ()))]
    for cell in kept:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    begin = f"from shardviz import lessons\n\nlessons.start(seed={seed!r}, solutions=False)"
    exercises = any("lessons" in cell.source for cell in kept if cell.cell_type == "code")
    notebook.cells = [nbformat.v4.new_code_cell(begin, id="handout"), *kept] if exercises else kept
    nbformat.write(notebook, target)
    return target
