"""Names and shapes of the parameters in files of weights: the headers of safetensors alone are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shardviz.core.errors import FileError

__all__ = ["configuration", "document_of", "model_file", "shapes_of"]


def model_file(path: Path) -> Path:
    """The file that says most of what a path stands for: of a directory its configuration, else its weights.

    Raises:
        FileError: it is neither a file nor a directory that has one of them.
    """
    if path.exists() and not (path.is_dir() or path.is_file()):
        raise FileError(f"{path} is no regular file")
    if not path.is_dir():
        return path
    usual = ("config.json", "model.safetensors.index.json", "model.safetensors")
    found = next((path / name for name in usual if (path / name).is_file()), None)
    if found is None:
        raise FileError(f"{path} cannot be read: it has none of {', '.join(usual)}")
    return found


def configuration(path: Path) -> dict[str, Any] | None:
    """The document of a configuration; nothing where the file is one of weights.

    Raises:
        FileError: it is not there, or is neither.
    """
    if path.suffix == ".safetensors":
        return None
    document = document_of(path)
    return None if "weight_map" in document else document


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a file of weights, or in all that an index names.

    Raises:
        FileError: it is not there, or is not what its name says.
    """
    if path.suffix == ".safetensors":
        return _headers(path)
    found: dict[str, tuple[int, ...]] = {}
    for name in sorted(set(document_of(path)["weight_map"].values())):
        found |= _headers(path.parent / name)
    return found


def document_of(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object.

    Raises:
        FileError: it is not there, or is none.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise FileError(f"{path} is neither an index of safetensors nor a configuration")
    return document


def _headers(path: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path} cannot be read as safetensors: {error}") from error
