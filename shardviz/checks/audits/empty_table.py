"""Which operations refuse a tensor of which a rank holds nothing, as `empty_ranks` tried on real ranks, by release of torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Refusal", "refusals", "refusing"]


@dataclass(frozen=True)
class Refusal:
    """What an operation does where the last of four ranks holds nothing.

    Attributes:
        way: "forward" or "backward", whichever raises first.
        raising: the ranks that raise.
        waiting: the ranks that wait for them without end.
        error: what is raised.
    """

    way: str
    raising: tuple[int, ...]
    waiting: tuple[int, ...]
    error: str


@cache
def refusals() -> Mapping[str, Mapping[str, Refusal | None]]:
    """By release, what every operation that was tried comes to; None where it comes through."""
    found = json.loads(files("shardviz.checks.audits").joinpath("empty_ranks.json").read_text("utf-8"))
    return {
        release: {
            name: one and Refusal(one["pass"], tuple(one["raise"]), tuple(one["wait"]), one["error"])
            for name, one in table.items()
        }
        for release, table in found.items()
    }


def refusing(operations: tuple[str, ...]) -> str:
    """Those of some operations that refuse an empty rank, and on which release that was tried, in words.

    Example:
        >>> refusing(("max()", "sum()", "infinity norm"))
        'max() and the infinity norm (tried on torch 2.13.0)'
    """
    release, table = list(refusals().items())[-1]
    found = [
        f"the {name}" if name.endswith("norm") and "," not in name else name.replace(",", " of the")
        for name in operations
        if table.get(name)
    ]
    return f"{', '.join(found[:-1])} and {found[-1]} (tried on torch {release})" if len(found) > 1 else "".join(found)
