"""What a verdict covers: how many parameters were placed, by whose word, and which were not checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SHOWN = 3
"""The most names of what was not checked that a sentence lists."""


@dataclass(frozen=True)
class Coverage:
    """How much of a model a verdict is about.

    Attributes:
        total: parameters there are.
        by: who says how they are cut, in words; "" where each is what it was asked about as.
        unknown: names of those of which nobody says how they are cut: they were not checked.
        why: why not, in words.
        gaps: what else was left out, in sentences.

    Example:
        >>> print(Coverage(7, "the usual rules by name", ("a.weight",), "matched no rule").text)
        6 of 7 parameters placed by the usual rules by name; 1 of 7 matched no rule and was *not checked*: a.weight
    """

    total: int
    by: str = ""
    unknown: tuple[str, ...] = ()
    why: str = ""
    gaps: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything was checked."""
        return not self.unknown

    @property
    def checked(self) -> int:
        """How many parameters were checked."""
        return self.total - len(self.unknown)

    @property
    def text(self) -> str:
        """In one line."""
        parts = [f"{self.checked} of {self.total} parameters placed by {self.by}"] if self.by else []
        if self.unknown:
            names = ", ".join(self.unknown[:SHOWN]) + (", …" if len(self.unknown) > SHOWN else "")
            was = "was" if len(self.unknown) == 1 else "were"
            parts.append(f"{len(self.unknown)} of {self.total} {self.why} and {was} *not checked*: {names}")
        return "; ".join([*parts, *self.gaps])

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "parameters": self.total,
            "checked": self.checked,
            "by": self.by,
            "unknown": list(self.unknown),
            "why": self.why,
            "gaps": list(self.gaps),
        }
