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

from . import checks_a, checks_b

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
    monkeypatch.setenv("SHARDVIZ_PROGRESS", str(tmp_path / "progress"))
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
    assert not set(os.listdir(tmp_path)) - {"ipython", "runtime", "progress"}


NO_RANKS = """
from shardviz.core.errors import RanksError
from shardviz.ranks.cluster import Ranks

def refuse(self):
    raise RanksError("there is no room for ranks here")

Ranks.start = refuse
"""


ALONE = {"02-shards-and-padding", "10-debug-your-own-model"}
"""Representatives of the notebooks that go on without ranks: a story, and a model. The rest is slow."""


@pytest.mark.notebook
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem not in ALONE)) for p in NOTEBOOKS]
)
def test_it_goes_on_where_ranks_cannot_start(path, tmp_path, monkeypatch):
    notebook = nbformat.read(path, 4)
    if "Ranks(" not in "".join(cell.source for cell in notebook.cells if cell.cell_type == "code"):
        pytest.skip("it starts none")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("SHARDVIZ_PROGRESS", str(tmp_path / "progress"))
    notebook.cells.insert(0, nbformat.v4.new_code_cell(NO_RANKS))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=resources).execute()
    assert "there is no room for ranks here" in "".join(map(shown, notebook.cells))


CHECKS = checks_a.CHECKS | checks_b.CHECKS
