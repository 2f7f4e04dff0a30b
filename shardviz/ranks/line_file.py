"""A file of lines that outlives the process that writes it."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["LineFile"]


class LineFile:
    """A file that only its owner can read, to which lines are written so that each survives the end of the process.

    Args:
        path: where it is.
        on_failure: called once with the error when it cannot be written to; no line is written after it.
    """

    def __init__(self, path: str, on_failure: Callable[[OSError], object]) -> None:
        self._on_failure = on_failure
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._failed = False

    def __call__(self, line: bytes) -> None:
        """Write a line."""
        if not self._failed:
            try:
                os.write(self._file, line)
            except OSError as error:
                self._failed = True
                self._on_failure(error)

    def clear(self) -> None:
        """Remove every line."""
        os.ftruncate(self._file, 0)
        self._failed = False
