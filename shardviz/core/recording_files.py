"""Recordings as files: the directory of lines that a program's ranks left, and a recording as one JSON document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from shardviz.core.errors import FileError
from shardviz.core.recording import Call, Event, Gap, Participant, Recording
from shardviz.core.recording_lines import VERSION, lacking, merge, read_lines

__all__ = ["from_json", "load_directory", "save", "to_json"]

SUFFIX = ".jsonl"


@dataclass(frozen=True)
class _Document:
    shardviz: int
    recording: Recording


def load_directory(path: str | Path) -> Recording:
    """Merge what the ranks of a program recorded into a directory (`python -m shardviz.record`).

    Raises:
        FileError: there is no record, or one cannot be read as what it should be.
    """
    directory = Path(path)
    logs = []
    for file in sorted(directory.glob(f"rank-*{SUFFIX}")):
        try:
            data = file.read_bytes()
        except OSError as error:
            raise FileError(f"{file} cannot be read: {error.strerror}") from error
        if b"\n" not in data:
            continue  # the program was killed in its first moments: the merge says that the rank left no record
        try:
            logs.append(read_lines(data))
        except FileError as error:
            raise FileError(f"{file}: {error}") from error
    if not logs:
        raise FileError(f"{directory} holds no records: `python -m shardviz.record` writes one file rank-*{SUFFIX} per rank")
    try:
        return merge(logs)
    except FileError as error:
        raise FileError(f"{directory}: {error}") from error


def save(recording: Recording, path: str | Path) -> Path:
    """Write a recording as JSON; see `Recording.save`."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(to_json(recording))
    except OSError as error:
        raise FileError(f"the recording cannot be written to {target}: {error.strerror}") from error
    return target


def to_json(recording: Recording) -> bytes:
    """The recording as a JSON document."""
    return msgspec.json.encode(_Document(VERSION, recording)) + b"\n"


def from_json(document: bytes) -> Recording:
    """Read what `to_json` wrote, once its version is known to be readable.

    Raises:
        FileError: it is no recording.
    """
    try:
        read = msgspec.json.decode(document, type=_Document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FileError(f"the recording is not as it should be: {error}") from error
    recording = read.recording
    _check(recording.participants, recording.events)
    blind = tuple(Gap(rank, what) for rank in recording.ranks for what in lacking(read.shardviz))
    return replace(recording, gaps=(*blind, *recording.gaps)) if blind else recording


def _check(participants: tuple[Participant, ...], events: tuple[Event, ...]) -> None:
    if not participants:
        raise FileError("the recording has no ranks")
    for event in events:
        if len(event.calls) != len(event.group) or not any(event.calls):
            raise FileError(f"a collective has {len(event.calls)} calls for the ranks {list(event.group)}")
        if any(_negative(call) for call in event.calls if call):
            raise FileError(f"a collective on the ranks {list(event.group)} has a negative size")


def _negative(call: Call) -> bool:
    return any(size < 0 for piece in (*call.given, *call.got) for size in piece.shape)
