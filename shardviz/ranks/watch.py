"""Inside a rank: its collectives of the current call go to a file, which explains a call that fails."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from shardviz.ranks.line_file import LineFile
from shardviz.ranks.listening import listening
from shardviz.ranks.tape import Tape

__all__ = ["begin", "turn_page"]


@dataclass(frozen=True)
class _Watch:
    file: LineFile
    tape: Tape
    listening: ExitStack  # it would end with the last reference to it


_watches: list[_Watch] = []


def begin(path: str, rank: int, n: int) -> None:
    """Watch the collectives of this process, for the rest of its life."""
    file = LineFile(path, lambda _: None)
    tape = Tape(file, rank, n)
    context = ExitStack()
    context.enter_context(listening(tape))
    _watches.append(_Watch(file, tape, context))


def turn_page() -> None:
    """Forget the collectives of the last call."""
    for watch in _watches:
        watch.file.clear()
        watch.tape.begin()
