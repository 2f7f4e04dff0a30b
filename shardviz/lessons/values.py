"""Answers as plain values: made plain, compared with the target, and told in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

__all__ = ["Opaque", "call_text", "differing", "open_parts", "plain", "same", "value_text"]

LONGEST = 160
"""The most characters of a value that are shown."""


@dataclass(frozen=True)
class Opaque:
    """A value of a kind that no exercise asks for, by the words for it."""

    words: str


def plain(value: Any) -> Any:
    """An answer in lists, dicts, sets, numbers, text, `None` and `...`; whatever else it is, in words.

    Tuples and ranges become lists, arrays and tensors what they are made of.

    Example:
        >>> plain(((1, 2), range(2))), plain({(0, 1): [3]}), plain(object)
        ([[1, 2], [0, 1]], {(0, 1): [3]}, Opaque(words='a type'))
    """
    if value is None or value is ... or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    if isinstance(value, Set):
        return frozenset(_key(item) for item in value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "__index__"):
        return value.__index__()
    return Opaque(_article(type(value).__name__))


def same(target: Any, yours: Any) -> bool:
    """Whether a plain answer is the target; where the target is a set, the order of a list does not matter.

    Example:
        >>> same([2, 0], [2, 0]), same({2, 0}, [0, 2]), same(0.3, 0.1 + 0.2), same(1, True)
        (True, True, True, False)
    """
    if isinstance(target, Set):
        return isinstance(yours, Set | list) and len(set(map(_key, yours))) == len(yours) and target == set(map(_key, yours))
    if isinstance(target, list | tuple):
        return isinstance(yours, list) and len(target) == len(yours) and all(map(same, target, yours))
    if isinstance(target, Mapping):
        return isinstance(yours, Mapping) and target.keys() == yours.keys() and all(same(target[k], yours[k]) for k in target)
    if isinstance(target, float) or isinstance(yours, float):
        numbers = isinstance(target, int | float) and isinstance(yours, int | float)
        return numbers and math.isclose(target, yours, rel_tol=1e-9, abs_tol=1e-12)
    return isinstance(target, bool) == isinstance(yours, bool) and bool(target == yours)


def open_parts(answer: Any) -> list[str] | None:
    """Which parts of an answer are still `...`: their names, None where it is all of them or nothing was answered.

    Example:
        >>> open_parts({"holder": 3, "empty": ...}), open_parts([..., ...]), open_parts([1, 2])
        (['empty'], None, [])
    """
    if answer is None or answer is ...:
        return None
    if not isinstance(answer, Mapping | list):
        return []
    parts = answer if isinstance(answer, Mapping) else dict(enumerate(answer))
    still = [str(name) for name, part in parts.items() if part is ... or (isinstance(part, list) and ... in part)]
    return None if still and len(still) == len(parts) else still


def differing(target: Any, yours: Any) -> str:
    """Where an answer first differs from the target, in a sentence.

    Example:
        >>> differing([2, 2, 1, 0], [2, 1, 1, 1])
        'Entry 1 should be 2 and is 1.'
        >>> differing([[0, 1], [2]], [[0, 1]])
        'It should have 2 entries and has 1.'
        >>> differing({(0, 1): [3]}, {(0, 1): [2]})
        'At (0, 1) should be [3] and is [2].'
    """
    if yours is None:
        return "It returned None: is a `return` missing?"
    if isinstance(yours, Opaque):
        return f"{yours.words[0].upper()}{yours.words[1:]} came, where {_kind(target)} was expected."
    if isinstance(target, Mapping):
        return _differing_keys(target, yours)
    if isinstance(target, Set):
        return f"{value_text(yours)} is not it." if isinstance(yours, Set | list) else _expected(target, yours)
    if isinstance(target, Sequence) and not isinstance(target, str):
        return _differing_entries(target, yours)
    if isinstance(target, bool) != isinstance(yours, bool) or isinstance(yours, list | Mapping | Set):
        return _expected(target, yours)
    return f"It should be {value_text(target)} and is {value_text(yours)}."


def not_it(target: Any, yours: Any) -> str:
    """That a value is not right, without telling what would be; where it is of another kind, which kind is expected.

    Example:
        >>> not_it(3, 2), not_it(55, "train.py:55"), not_it(frozenset({4}), 4)
        ('not 2', "not 'train.py:55': a whole number was expected", 'not 4: a list was expected')
    """
    kinds = [_kind(target), _kind(yours)]
    alike = kinds[0] == kinds[1] or {int, float} >= {type(target), type(yours)}
    return f"not {value_text(yours)}" + ("" if alike else f": {kinds[0]} was expected")


def value_text(value: Any) -> str:
    """A value as Python writes it, cut where it is long.

    Example:
        >>> value_text([0, None]), value_text({3, 1}), value_text(Opaque("a generator"))
        ('[0, None]', '{1, 3}', 'a generator')
    """
    text = _written(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def call_text(name: str, arguments: Sequence[Any]) -> str:
    """A call as Python writes it."""
    return f"{name}({', '.join(map(value_text, arguments))})"


def _written(value: Any) -> str:
    if isinstance(value, Opaque):
        return value.words
    if isinstance(value, Set):
        return "{" + ", ".join(map(_written, sorted(value, key=repr))) + "}" if value else "nothing"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_written, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_written(k)}: {_written(v)}" for k, v in value.items()) + "}"
    return "..." if value is ... else repr(value)


def _differing_keys(target: Mapping[Any, Any], yours: Any) -> str:
    if not isinstance(yours, Mapping):
        return _expected(target, yours)
    missing = [key for key in target if key not in yours]
    if missing:
        return f"There is no entry for {value_text(missing[0])}; the keys should be {value_text(list(target))}."
    extra = [key for key in yours if key not in target]
    if extra:
        return f"{value_text(extra[0])} is no key of the answer; the keys should be {value_text(list(target))}."
    wrong = [key for key in target if not same(target[key], yours[key])]
    return f"At {value_text(wrong[0])} should be {value_text(target[wrong[0]])} and is {value_text(yours[wrong[0]])}."


def _differing_entries(target: Sequence[Any], yours: Any) -> str:
    if not isinstance(yours, list):
        return _expected(target, yours)
    if len(target) != len(yours):
        return f"It should have {len(target)} {'entry' if len(target) == 1 else 'entries'} and has {len(yours)}."
    place = next(place for place, pair in enumerate(zip(target, yours, strict=True)) if not same(*pair))
    return f"Entry {place} should be {value_text(target[place])} and is {value_text(yours[place])}."


def _expected(target: Any, yours: Any) -> str:
    return f"{_kind(target)[0].upper()}{_kind(target)[1:]} was expected, and this is {value_text(yours)}."


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    names = {bool: "True or False", int: "a whole number", float: "a number", str: "text", list: "a list", tuple: "a list"}
    return names.get(type(value), "a dict" if isinstance(value, Mapping) else "a list")


def _key(value: Any) -> Any:
    """A value that can stand in a set: lists become tuples."""
    made = plain(value)
    return tuple(map(_key, made)) if isinstance(made, list) else repr(made) if isinstance(made, dict) else made


def _article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeio' else 'a'} {noun}"
