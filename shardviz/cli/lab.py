"""JupyterLab on the first notebook, on loopback, with its token."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from shardviz.core.errors import RequestError

__all__ = ["notebooks_folder", "open_lab"]

FIRST_NOTEBOOK = "01-start-here.ipynb"


def notebooks_folder() -> Path:
    """Where the notebooks are.

    Raises:
        RequestError: they are not beside the package.
    """
    folder = Path(__file__).resolve().parents[2] / "notebooks"
    if not (folder / FIRST_NOTEBOOK).exists():
        raise RequestError(
            "the notebooks are in the repository, and this shardviz is installed without it: clone it, and run `make lab` there"
        )
    return folder


def open_lab(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by JupyterLab.

    Args:
        arguments: further arguments for JupyterLab.

    Raises:
        RequestError: the notebooks are not beside the package, or JupyterLab is missing.
    """
    notebooks = notebooks_folder()
    if shutil.which("jupyter", path=str(Path(sys.executable).parent)) is None:
        raise RequestError("JupyterLab is not installed beside this Python: pip install jupyterlab")
    command = [sys.executable, "-m", "jupyterlab", str(notebooks / FIRST_NOTEBOOK), "--ServerApp.ip=127.0.0.1"]
    if os.geteuid() == 0:
        command.append("--ServerApp.allow_root=True")  # containers and GPU nodes: Jupyter refuses root otherwise
    os.execv(sys.executable, [*command, *arguments])
