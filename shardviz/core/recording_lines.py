"""What one rank writes while its program runs, line by line as JSON, and how the lines of all ranks become one recording.

A rank's file begins with a `begin` line. A `group` line comes before the first call of each process group, a `call` line before
each collective or message, a `done` line after it, a `gap` line where something could not be seen, and an `end` line when the
program ends, so that a file without one was cut short. Version 1 had no messages, and no gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from shardviz.core.errors import FileError
from shardviz.core.recording import Call, Event, Gap, Participant, Piece, Recording, in_order

__all__ = [
    "VERSION",
    "Begin",
    "CallLine",
    "DoneLine",
    "EndLine",
    "GroupLine",
    "Line",
    "RankLog",
    "lacking",
    "merge",
    "read_lines",
]

VERSION = 2
CUT_SHORT = "is cut short"
BLIND = "it was recorded by a shardviz that saw no messages, no collectives from C++ and none of compiled graphs"


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
    """A collective or a message is about to begin; `number` counts those of its group, each kind by itself."""

    group: str
    number: int
    name: str
    given: tuple[Piece, ...]
    at: float
    reduction: str = ""
    root: int | None = None
    reason: str = ""
    place: str = ""
    module: str = ""
    message: bool = False
    peer: int | None = None
    tag: int = 0
    parts: tuple[int, ...] = ()
    padding: tuple[int, ...] | None = None


class DoneLine(msgspec.Struct, frozen=True, gc=False):
    """What an earlier call line began is done, and this came out; `late` where it was over before somebody looked."""

    group: str
    number: int
    got: tuple[Piece, ...]
    at: float
    message: bool = False
    peer: int | None = None
    late: bool = False


class GapLine(msgspec.Struct, frozen=True, gc=False):
    """Something could not be seen."""

    what: str


class EndLine(msgspec.Struct, frozen=True, gc=False):
    """The program ended; `error` is the exception that ended it."""

    error: str = ""


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line: an object with exactly one of these."""

    begin: Begin | None = None
    group: GroupLine | None = None
    call: CallLine | None = None
    done: DoneLine | None = None
    gap: GapLine | None = None
    end: EndLine | None = None


_Key: TypeAlias = tuple[str, int, bool]


@dataclass(frozen=True)
class RankLog:
    """The lines of one rank, sorted by their kind.

    Attributes:
        begin: its first line.
        groups: by label.
        calls: by group label, number, and whether it is a message.
        done: likewise.
        gaps: what it lacks.
        end: how the record ends, in words; "" where the program came to its end.
    """

    begin: Begin
    groups: dict[str, GroupLine]
    calls: dict[_Key, CallLine]
    done: dict[_Key, DoneLine]
    gaps: tuple[str, ...]
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
    calls = {(line.call.group, line.call.number, line.call.message): line.call for line in lines if line.call}
    done = {(line.done.group, line.done.number, line.done.message): line.done for line in lines if line.done}
    gaps = tuple(line.gap.what for line in lines if line.gap)
    ends = [line.end for line in lines if line.end]
    _check(begin, groups, calls)
    pieces = [piece for call in calls.values() for piece in call.given] + [piece for one in done.values() for piece in one.got]
    if any(size < 0 for piece in pieces for size in piece.shape):
        raise FileError("it has a tensor of a negative size")
    end = CUT_SHORT
    if ends and not rest:
        end = f"ended with {ends[-1].error}" if ends[-1].error else ""
    return RankLog(begin, groups, calls, done, gaps, end)


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


def _check(begin: Begin, groups: dict[str, GroupLine], calls: dict[_Key, CallLine]) -> None:
    for group in groups.values():
        if len(set(group.ranks)) != len(group.ranks) or not all(0 <= rank < begin.world for rank in group.ranks):
            raise FileError(f"group {group.label!r} has the ranks {list(group.ranks)}, of a program of {begin.world} ranks")
        if begin.rank not in group.ranks:
            raise FileError(f"group {group.label!r} is without the rank {begin.rank} that called in it")
    for label, number, _ in calls:
        if label not in groups or number < 0:
            raise FileError(f"it has a call {number} of a group {label!r} that it does not describe")
    for call in calls.values():
        if call.peer is not None and not 0 <= call.peer < begin.world:
            raise FileError(f"it has a message with rank {call.peer}, of a program of {begin.world} ranks")


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
    rows: dict[tuple[object, ...], list[Call | None]] = {}
    for log in logs:
        groups = {label: (group.ranks, group.ranks.index(log.begin.rank)) for label, group in log.groups.items()}
        offset = log.begin.started - started
        messages: Counter[tuple[object, ...]] = Counter()
        for key, line in log.calls.items():
            call = _call(line, log.done.get(key), offset)
            group, position = groups[line.group]
            number = line.number
            if line.message:
                me, peer = log.begin.rank, call.peer
                group = (me,) if peer is None else (me, peer) if call.name == "send" else (peer, me)
                position = 0 if call.name == "send" or peer is None else 1
                alike = (group, line.group, call.tag)
                number = messages[alike]
                messages[alike] += 1
            row = rows.setdefault((group, line.group, number, line.message, call.tag), [None] * len(group))
            row[position] = call
    events = [Event(key[0], key[1], key[2], tuple(row)) for key, row in rows.items()]  # type: ignore[arg-type]
    participants = tuple(Participant(log.begin.rank, log.begin.host, log.begin.torch, log.end) for log in logs)
    backends = sorted({group.backend for log in logs for group in log.groups.values()} - {""})
    absent = tuple(sorted(set(range(world)) - set(count)))
    gaps = tuple(Gap(log.begin.rank, what) for log in logs for what in (*lacking(log.begin.shardviz), *log.gaps))
    return Recording(logs[0].begin.program, ", ".join(backends), participants, in_order(events), absent, gaps)


def lacking(version: int) -> tuple[str, ...]:
    """What records of a version lack without saying so."""
    return (BLIND,) if version == 1 else ()


def _call(line: CallLine, done: DoneLine | None, offset: float) -> Call:
    peer = line.peer if done is None or done.peer is None else done.peer
    return Call(
        name=line.name,
        given=line.given,
        got=done.got if done else (),
        at=line.at + offset,
        seconds=max(0.0, done.at - line.at) if done and not done.late else None,
        reduction=line.reduction,
        root=line.root,
        reason=line.reason,
        place=line.place,
        module=line.module,
        peer=peer,
        tag=line.tag,
        parts=line.parts,
        padding=line.padding,
        finished=done is not None,
    )
