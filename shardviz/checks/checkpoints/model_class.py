"""The names and shapes that a transformers configuration stands for, as a checkpoint is compared with them."""

from __future__ import annotations

import json
from pathlib import Path

from shardviz.checks.audits.classes import model_of
from shardviz.checks.checkpoints.datafiles import read_whole, shown
from shardviz.checks.checkpoints.expected import Needed
from shardviz.core.errors import FileError

__all__ = ["needed_by"]

_LARGEST_CONFIG = 1 << 24
_MOST_LAYERS = 2000


def needed_by(path: str | Path) -> Needed:
    """What the model of a configuration needs. Nothing is downloaded, and no code that comes with a model is run.

    Args:
        path: a `config.json`, or the directory that has one.

    Raises:
        FileError: it is no configuration of a model that the installed transformers knows.
        TorchError: transformers is not installed.
    """
    file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    _check(file)
    model = model_of(file)
    tied = tuple((one.name, *one.tied) for one in model.parameters if one.tied)
    return Needed(file, {**model.shapes, **dict(model.buffers)}, tied)


def _check(file: Path) -> None:
    """Refuse what would take transformers for ever, or is no configuration."""
    try:
        config = json.loads(read_whole(file, _LARGEST_CONFIG))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{shown(str(file))} is no JSON") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise FileError(f"{shown(str(file))} is no configuration of transformers: it has no model_type")
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    for name, value in ((name, value) for part in parts for name, value in part.items() if "layer" in name):
        if isinstance(value, int) and value > _MOST_LAYERS:
            raise FileError(
                f"{shown(str(file))} says {shown(name)} is {shown(str(value), 20)}; models have at most {_MOST_LAYERS}"
            )
