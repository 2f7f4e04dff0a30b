"""A model from its configuration: transformers builds the class on the meta device, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shardviz.checks.audits.files import document_of
from shardviz.checks.audits.model import Model, Planned
from shardviz.core.errors import FileError, TorchError
from shardviz.core.notation import read_placements
from shardviz.core.placements import Placement

__all__ = ["can_build", "model_of"]

PATIENCE = 120.0
"""Seconds that transformers may take to build a class on the meta device; a model of 400 layers takes about five."""


def can_build() -> bool:
    """Whether transformers and torch are installed, without importing them."""
    return find_spec("transformers") is not None and find_spec("torch") is not None


def model_of(path: Path) -> Model:
    """The parameters, ties and plans of a Hugging Face `config.json`, as the class that it names has them.

    Nothing is fetched, no code of the folder is run, and this process imports neither torch nor transformers.

    Args:
        path: of the file, or of a folder that has it.

    Raises:
        FileError: transformers cannot make a model of it.
        TorchError: transformers is not installed, or is one that has no plans.
    """
    if not can_build():
        raise TorchError('to build a model from its configuration takes transformers: pip install "shardviz[hf]"')
    file = path / "config.json" if path.is_dir() else path
    with tempfile.TemporaryDirectory() as folder:
        # The file may be called anything and lie beside anything; transformers wants a folder with a config.json.
        (Path(folder) / "config.json").write_text(json.dumps(document_of(file)), "utf-8")
        answer = _asked(folder, file)
    if "error" in answer:
        raise FileError(f"{file}: transformers cannot build it: {_short(answer['error'].replace(folder, str(file)))}")
    return Model(
        answer["name"],
        answer["source"],
        tuple(
            Planned(name, tuple(shape), _placement(tp), _placement(ep), tuple(tied), style)
            for name, shape, tp, ep, tied, style in answer["parameters"]
        ),
        answer["tp"],
        answer["ep"],
        answer["heads"],
        tuple(answer["gaps"]),
        tuple((name, tuple(shape)) for name, shape in answer["buffers"]),
        apart=frozenset(answer["apart"]),
        itemsize=answer["itemsize"],
    )


def _asked(folder: str, file: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "shardviz.checks.audits.building", folder]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=PATIENCE, check=False, text=True)
    except subprocess.TimeoutExpired:
        raise FileError(f"{file}: transformers did not build it within {PATIENCE:g} seconds") from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with status {done.returncode}"]
        raise TorchError(f"transformers could not be asked about {file}: {_short(last[0])}") from None
    return answer


def _placement(text: str | None) -> Placement | None:
    return read_placements(text)[0].placement if text else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 400 else f"{line[:400]}…"
