"""Who communicates, where and why, read off the stack: the program's line, the module, and what torch's functions tell."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from shardviz.tensors import seams

__all__ = ["Caller", "caller", "is_program"]

_INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_TORCH, _OURS = (str(path) + os.sep for path in (Path(torch.__file__).parent, Path(__file__).parent.parent))
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_WRAPPERS = ("typing_extensions.py", "decorator.py")
"""Files of libraries that only pass calls on."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who called.

    Attributes:
        reason: what called for it; "" for the program itself.
        place: the line of the program, as `train.py:31`.
        module: path of the module whose forward or backward called.
        padding: for each member of the group, how many of the bytes for it are padding; None where that is not known.
    """

    reason: str = ""
    place: str = ""
    module: str = ""
    padding: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a function: whose it is, and what it tells. Its code stays alive here, so its address is its own."""

    code: CodeType
    is_program: bool = False
    is_installed: bool = False
    is_module: bool = False
    is_unit: bool = False
    telling: Callable[[FrameType], str] | None = None
    pads: bool = False
    quiet: bool = False


_known: dict[int, _Known] = {}
"""By the address of the code: to hash a code object would touch all that it refers to, and this must cost next to nothing."""

_paths: WeakKeyDictionary[torch.nn.Module, dict[int, str]] = WeakKeyDictionary()
"""Per outermost module the paths of those inside, by their addresses."""


def caller(frame: FrameType | None, members: int) -> Caller:
    """Read who called off the stack.

    Args:
        frame: the innermost frame.
        members: how many ranks the group has.
    """
    reason = place = installed = unit = ""
    padding: tuple[int, ...] | None = None
    inner = outer = None
    if frame is not None and frame.f_code.co_name == seams.BACKWARD:
        reason = "called from C++ in the backward pass, as DDP does to reduce gradients"
    while frame is not None:
        code = frame.f_code
        known = _known.get(id(code)) or _remember(code)
        if not known.quiet:
            if known.is_program:
                place = place or _line(frame)
            elif known.is_installed:
                installed = installed or _line(frame)
            elif known.is_module:
                inner, outer = inner or frame, frame
            elif known.is_unit:
                unit = unit or seams.unit_path(frame)
            if known.telling is not None and not reason:
                reason = known.telling(frame)
            if known.pads and padding is None:
                padding = seams.padding(frame, members) or None
        frame = frame.f_back
    module = unit or (_path(outer.f_locals["self"], inner.f_locals["self"]) if inner and outer else "")
    return Caller(reason, place or installed, seams.bare_path(module), padding)


def is_program(code: CodeType) -> bool:
    """Whether a function is neither Python's, torch's, nor of an installed package."""
    return (_known.get(id(code)) or _remember(code)).is_program


def _line(frame: FrameType) -> str:
    file = os.path.basename(frame.f_code.co_filename)
    # A function that came from a notebook's cell has no file here, but it has a name.
    return f"{frame.f_code.co_name if file.startswith('<') else file}:{frame.f_lineno}"


def _remember(code: CodeType) -> _Known:
    known = _known[id(code)] = _look(code)
    return known


def _look(code: CodeType) -> _Known:
    file = code.co_filename
    installed = file.startswith(_INSTALLED)
    if file.startswith(_TORCH):
        telling = seams.REASONS.get(code.co_name)
        found = _Known(
            code,
            is_module=code is seams.module_call(),
            is_unit=code.co_qualname.startswith(seams.UNITS),
            telling=telling,
            pads=code.co_name in seams.PADS,
        )
        quiet = not (found.is_module or found.is_unit or telling or found.pads)
        return _Known(code, quiet=True) if quiet else found
    if (file.startswith(_PYTHON) and not installed) or file.startswith((_OURS, *seams.GENERATED)):
        return _Known(code, quiet=True)
    if os.path.basename(file) in _WRAPPERS or _is_compiled(file):
        return _Known(code, quiet=True)
    return _Known(code, is_program=not installed, is_installed=installed)


def _is_compiled(file: str) -> bool:
    """Whether a compiler of torch wrote the file."""
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return any(part.startswith("torchinductor_") for part in Path(file).parts) or (bool(cache) and file.startswith(str(cache)))


def _path(root: Any, module: Any) -> str:
    if isinstance(root, torch.fx.GraphModule):  # a compiler's
        return ""
    if root is module:
        return type(root).__name__
    paths = _paths.get(root)
    if paths is None or id(module) not in paths:
        paths = _paths[root] = {id(part): name for name, part in root.named_modules()}
        paths.setdefault(id(module), "")  # one that the outermost module does not hold
    return paths[id(module)]
