"""Every notebook runs from top to bottom, unattended, and is stored without outputs."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from shardviz.bench.processes import children, proportional_memory

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
CELL_SECONDS = 90

MOST_MEGABYTES = 1800
"""A binder image gets 2 GB; JupyterLab's server takes the rest."""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def shown(cell) -> str:
    """The text form of everything a cell puts out."""
    return "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.get("outputs", []))


def ours() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@contextmanager
def watched_memory() -> Iterator[list[float]]:
    """Samples of the memory (PSS, in MB) of everything below this process."""
    samples, over, before = [0.0], threading.Event(), set(children(os.getpid()))

    def watch() -> None:
        while not over.wait(0.4):
            with_it = [pid for pid in children(os.getpid()) if pid not in before]
            samples.append(sum(map(memory, with_it)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


def memory(pid: int) -> float:
    try:
        return proportional_memory([pid])
    except (OSError, StopIteration):  # it has just ended
        return 0.0


def test_there_is_a_first_notebook():
    assert NOTEBOOKS[0].name == "01-start-here.ipynb"


@each_notebook
def test_nothing_is_stored_but_the_source(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in code if cell.outputs or cell.execution_count] == []
    assert "widgets" not in notebook.metadata


@pytest.mark.notebook
@pytest.mark.ranks
@pytest.mark.timeout(240)
@each_notebook
def test_it_runs_unattended_and_leaves_nothing_behind(path, tmp_path, monkeypatch, count):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    before = ours()
    notebook = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    began = time.perf_counter()
    with watched_memory() as samples:
        NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=resources).execute()
    count(f"notebook {path.stem}: {time.perf_counter() - began:.1f} s, at most {max(samples):.0f} MB")
    assert max(samples) < MOST_MEGABYTES
    text = {cell.id: shown(cell) for cell in notebook.cells}
    check = CHECKS.get(path.stem)
    if check:
        check(text)
    left = [process for process in map(psutil.Process, ours() - before) if process.status() != psutil.STATUS_ZOMBIE]
    assert [process.cmdline() for process in left] == []
    assert not set(os.listdir(tmp_path)) - {"ipython", "runtime"}


def first(text):
    assert "held by 4 gloo ranks" in text["ranks"]
    assert "rank 0: 0 1 3 2 4" in text["before"]
    assert "no difference" in text["compare"]
    assert "held by 8 gloo ranks" in text["nine"]
    assert "rank 7: 8" in text["nine"]


def eighth(text):
    assert "8  " in text["stale"]
    assert text["stale"].count("<- not what was saved") == 1
    assert "NOT whole: 2 tensors broken, 10 elements missing" in text["map"]
    assert text["rescued"] == "True"
    assert text["corrected"] == "(True, True)"
    assert "26 27 28 30 31 32 0" in text["shifted"]


CHECKS = {"01-start-here": first, "08-the-checkpoint-that-loses-a-row": eighth}
