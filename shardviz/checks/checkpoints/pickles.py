"""Pickles read as plain data: nothing that they name is looked up, and nothing is called.

A checkpoint's metadata, and the description of every tensor in its data files, are pickles, which can run anything in whoever
loads them. This reader knows the operations that torch's own pickles are made of. Where a pickle would call a class, it notes
the class's name and the arguments; names outside a given list are refused at once. Work and memory grow with its length.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection
from typing import Any, NamedTuple

from shardviz.core.errors import FileError

__all__ = ["Made", "Name", "read_pickle"]


class Name(NamedTuple):
    """The name of a class or function; it is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Made:
    """What a pickle would make by calling `kind`, with the state that it would give it afterwards."""

    __slots__ = ("args", "kind", "state")

    def __init__(self, kind: Name, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.args = args
        self.state: Any = None


class _Again(NamedTuple):
    """An object, the operations that made it, and what they left in the memo: the same operations make the same again."""

    text: bytes
    made: Made
    memo: list[Any]


class _Alike(NamedTuple):
    """The steps of objects of a class that differ only in whole numbers and in what they take from the memo.

    Attributes:
        steps: matches the operations; its groups are the numbers and the places in the memo.
        fields: per field its key, what its value is (`_TAKEN`, `_NUMBER`, or a class that is called with a tuple of numbers),
            and its first group and the one after its last.
        called: what was made by calling a class with numbers; the same operations make the same again.
    """

    steps: re.Pattern[bytes]
    fields: tuple[tuple[Any, Any, int, int], ...]
    called: dict[tuple[Name, tuple[bytes, ...]], Made]


_TAKEN, _NUMBER = object(), object()
_GET = rb"h.|j.{4}"
_INT = rb"K.|M..|J.{4}|\x8a\x05.{5}|\x8a\x06.{6}"
_TAKE, _COUNT = (re.compile(steps, re.DOTALL) for steps in (_GET, _INT))
_CALL = re.compile(rb"(%b)(\(?)((?:%b)+)([\x85\x86\x87t])\x94\x85\x94R\x94" % (_GET, _INT), re.DOTALL)
_BEGIN, _END = b"\x81\x94}\x94(", b"ub"
_ENOUGH = 16
"""Objects of a class that differ from the one before, until it is looked whether they are alike."""

_NEVER = _Again(b"\0", Made(Name("", ""), ()), [])
_MOST_TRIES = 100
"""Objects of a class that differ from the one before, until it is no longer looked whether they do."""

PERSISTENT = Name("persistent", "id")
"""The kind of a persistent id: in torch's archives the place of a storage."""

_KEYS = {str, int, Made}
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3, 0x74: 0}
"""How many values a tuple takes; the last one takes all above the mark."""
_EMPTY = {ord("}"): dict, ord("]"): list, ord(")"): tuple}


def read_pickle(data: bytes, allowed: Collection[Name]) -> Any:
    """Read a pickle of numbers, texts, tuples, lists, dicts and things made by allowed names (as `Made`).

    Args:
        data: the pickle.
        allowed: names that it may contain.

    Raises:
        FileError: it names something else, holds an operation that torch's pickles do not have, or is damaged.
    """
    try:
        return _read(data, allowed)
    except (IndexError, TypeError, ValueError, AttributeError, struct.error) as error:
        if isinstance(error, FileError):
            raise
        raise FileError("it is damaged or cut short: it ends or goes wrong in the middle of a value") from None


