"""The names and shapes that a transformers configuration stands for: its own class built without memory, and asked."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardviz.checks.checkpoints.datafiles import read_whole, shown
from shardviz.checks.checkpoints.expected import Needed
from shardviz.core.errors import FileError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["needed_by"]

_LARGEST_CONFIG = 1 << 24
_MOST_LAYERS = 2000


def needed_by(path: str | Path) -> Needed:
    """What the model of a configuration needs. Nothing is downloaded, and no code that comes with a model is run.

    Args:
        path: a `config.json`, or the directory that has one.

    Raises:
        FileError: it is no configuration of a model that the installed transformers knows, or transformers is not installed.
    """
    file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    _check(file)
    model = _built(file)
    groups: dict[int, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups[id(parameter)].append(name)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    base = f"{getattr(model, 'base_model_prefix', '')}.".lstrip(".")
    return Needed(file, shapes, tuple(tuple(names) for names in groups.values() if len(names) > 1), base)


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


def _built(file: Path) -> nn.Module:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise FileError(f"to know what {shown(str(file))} needs, transformers is needed: pip install 'shardviz[hf]'") from error
    log: Any = transformers.logging
    before = log.get_verbosity()
    log.set_verbosity_error()
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            config = transformers.AutoConfig.from_pretrained(file, trust_remote_code=False, local_files_only=True)
            return _model(transformers, config)
    except Exception as error:  # of whatever kind a model's own code raises
        why = shown(str(error).partition("\n")[0], 300)
        raise FileError(f"transformers {transformers.__version__} makes no model of {shown(str(file))}: {why}") from error
    finally:
        log.set_verbosity(before)


def _model(transformers: Any, config: Any) -> nn.Module:
    for name in config.architectures or ():
        kind = getattr(transformers, name, None)
        if isinstance(kind, type):
            made: nn.Module = kind(config)
            return made
    model: nn.Module = transformers.AutoModelForCausalLM.from_config(config)
    return model
