"""Whole numbers, whoever made them: Python's integers and numpy's alike."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["whole"]


def whole(value: Any) -> int | None:
    """The whole number that a value is, or None: truth values are no numbers.

    Example:
        >>> whole(3), whole(True), whole("3"), whole(3.0)
        (3, None, None, None)
    """
    if isinstance(value, int):  # most are, and there may be a million of them
        return None if isinstance(value, bool) else int(value)
    try:
        return operator.index(value)
    except TypeError:
        return None
