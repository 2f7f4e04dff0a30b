"""Entries that lie on the same bytes: at most one of them is what it should be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.metadata import Place

__all__ = ["shared_bytes"]


def shared_bytes(entries: Iterable[tuple[str, Place]]) -> Iterator[str]:
    """What to say of each entry that begins before the one before it in its file ends; empty entries share nothing.

    Example:
        >>> places = [("a", Place("f", 0, 8)), ("b", Place("f", 4, 8)), ("c", Place("f", 12, 8)), ("d", Place("g", 0, 8))]
        >>> list(shared_bytes(places))
        ['a and b lie on the same bytes of f, 4 to 7: one of them is not what it should be']
    """
    placed = sorted((place.file, place.start, place.start + place.length, name) for name, place in entries if place.length)
    last = ("", 0, 0, "")
    for entry in placed:
        file, start, end, name = entry
        if file == last[0] and start < last[2]:
            shared = f"{start} to {min(end, last[2]) - 1}"
            both = f"{shown(last[3])} and {shown(name)} lie on the same bytes of {shown(file)}, {shared}"
            yield f"{both}: one of them is not what it should be"
        if file != last[0] or end > last[2]:
            last = entry