def _read(data: bytes, allowed: Collection[Name]) -> Any:
    # One loop, in which the sequences that make up most of a checkpoint's metadata are one step: a checkpoint has millions of
    # operations, and a step costs more than what it does.
    at = 0
    stack: list[Any] = []
    marks: list[int] = []
    memo: list[Any] = []
    begun: list[tuple[int, int, int]] = []  # objects whose state is not complete: their height, where they begin, the memo then
    last: dict[Name, _Again] = {}
    alikes: dict[Name, _Alike] = {}
    tries: dict[Name, int] = {}
    push, remember = stack.append, memo.append
    while True:
        op = data[at]
        at += 1
        if op == 0x94:  # MEMOIZE
            remember(stack[-1])
        elif op == 0x68:  # BINGET
            push(memo[data[at]])
            at += 1
        elif op == 0x6A:  # LONG_BINGET
            push(memo[int.from_bytes(data[at : at + 4], "little")])
            at += 4
        elif op == 0x29 and data[at : at + 5] == b"\x81\x94}\x94(" and type(stack[-1]) is Name:  # a new object, and its state
            again, alike = last.get(stack[-1], _NEVER), alikes.get(stack[-1])
            if alike and (steps := alike.steps.match(data, at)):
                stack[-1] = _made_alike(stack[-1], alike, steps.groups(), memo)
                at = steps.end()
            elif data.startswith(again.text, at):
                stack[-1] = again.made
                memo += again.memo
                at += len(again.text)
                tries[again.made.kind] = 0
            else:
                made = Made(stack[-1], ())
                tries[made.kind] = tried = tries.get(made.kind, 0) + 1
                if tried < _MOST_TRIES:
                    begun.append((len(stack), at, len(memo)))
                state: dict[Any, Any] = {}
                stack[-1] = made
                push(state)
                memo += made, state
                marks.append(len(stack))
                at += 5
        elif op in (0x8C, 0x58, 0x8D, 0x43, 0x42, 0x8E):  # texts and bytes, by the width of their length
            width = 1 if op in (0x8C, 0x43) else 4 if op in (0x58, 0x42) else 8
            size = int.from_bytes(data[at : at + width], "little")
            at += width
            raw = data[at : at + size]
            at += size
            if len(raw) != size:
                raise FileError("it is cut short in the middle of a text")
            push(raw if op in (0x43, 0x42, 0x8E) else raw.decode("utf-8", "surrogatepass"))
        elif op == 0x4B:  # BININT1
            push(data[at])
            at += 1
        elif op == 0x4D:  # BININT2
            push(data[at] | data[at + 1] << 8)
            at += 2
        elif op == 0x4A:  # BININT
            push(struct.unpack_from("<i", data, at)[0])
            at += 4
        elif op in _TUPLES:
            first = len(stack) - _TUPLES[op] if op != 0x74 else marks.pop()
            if first < 0:
                raise IndexError
            value = tuple(stack[first:])
            if data[at : at + 5] == b"\x94\x85\x94R\x94" and type(stack[first - 1]) is Name and first:  # torch.Size(value)
                remember(value)
                remember((value,))
                stack[first - 1 :] = [Made(stack[first - 1], (value,))]
                remember(stack[-1])
                at += 5
            else:
                stack[first:] = [value]
        elif op == 0x28:  # MARK
            marks.append(len(stack))
        elif op in _EMPTY:
            push(_EMPTY[op]())
        elif op in (0x81, 0x52):  # NEWOBJ, REDUCE
            args = stack.pop()
            kind = stack[-1]
            if type(kind) is not Name or type(args) is not tuple:
                raise FileError("it makes something of what is no class")
            stack[-1] = Made(kind, args)
        elif op == 0x62:  # BUILD
            state = stack.pop()
            made = stack[-1]
            if type(made) is not Made or made.state is not None:
                raise FileError("it changes what it did not make")
            made.state = state
            if begun and begun[-1][0] == len(stack):
                _, first, count = begun.pop()
                last[made.kind] = again = _Again(data[first:at], made, memo[count:])
                if tries[made.kind] % _ENOUGH == 0 and (learned := _learned(again.text, memo)):
                    alikes[made.kind] = learned
        elif op in (0x75, 0x73):  # SETITEMS, SETITEM
            first = marks.pop() if op == 0x75 else len(stack) - 2
            target, items = stack[first - 1], stack[first:]
            keys = items[::2]
            if not _KEYS.issuperset(map(type, keys)):  # others can take for ever to hash
                raise FileError(f"it has a {next(type(key) for key in keys if type(key) not in _KEYS).__name__} for a key")
            if type(target) is not dict or len(items) % 2 or first < 1:
                raise FileError("it is damaged: a dict is expected")
            target.update(zip(keys, items[1::2], strict=True))
            del stack[first:]
        elif op in _CONSTANTS:
            push(_CONSTANTS[op])
        elif op in (0x93, 0x63):  # STACK_GLOBAL, GLOBAL
            if op == 0x93:
                name = Name(*stack[-2:])
                del stack[-2:]
            else:
                middle = data.index(b"\n", at)
                end = data.index(b"\n", middle + 1)
                name = Name(data[at:middle].decode(), data[middle + 1 : end].decode())
                at = end + 1
            if not type(name.module) is type(name.name) is str:
                raise FileError("it is damaged: a name is expected")
            if name not in allowed:
                raise FileError(f"it names {str(name)[:100]!r}, which no checkpoint of torch has; nothing in it was run")
            push(name)
        elif op == 0x61:  # APPEND
            _list_below(stack, len(stack) - 1).append(stack.pop())
        elif op == 0x65:  # APPENDS
            first = marks.pop()
            _list_below(stack, first).extend(stack[first:])
            del stack[first:]
        elif op in (0x71, 0x72):  # BINPUT, LONG_BINPUT
            width = 1 if op == 0x71 else 4
            place = int.from_bytes(data[at : at + width], "little")
            at += width
            if place < len(memo):
                memo[place] = stack[-1]
                last.clear()
                alikes.clear()
            elif place == len(memo):
                remember(stack[-1])
            else:
                raise FileError("it is damaged: it numbers its values out of order")
        elif op == 0x8A:  # LONG1
            size = data[at]
            push(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
            at += 1 + size
        elif op == 0x47:  # BINFLOAT
            push(struct.unpack_from(">d", data, at)[0])
            at += 8
        elif op == 0x51:  # BINPERSID
            stack[-1] = Made(PERSISTENT, (stack[-1],))
        elif op == 0x80:  # PROTO
            at += 1
        elif op == 0x95:  # FRAME
            at += 8
        elif op == 0x2E:  # STOP
            return stack.pop()
        else:
            raise FileError(f"it has the operation {op:#04x} at byte {at - 1}, which torch's pickles do not have")


def _learned(text: bytes, memo: list[Any]) -> _Alike | None:
    """What objects made by operations like these have in common; None where it is not only numbers that can differ."""
    if not text.startswith(_BEGIN) or not text.endswith(_END):
        return None
    steps, fields, first = [re.escape(_BEGIN)], [], 0
    at, end = len(_BEGIN), len(text) - len(_END)
    while at < end:
        key = _TAKE.match(text, at)
        if not key:
            return None
        at = key.end()
        steps.append(re.escape(key[0]))
        kind: Any
        count = 1
        if call := _CALL.match(text, at):
            numbers = _COUNT.findall(call[3])
            count, kind = len(numbers), memo[_number(call[1])]
            if type(kind) is not Name or _TUPLES[call[4][0]] != (0 if call[2] else count):
                return None
            steps += re.escape(call[1] + call[2]), b"(%b)" % _INT * count, re.escape(call[4]), rb"\x94\x85\x94R\x94"
            at = call.end()
        elif taken := _TAKE.match(text, at):
            kind, at = _TAKEN, taken.end()
            steps.append(b"(%b)" % _GET)
        elif number := _COUNT.match(text, at):
            kind, at = _NUMBER, number.end()
            steps.append(b"(%b)" % _INT)
        else:
            return None
        fields.append((memo[_number(key[0])], kind, first, first + count))
        first += count
    return _Alike(re.compile(b"".join((*steps, _END)), re.DOTALL), tuple(fields), {}) if at == end else None


def _made_alike(kind: Name, alike: _Alike, groups: tuple[bytes, ...], memo: list[Any]) -> Made:
    """The object that operations like those before make, and what they leave in the memo."""
    made = Made(kind, ())
    state: dict[Any, Any] = {}
    made.state = state
    memo += made, state
    for key, value, first, end in alike.fields:
        step = groups[first]
        if value is _TAKEN:
            state[key] = memo[int.from_bytes(step[1:], "little")]
        elif value is _NUMBER:
            state[key] = step[1] if step[0] == 0x4B else _number(step)
        else:
            steps = groups[first:end]
            called = alike.called.get((value, steps))
            if called is None:
                called = alike.called[value, steps] = Made(value, (tuple(map(_number, steps)),))
            state[key] = called
            memo += called.args[0], called.args, called
    return made


def _number(step: bytes) -> int:
    """The number in an operation that pushes one, or takes from that place in the memo."""
    if step[0] == 0x8A:
        return int.from_bytes(step[2:], "little", signed=True)
    return int.from_bytes(step[1:], "little", signed=step[0] == 0x4A)


def _list_below(stack: list[Any], first: int) -> list[Any]:
    target = stack[first - 1]
    if type(target) is not list or first < 1:
        raise FileError("it is damaged: a list is expected")
    return target
