"""The exercises in a real kernel, as a person meets them."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = {
    "start": "from shardviz import lessons\n\nlessons.start(seed=3)",
    "show": 'lessons.show("chunk-sizes")',
    "stub": 'def chunk_sizes(size, ranks):\n    raise NotImplementedError\n\n\nlessons.check("chunk-sizes", chunk_sizes)',
    "wrong": 'def chunk_sizes(size, ranks):\n    print("called")\n    return [size // ranks] * ranks\n\n\n'
    'lessons.check("chunk-sizes", chunk_sizes)',
    "raises": "def chunk_sizes(size, ranks):\n    full = size // ranks\n    return [full / 0] * ranks\n\n\n"
    'lessons.check("chunk-sizes", chunk_sizes)',
    "loops": "def chunk_sizes(size, ranks):\n    while size:\n        ranks += 1\n\n\n"
    'lessons.check("chunk-sizes", chunk_sizes)',
    "hint": 'lessons.hint("chunk-sizes")',
    "right": "def chunk_sizes(size, ranks):\n    full = -(-size // ranks)\n"
    "    return [max(0, min(full, size - i * full)) for i in range(ranks)]\n\n\n"
    'lessons.check("chunk-sizes", chunk_sizes)',
    "progress": "lessons.progress()",
}


@pytest.mark.notebook
@pytest.mark.timeout(120)
def test_a_person_solves_an_exercise_in_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id=name) for name, source in CELLS.items()])
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = {cell.id: cell.outputs for cell in notebook.cells}
    assert {name: len(found) for name, found in outputs.items()} == dict.fromkeys(CELLS, 1)
    data = {name: found[0].data for name, found in outputs.items()}
    text = {name: found["text/plain"] for name, found in data.items()}
    assert "Seed 3" in text["start"]
    assert "<svg" in data["show"]["text/html"]
    assert "Still the stub" in text["stub"]
    assert "should give `[2, 2, 1, 0]`" in text["wrong"]
    assert "called" in text["wrong"]
    assert "rank 0: target 0 1; yours 0" in text["wrong"]
    assert "line 3: return [full / 0] * ranks" in text["raises"]
    assert "line 3: ranks += 1" in text["loops"] or "line 2: while size:" in text["loops"]
    assert "Hint 1 of 3" in text["hint"]
    assert "Right, on all" in text["right"]
    assert "1 of 23 solved" in text["progress"]
