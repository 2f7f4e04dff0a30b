"""Pickles read as plain data: nothing that they name is looked up, and nothing is called.

A checkpoint's metadata, and the description of every tensor in its data files, are pickles, which can run anything in whoever
loads them. This reader knows the operations that torch's own pickles are made of. Where a pickle would call a class, it notes
the class's name and the arguments; names outside a given list are refused at once. Work and memory grow with its length.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from shardviz.checks.checkpoints.alike import BEGIN, CALLED, MOST_TRIES, TUPLES, Again, Known, made_alike
from shardviz.checks.checkpoints.made import Made, Name
from shardviz.core.errors import FileError

__all__ = ["Made", "Name", "read_pickle"]

_LONG = struct.Struct("<I")

PERSISTENT = Name("persistent", "id")
"""The kind of a persistent id: in torch's archives the place of a storage."""

_KEYS = {str, int, Made}
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
_TEXTS = {0x8C: 1, 0x58: 4, 0x8D: 8, 0x43: 1, 0x42: 4, 0x8E: 8}
"""Texts, and the last three bytes, by the width of their length."""
_BYTES = {0x43, 0x42, 0x8E}
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
    classes: dict[Name, Known] = {}
    push, remember, long = stack.append, memo.append, _LONG.unpack_from
    while True:
        op = data[at]
        at += 1
        if op in (0x68, 0x6A):  # BINGET, LONG_BINGET
            if op == 0x68:
                push(memo[data[at]])
                at += 1
            else:
                push(memo[long(data, at)[0]])
                at += 4
            if data[at] != 0x29:
                continue
            op = 0x29  # of the class that was taken comes an object
            at += 1
        if op == 0x94:  # MEMOIZE
            remember(stack[-1])
        elif op == 0x29 and data.startswith(BEGIN, at) and type(stack[-1]) is Name:  # a new object, and its state
            kind = stack[-1]
            known = classes.get(kind) or classes.setdefault(kind, Known())
            if known.ways and (like := made_alike(kind, known.ways, data, at, memo)):
                stack[-1], at = like
            elif data.startswith(known.again.text, at):
                text, stack[-1], left = known.again
                memo += left
                at += len(text)
                known.tries = 0
            else:
                made = Made(kind, ())
                known.tries += 1
                if known.tries < MOST_TRIES:
                    begun.append((len(stack), at, len(memo)))
                state: dict[Any, Any] = {}
                stack[-1] = made
                push(state)
                memo += made, state
                marks.append(len(stack))
                at += 5
        elif op in _TEXTS:
            width = _TEXTS[op]
            size = data[at] if width == 1 else int.from_bytes(data[at : at + width], "little")
            at += width + size
            raw = data[at - size : at]
            if len(raw) != size:
                raise FileError("it is cut short in the middle of a text")
            push(raw if op in _BYTES else raw.decode("utf-8", "surrogatepass"))
            if data[at] == 0x94:
                remember(stack[-1])
                at += 1
        elif op == 0x4B:  # BININT1
            push(data[at])
            at += 1
        elif op == 0x4D:  # BININT2
            push(data[at] | data[at + 1] << 8)
            at += 2
        elif op == 0x4A:  # BININT
            push(struct.unpack_from("<i", data, at)[0])
            at += 4
        elif op in TUPLES:
            first = len(stack) - TUPLES[op] if op != 0x74 else marks.pop()
            if first < 0:
                raise IndexError
            value = tuple(stack[first:])
            if first and type(stack[first - 1]) is Name and data.startswith(CALLED, at):  # torch.Size(value)
                remember(value)
                remember((value,))
                stack[first - 1 :] = [Made(stack[first - 1], (value,))]
                remember(stack[-1])
                at += 5
            else:
                stack[first:] = [value]
                if data[at] == 0x94:
                    remember(value)
                    at += 1
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
                known = classes.get(made.kind) or classes.setdefault(made.kind, Known())
                known.see(Again(data[first:at], made, memo[count:]), memo)
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
                classes.clear()
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


def _list_below(stack: list[Any], first: int) -> list[Any]:
    target = stack[first - 1]
    if type(target) is not list or first < 1:
        raise FileError("it is damaged: a list is expected")
    return target
