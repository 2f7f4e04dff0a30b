"""What the reader of pickles finds where a pickle would call something: its name and its arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

__all__ = ["Made", "Name"]


class Name(NamedTuple):
    """The name of a class or function; it is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Made(Struct, eq=False):
    """What a pickle would make by calling `kind`, with the state that it would give it afterwards."""

    kind: Name
    args: tuple[Any, ...]
    state: Any = None
