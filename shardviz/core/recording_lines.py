"""What one rank writes while its program runs, line by line as JSON, and how the lines of all ranks become one recording.

A rank's file begins with a `begin` line. A `group` line comes before the first call of each process group, a `call` line before
each collective, a `done` line after it, and an `end` line when the program ends, so that a file without one was cut short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from shardviz.core.errors import FileError
from shardviz.core.recording import Call, Event, Participant, Piece, Recording, in_order

__all__ = ["VERSION", "Begin", "CallLine", "DoneLine", "EndLine", "GroupLine", "Line", "RankLog", "merge", "read_lines"]

VERSION = 1
CUT_SHORT = "is cut short"


class Begin(msgspec.Struct, frozen=True, gc=False):
    """The first line: `shardviz` is the version of the schema, `started` seconds since the epoch."""

    shardviz: int
    rank: int
    world: int
    program: str
    host: str
    torch: str
    started: float


class GroupLine(msgspec.Struct, frozen=True, gc=False):
    """A process group by torch's name of it, before its first call."""

    label: str
    ranks: tuple[int, ...]
    backend: str


class CallLine(msgspec.Struct, frozen=True, gc=False):
    """A collective is about to begin; `number` counts those of its group."""

    group: str
    number: int
    name: str
    given: tuple[Piece, ...]
    at: float
    reduction: str = ""
    root: int | None = None
    reason: str = ""
    place: str = ""


class DoneLine(msgspec.Struct, frozen=True, gc=False):
    """The collective of an earlier call line is done, and this came out."""

    group: str
    number: int
    got: tuple[Piece, ...]
    at: float


class EndLine(msgspec.Struct, frozen=True, gc=False):
    """The program ended; `error` is the exception that ended it."""

    error: str = ""


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line: an object with exactly one of these."""

    begin: Begin | None = None
    group: GroupLine | None = None
    call: CallLine | None = None
    done: DoneLine | None = None
    end: EndLine | None = None


@dataclass(frozen=True)
class RankLog:
    """The lines of one rank, sorted by their kind.

    Attributes:
        begin: its first line.
        groups: by label.
        calls: by group label and number.
        done: likewise.
        end: how the record ends, in words; "" where the program came to its end.
    """

    begin: Begin
    groups: dict[str, GroupLine]
    calls: dict[tuple[str, int], CallLine]
    done: dict[tuple[str, int], DoneLine]
    end: str


_decoder = msgspec.json.Decoder(Line)


def read_lines(data: bytes) -> RankLog:
    """Read what one rank wrote, up to its last whole line.

    Raises:
        FileError: it is no such record, is damaged before its last line, or is of a later version.
    """
    whole, _, rest = data.rpartition(b"\n")
    first = whole.partition(b"\n")[0]
    begin = _begin(first)
    try:
        lines = _decoder.decode_lines(whole)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FileError(f"line {_bad_line(whole)} is no line of a record ({error})") from error
    groups = {line.group.label: line.group for line in lines if line.group}
    calls = {(line.call.group, line.call.number): line.call for line in lines if line.call}
    done = {(line.done.group, line.done.number): line.done for line in lines if line.done}
    ends = [line.end for line in lines if line.end]
    _check(begin, groups, calls)
    pieces = [piece for call in calls.values() for piece in call.given] + [piece for one in done.values() for piece in one.got]
    if any(size < 0 for piece in pieces for size in piece.shape):
        raise FileError("it has a tensor of a negative size")
    end = CUT_SHORT
    if ends and not rest:
        end = f"ended with {ends[-1].error}" if ends[-1].error else ""
    return RankLog(begin, groups, calls, done, end)


def _begin(line: bytes) -> Begin:
    try:
        version = msgspec.json.decode(line, type=dict[str, dict[str, Any]]).get("begin", {}).get("shardviz")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FileError(f"not a record of shardviz ({error})" if line else "it has no whole line") from error
    if not isinstance(version, int):
        raise FileError('not a record of shardviz: its first line must be an object with "begin"')
    if version > VERSION:
        raise FileError(f"the record has version {version}; this shardviz reads versions up to {VERSION}")
    try:
        begin = _decoder.decode(line).begin
    except msgspec.DecodeError as error:
        raise FileError(f"the first line is not as it should be: {error}") from error
    assert begin is not None
    if not 0 <= begin.rank < begin.world:
        raise FileError(f"it says that it is rank {begin.rank} of {begin.world}")
    return begin


def _bad_line(whole: bytes) -> int:
    for number, line in enumerate(whole.split(b"\n"), 1):
        try:
            _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return number
    return 0


def _check(begin: Begin, groups: dict[str, GroupLine], calls: dict[tuple[str, int], CallLine]) -> None:
    for group in groups.values():
        if len(set(group.ranks)) != len(group.ranks) or not all(0 <= rank < begin.world for rank in group.ranks):
            raise FileError(f"group {group.label!r} has the ranks {list(group.ranks)}, of a program of {begin.world} ranks")
        if begin.rank not in group.ranks:
            raise FileError(f"group {group.label!r} is without the rank {begin.rank} that called in it")
    for label, number in calls:
        if label not in groups or number < 0:
            raise FileError(f"it has a call {number} of a group {label!r} that it does not describe")


def merge(logs: Sequence[RankLog]) -> Recording:
    """Put the records of all ranks together, by the ranks of each group and the number of its collective.

    Raises:
        FileError: two records are of one rank, or they are of different programs.
    """
    world = logs[0].begin.world
    count = Counter(log.begin.rank for log in logs)
    for log in logs:
        if count[log.begin.rank] > 1:
            raise FileError(f"{count[log.begin.rank]} of the records are of rank {log.begin.rank}")
        if log.begin.world != world:
            ranks = f"rank {logs[0].begin.rank} of {world} and rank {log.begin.rank} of {log.begin.world}"
            raise FileError(f"the records are of different runs: {ranks}")
    logs = sorted(logs, key=lambda log: log.begin.rank)
    started = min(log.begin.started for log in logs)
    rows: dict[tuple[tuple[int, ...], str, int], list[Call | None]] = {}
    for log in logs:
        groups = {label: (group.ranks, group.ranks.index(log.begin.rank)) for label, group in log.groups.items()}
        offset = log.begin.started - started
        for (label, number), line in log.calls.items():
            group, position = groups[label]
            row = rows.setdefault((group, label, number), [None] * len(group))
            row[position] = _call(line, log.done.get((label, number)), offset)
    events = [Event(group, label, number, tuple(row)) for (group, label, number), row in rows.items()]
    participants = tuple(Participant(log.begin.rank, log.begin.host, log.begin.torch, log.end) for log in logs)
    backends = sorted({group.backend for log in logs for group in log.groups.values()} - {""})
    absent = tuple(sorted(set(range(world)) - set(count)))
    return Recording(logs[0].begin.program, ", ".join(backends), participants, in_order(events), absent)


def _call(line: CallLine, done: DoneLine | None, offset: float) -> Call:
    got = done.got if done else ()
    seconds = max(0.0, done.at - line.at) if done else None
    return Call(line.name, line.given, got, line.at + offset, seconds, line.reduction, line.root, line.reason, line.place)
