"""Files and directories that are complete or not there: written under another name beside the target, and renamed."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["bring", "ended_softly", "written_directory", "written_file"]

_CLONE = 0x40049409  # the request that makes two files share their blocks until one is written
_BLOCK = 1 << 24


@contextmanager
def written_file(target: Path) -> Iterator[Path]:
    """A path to write to, renamed to the target at the end; after an error nothing of it is left, and the target is as it was.

    Raises:
        OSError: it cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(target) as place:
        yield place / target.name
        _synced(place / target.name)
        (place / target.name).replace(target)


@contextmanager
def written_directory(target: Path) -> Iterator[Path]:
    """A directory to write into, renamed to the target at the end, which must not exist or be empty.

    Raises:
        OSError: it cannot be written, or the target is not empty.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(target) as place:
        made = place / target.name
        made.mkdir()
        yield made
        for path in made.rglob("*"):
            if path.is_file():
                _synced(path)
        made.rename(target)  # onto an empty directory too


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A directory beside the target, gone at the end. One that a killed process left is taken away first."""
    for left in target.parent.glob(f".{_plain(target.name)}.*.partial"):
        _remove_if_left(left)
    place = Path(tempfile.mkdtemp(prefix=f".{_plain(target.name)}.", dir=target.parent))
    lock = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # before it has the name by which others find it: they see that it is in use
        place = place.rename(f"{place}.partial")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _remove_if_left(place: Path) -> None:
    with suppress(OSError):
        lock = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(lock)


def _plain(name: str) -> str:
    """A name without what a pattern for file names would take for something else, and not too long."""
    return re.sub(r"[^\w.-]", "_", name)[:100]


def _synced(path: Path) -> None:
    """Have a file's content on the disk before it gets its name."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def ended_softly() -> Iterator[None]:
    """Let a request to end (SIGTERM) clear away what is half written, as an interrupt does."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def bring(source: Path, target: Path, link: bool) -> bool:
    """Make a file appear in another place: as a clone that shares its blocks until one is written, or a copy.

    Args:
        source: the file.
        target: the other place.
        link: make a hard link where no clone can be made.

    Returns:
        Whether the two now share their bytes for good.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new, _CLONE, old.fileno())
        except OSError:
            if not link:
                shutil.copyfileobj(old, new, _BLOCK)
        else:
            return False
    if not link:
        return False
    target.unlink()
    try:
        os.link(source.resolve(), target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copyfile(source, target)
        return False
    return True
