"""What a person has solved, in a file that stays on this machine and that only its owner can read."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

__all__ = ["Record", "Store", "progress_path"]

VERSION = 1


class Record(msgspec.Struct):
    """One exercise.

    Attributes:
        attempts: answers that were checked; a stub is none.
        hints: hints that were shown.
        solved: whether an answer was right.
        seed: the seed with which it was solved.
        peeked: whether the solution was shown before it was solved.
    """

    attempts: int = 0
    hints: int = 0
    solved: bool = False
    seed: str = ""
    peeked: bool = False


class _Document(msgspec.Struct):
    lessons: int
    exercises: dict[str, Record]


def progress_path(name: str = "") -> Path:
    """Where a person's progress is kept: in $SHARDVIZ_PROGRESS, else in the folder for data of the desktop's rules.

    Example:
        >>> progress_path("Ada L.").name, progress_path().name
        ('progress-ada-l.json', 'progress.json')
    """
    chosen = os.environ.get("SHARDVIZ_PROGRESS")
    data = os.environ.get("XDG_DATA_HOME", "")
    base = data if os.path.isabs(data) else os.path.join("~", ".local", "share")
    folder = Path(os.path.expanduser(chosen or os.path.join(base, "shardviz")))  # unlike pathlib's, it never raises
    tag = re.sub(r"[^\w]+", "-", name.lower()).strip("-")
    return folder / (f"progress-{tag}.json" if tag else "progress.json")


class Store:
    """The records of one person, read and written anew for every change; what cannot be kept is a sentence, no exception.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._problem = ""
        self._kept: dict[str, Record] | None = None  # where the file cannot be written, what it would hold

    def records(self) -> dict[str, Record]:
        """Every record there is."""
        if self._kept is not None:
            return self._kept
        try:
            document = msgspec.json.decode(self.path.read_bytes(), type=_Document)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._keep({}, f"cannot be read ({error.strerror})")
            return {}
        except (msgspec.DecodeError, RecursionError):
            self._set_aside()
            return {}
        if document.lessons > VERSION:
            self._keep({}, "was written by a later version of shardviz")
            return {}
        return document.exercises

    def record(self, name: str) -> Record:
        """The record of one exercise."""
        return self.records().get(name, Record())

    def put(self, name: str, record: Record) -> None:
        """Write the record of one exercise."""
        records = {**self.records(), name: record}
        if self._kept is not None:
            self._kept = records
            return
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(_Document(VERSION, records)), indent=1))
            os.replace(temporary, self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self._keep(records, f"cannot be written ({error.strerror})")

    def problem(self) -> str:
        """What is wrong with the file, in a sentence; "" where nothing is. What was mended is told once."""
        told = self._problem
        if self._kept is None:
            self._problem = ""
        return told

    def _keep(self, records: dict[str, Record], why: str) -> None:
        self._kept = records
        self._problem = f"Your progress is kept only until this notebook's kernel ends: {self.path} {why}."

    def _set_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged")
        try:
            os.replace(self.path, aside)
            self._problem = f"{self.path.name} was damaged. It is now {aside.name}, beside it, and progress begins anew."
        except OSError as error:
            self._keep({}, f"is damaged and cannot be moved ({error.strerror})")
