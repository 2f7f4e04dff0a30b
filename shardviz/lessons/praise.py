"""A word for somebody who solved an exercise: short, and true of how they did it."""

from __future__ import annotations

from random import Random

from shardviz.lessons.store import Record

__all__ = ["word_of_praise"]

FIRST = ("At the first try.", "First try, and no hint.", "Straight through.")
ALONE = ("Without a hint.", "You found it yourself.", "No hint was needed.")
STAYED = ("That took staying power.", "You did not let go of it.", "Hard won, and yours.")
HINTED = ("A hint well used.", "The hint was enough.", "You took it from there.")
SHOWN = ("Now in your own cell.", "Reading a solution counts too; can you write it from memory tomorrow?")


def word_of_praise(name: str, record: Record) -> str:
    """A word for an exercise that was just solved, by its record, this attempt included."""
    words: tuple[str, ...]
    if record.peeked:
        words = SHOWN
    elif record.attempts >= 5:
        words = STAYED
    elif record.hints:
        words = HINTED
    else:
        words = FIRST if record.attempts == 1 else ALONE
    return Random(f"{name}/{record.attempts}").choice(words)
