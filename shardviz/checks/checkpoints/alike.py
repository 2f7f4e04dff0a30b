"""Objects of a pickle that are made like those before them: recognised as a whole, instead of operation by operation.

Most of a checkpoint's metadata are thousands of objects of three classes that differ only in numbers and in names that stand
elsewhere. What is made here is what the operations would have made one by one.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from shardviz.checks.checkpoints.made import Made, Name

__all__ = ["BEGIN", "CALLED", "MOST_TRIES", "TUPLES", "Again", "Known", "made_alike"]

TUPLES = {0x85: 1, 0x86: 2, 0x87: 3, 0x74: 0}
"""How many values a tuple takes, by the operation that makes it; the last one takes all above the mark."""


class Again(NamedTuple):
    """An object, the operations that made it, and what they left in the memo: the same operations make the same again."""

    text: bytes
    made: Made
    memo: list[Any]


_Field: TypeAlias = tuple[Any, Any, int, int, dict[tuple[int, ...], Made]]


class _Alike(NamedTuple):
    """The operations of objects of a class that differ only in whole numbers and in what they take from the memo.

    Attributes:
        layout: the operations: stretches of bytes, and between each two a number or a place in the memo.
        same: these stretches.
        wide: whether there are numbers that are read as bytes first.
        fields: per field its key, what its value is (`_TAKEN`, `_NUMBER`, or a class that is called with a tuple of numbers),
            its first number and the one after its last, and what was made by calling the class: the same numbers make the same.
    """

    layout: struct.Struct
    same: tuple[bytes, ...]
    wide: bool
    fields: tuple[_Field, ...]


_TAKEN, _NUMBER = object(), object()
_GET = rb"h.|j.{4}"
_INT = rb"K.|M..|J.{4}|\x8a\x05.{5}|\x8a\x06.{6}"
_TAKE, _COUNT = (re.compile(steps, re.DOTALL) for steps in (_GET, _INT))
_CALL = re.compile(rb"(%b)(\(?)((?:%b)+)([\x85\x86\x87t])\x94\x85\x94R\x94" % (_GET, _INT), re.DOTALL)
BEGIN, _END = b"\x81\x94}\x94(", b"ub"
"""How an object with a state begins, after its class and the empty tuple, and how it ends."""
CALLED = b"\x94\x85\x94R\x94"
"""What follows a tuple with which a class is called."""

_WIDTHS = {0x68: "B", 0x6A: "I", 0x4B: "B", 0x4D: "H", 0x4A: "i"}
"""How `struct` reads the number in an operation; what it cannot is read as bytes first."""

_ENOUGH = 16
"""Objects of a class that differ from the one before, until it is looked whether they are alike."""

_MOST_ALIKE = 8
"""Ways of being alike that are kept per class: numbers that are written in other widths are another way."""

MOST_TRIES = 100
"""Objects of a class that differ from the one before, until it is no longer looked whether they do."""


class Known(Struct, eq=False):
    """What is known of a class's objects: the last one, how they are alike, and how many differed since one did not."""

    again: Again = Again(b"\0", Made(Name("", ""), ()), [])
    ways: list[_Alike] = []
    tries: int = 0

    def see(self, again: Again, memo: list[Any]) -> None:
        """Look at one more object that was made operation by operation."""
        self.again = again
        if self.tries % _ENOUGH == 0 and (way := _learned(again.text, memo)):
            self.ways = [way, *self.ways][:_MOST_ALIKE]
            self.tries = 0


def _learned(text: bytes, memo: list[Any]) -> _Alike | None:
    """What objects made by operations like these have in common; None where it is not only numbers that can differ."""
    if not text.startswith(BEGIN) or not text.endswith(_END):
        return None
    same, widths = [BEGIN], []
    fields: list[_Field] = []

    def differs(step: bytes) -> None:
        begin = 2 if step[0] == 0x8A else 1
        same[-1] += step[:begin]
        same.append(b"")
        widths.append(_WIDTHS.get(step[0]) or f"{len(step) - begin}s")

    at, end = len(BEGIN), len(text) - len(_END)
    while at < end:
        key = _TAKE.match(text, at)
        if not key:
            return None
        same[-1] += key[0]
        at, first = key.end(), len(widths)
        kind: Any
        if call := _CALL.match(text, at):
            numbers, kind = _COUNT.findall(call[3]), memo[_number(call[1])]
            if type(kind) is not Name or TUPLES[call[4][0]] != (0 if call[2] else len(numbers)):
                return None
            same[-1] += call[1] + call[2]
            for step in numbers:
                differs(step)
            same[-1] += call[4] + CALLED
            at = call.end()
        elif one := _TAKE.match(text, at) or _COUNT.match(text, at):
            kind, at = _TAKEN if one.re is _TAKE else _NUMBER, one.end()
            differs(one[0])
        else:
            return None
        fields.append((memo[_number(key[0])], kind, first, len(widths), {}))
    if at != end:
        return None
    same[-1] += _END
    layout = "".join(f"{len(stretch)}s{width}" for stretch, width in zip(same, [*widths, ""], strict=True))
    return _Alike(struct.Struct(f"<{layout}"), tuple(same), "s" in "".join(widths), tuple(fields))


def made_alike(kind: Name, ways: list[_Alike], data: bytes, at: int, memo: list[Any]) -> tuple[Made, int] | None:
    """The object that operations like those before make, and where they end; None where they are not like any."""
    for way in ways:
        layout, same, wide, fields = way
        end = at + layout.size
        if end <= len(data) and (parts := layout.unpack_from(data, at))[::2] == same:
            break
    else:
        return None
    if way is not ways[0]:
        ways.remove(way)
        ways.insert(0, way)
    numbers = parts[1::2]
    if wide:
        numbers = tuple([n if type(n) is int else int.from_bytes(n, "little", signed=True) for n in numbers])
    state: dict[Any, Any] = {}
    made = Made(kind, (), state)
    memo += made, state
    for key, value, first, last, known in fields:
        if value is _TAKEN:
            state[key] = memo[numbers[first]]
        elif value is _NUMBER:
            state[key] = numbers[first]
        else:
            arguments = numbers[first:last]
            called = known.get(arguments)
            if called is None:
                called = known[arguments] = Made(value, (arguments,))
            state[key] = called
            memo += called.args[0], called.args, called
    return made, end


def _number(step: bytes) -> int:
    """The number in an operation that pushes one, or takes from that place in the memo."""
    if step[0] == 0x8A:
        return int.from_bytes(step[2:], "little", signed=True)
    return int.from_bytes(step[1:], "little", signed=step[0] == 0x4A)
