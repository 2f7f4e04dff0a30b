"""All exercises, in the order of the notebooks."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from shardviz.core.errors import SpecError
from shardviz.lessons.exercise import Exercise

__all__ = ["IDS", "NOTEBOOKS", "find"]

NOTEBOOKS = {
    1: "start here",
    2: "shards and padding",
    3: "two orders",
    4: "the unshuffle",
    5: "where am I",
    6: "real ranks",
    7: "training when nothing divides",
    8: "the checkpoint that loses a row",
    9: "partial sums and redistribution",
    10: "debug your own model",
    11: "the museum",
}

IDS = (
    "read-the-picture",
    "chunk-sizes",
    "split-and-pad",
    "empty-ranks",
    "fsdp-over-tp",
    "one-label-three-layouts",
    "unpad",
    "unshuffle",
    "find-the-bug",
    "shape-and-offset",
    "explicit-order",
    "owner",
    "bytes-sent",
    "who-is-reported-wrongly",
    "uneven-mean",
    "local-gradients",
    "missing-rows",
    "safe-width",
    "reduce-scatter",
    "byte-budget",
    "biggest-collective",
    "name-the-parameter",
    "diagnose",
)


@cache
def find(name: str) -> Exercise:
    """The exercise of an id.

    Raises:
        SpecError: there is none of that name.
    """
    if name not in IDS:
        raise SpecError(f"there is no exercise {name!r}; there are {', '.join(IDS)}")
    found: Exercise = import_module(f"shardviz.lessons.exercises.{name.replace('-', '_')}").EXERCISE
    return found
