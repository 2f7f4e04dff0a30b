"""Notation that cannot be read, put right as far as can be told: what the hint of an error shows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

__all__ = ["repaired", "repaired_placements"]

_PLACEMENT = re.compile(r"[^\W\d]\w*(?:\s*\([^()]*\)?)?(?:\s*\[\s*\d+\s*\])?")
_NAMED = re.compile(r"([^\W\d]\w*)\s*=\s*(\d+)")
_RANKS = re.compile(r"\(\s*ranks[^)]*\)?")
_MOST = 300
"""The longest text that is put right; of a longer one a hint helps nobody."""

Reads = Callable[[str], object]
"""Reads placements, or raises `ValueError`."""


def repaired(text: str, reads: Reads) -> str:
    """A whole spec with what is missing filled in and what is no placement replaced; "" where nothing can be made of it.

    Args:
        text: what was meant to be a spec.
        reads: whether a text is placements.

    Example:
        >>> def reads(text):
        ...     if not re.fullmatch(r"S\\(\\d\\)|R|_S\\(\\d, \\d\\)", text):
        ...         raise ValueError
        >>> repaired("[7] dp=2, tp=2 _S(0), Row(0)", reads)
        '[7] on dp=2, tp=2: _S(0, 2), S(0)'
    """
    if len(text) > _MOST:
        return ""
    ranks = _RANKS.search(text)
    bare = _RANKS.sub(" ", text)
    colon = bare.find(":")
    named = list(_NAMED.finditer(bare[:colon] if colon >= 0 else bare))
    if named:
        before, after = bare[: named[0].start()], bare[named[-1].end() :]
        sizes = [int(match[2]) for match in named]
        mesh = ", ".join(f"{match[1]}={match[2]}" for match in named)
    else:  # sizes alone
        before, word, rest = bare.partition("on")
        listed, mark, after = rest.partition(":")
        if not word or not mark:
            return ""
        sizes = [int(size) for size in re.findall(r"\d+", listed)]
        mesh = ", ".join(map(str, sizes))
    if not sizes or min(sizes) < 1 or len({match[1] for match in named}) != len(named):
        return ""
    shape = re.findall(r"\d+", before)
    placements = _placements(after, sizes, len(shape), reads)
    where = f" (ranks {ranks[0].strip('()').removeprefix('ranks').strip()})" if ranks else ""
    return f"[{', '.join(shape)}] on {mesh}{where}: {', '.join(placements)}"


def repaired_placements(text: str, reads: Reads) -> str:
    """Placements alone, put right likewise."""
    if len(text) > _MOST:
        return ""
    return ", ".join(_one(word, 2, reads, None) for word in _PLACEMENT.findall(text))


def _placements(text: str, sizes: list[int], ndim: int, reads: Reads) -> list[str]:
    """One placement per mesh dimension: those that are there, and replicas for those that are not."""
    words = _PLACEMENT.findall(text)[: len(sizes)]
    found = [_one(word, math.prod(sizes[place + 1 :]), reads, ndim) for place, word in enumerate(words)]
    return [*found, *["R"] * (len(sizes) - len(found))] if ndim else ["R"] * len(sizes)


def _one(word: str, factor: int, reads: Reads, ndim: int | None) -> str:
    """A placement that can be read, on a dimension that there is: the word itself, or the nearest one."""
    numbers = re.findall(r"-?\d+", word)
    there = not numbers or ndim is None or -ndim <= int(numbers[0]) < ndim
    try:
        reads(word)
    except ValueError:
        there = False
    if there:
        return word
    if not numbers or word[0] in "Pp":
        return "P(sum)" if word[0] in "Pp" else "R"
    dim = numbers[0] if ndim is None or -ndim <= int(numbers[0]) < ndim else "0"
    if word.lstrip("_")[:2].upper() == "SS" or word[0] == "_" or len(numbers) > 1:
        split = numbers[1] if len(numbers) > 1 and int(numbers[1]) > 0 else str(max(factor, 1))
        return f"_S({dim}, {split})"
    return f"S({dim})"
