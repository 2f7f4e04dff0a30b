"""The data files of a checkpoint's directory: only read, only regular files, few of them open at a time."""

from __future__ import annotations

import os
import re
import stat
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from shardviz.checks.checkpoints.archive import Stored, stored_tensor
from shardviz.checks.checkpoints.metadata import Place
from shardviz.core.errors import FileError

__all__ = ["DataFiles", "read_whole", "shown", "writer"]

_MOST_OPEN = 64
_AHEAD = 1 << 10
_WRITERS = (re.compile(r"__(\d+)_\d+\.distcp"), re.compile(r"shard-(\d+)-model-.*\.safetensors"))


class DataFiles:
    """The files of a directory, opened as they are asked for and closed at the end of the `with` block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._open: dict[str, tuple[int, int]] = {}
        self._lost: dict[str, str] = {}
        self._ahead = ("", 0, b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._close()

    def size(self, file: str) -> int:
        """Bytes of a file.

        Raises:
            FileError: it cannot be read.
        """
        return self._opened(file)[1]

    def read(self, file: str, start: int, length: int) -> bytes:
        """A stretch of a file, shorter where the file ends.

        Raises:
            FileError: it cannot be read.
        """
        try:
            return os.pread(self._opened(file)[0], length, start)
        except OSError as error:
            raise FileError(f"{shown(file)} cannot be read: {error.strerror}") from error

    def stored(self, place: Place) -> Stored:
        """The tensor in an archive.

        Raises:
            FileError: there is none, or it cannot be read.
        """
        file, size = self._opened(place.file)

        def read(start: int, length: int) -> bytes:
            """Read further than asked: one chunk's archive mostly begins where the one before ends."""
            name, first, data = self._ahead
            if name != place.file or not first <= start <= start + length <= first + len(data):
                first, data = start, os.pread(file, length + _AHEAD, start)
                self._ahead = place.file, first, data
            return data[start - first : start - first + length]

        try:
            return stored_tensor(read, place, size)
        except (OSError, struct.error, IndexError) as error:
            raise FileError("its archive is damaged") from error

    def _opened(self, file: str) -> tuple[int, int]:
        known = self._open.get(file)
        if known is not None:
            return known
        if file in self._lost:
            raise FileError(self._lost[file])
        if len(self._open) >= _MOST_OPEN:
            self._close()
        try:
            self._open[file] = _open_regular(self.directory / file)
        except FileError as error:
            self._lost[file] = f"the file {shown(file)} {error}"
            raise FileError(self._lost[file]) from error
        return self._open[file]

    def _close(self) -> None:
        for file, _ in self._open.values():
            os.close(file)
        self._open.clear()


def read_whole(path: Path, largest: int) -> bytes:
    """A whole file.

    Raises:
        FileError: it cannot be read, or is larger than `largest`.
    """
    try:
        file, size = _open_regular(path)
    except FileError as error:
        raise FileError(f"{shown(str(path))} {error}") from error
    with os.fdopen(file, "rb") as stream:
        if size > largest:
            raise FileError(f"{shown(str(path))} has {size} bytes, more than the {largest} that are read of such a file")
        return stream.read(largest)


def writer(file: str) -> int | None:
    """The rank that wrote a data file, by the file's name; None where the name does not tell.

    Example:
        >>> writer("__6_0.distcp"), writer("shard-00007-model-00001-of-00001.safetensors"), writer("model.safetensors")
        (6, 6, None)
    """
    for place, pattern in enumerate(_WRITERS):
        found = pattern.fullmatch(file)
        if found and len(found[1]) < 10:
            return int(found[1]) - place  # the Hugging Face writer counts from 1
    return None


def shown(name: str, most: int = 120) -> str:
    """A name from outside as one line of plain text.

    Example:
        >>> shown("a\\x1b[31m\\nb")
        'a\\\\x1b[31m\\\\nb'
    """
    plain = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in name[: 2 * most])
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _open_regular(path: Path) -> tuple[int, int]:
    """Open a regular file, and only that: a pipe would wait for ever. Its descriptor and size."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FileError("is missing") from None
    except (OSError, ValueError) as error:
        raise FileError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise FileError("is no regular file")
    return file, found.st_size
