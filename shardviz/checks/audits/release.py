"""How the installed torch reports shards: known by its release, or found out by asking it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from shardviz.checks.audits.kinds import Place
from shardviz.checks.audits.lines import Box, Question, Reports, in_sharding_order, left_to_right
from shardviz.core.errors import TorchError

__all__ = ["Release", "ask_torch", "installed_release", "named_release"]

KNOWN = range(10, 16)
"""The minor releases of torch 2 that report from left to right: 2.10 to 2.15."""

RIGHT = (8, 9)
"""The minor releases that report what the ranks hold, in all of 975 swept cases; their reconstruction is another matter."""

SAMPLES = (
    Question(9, (4, 2), (2, 1), True),
    Question(17, (8, 2), (2, 1), True),
    Question(7, (3, 2), (2, 1), True),
    Question(9, (2, 2, 2), (4, 2, 1), True),
    Question(6, (2, 2, 2), (4, 1, 1), True),
    Question(16, (2, 2), (2, 2), True),
    Question(5, (4,), (1,), True),
)
"""Small questions on which the ways of reporting differ."""


@dataclass(frozen=True)
class Release:
    """A torch release: its number, how it reports shards, and in words how that is known."""

    torch: str
    reports: Reports
    known_by: str

    @property
    def gathers_by_size(self) -> bool:
        """Whether it puts tensors together as 2.8 did, by sizes that it believes in."""
        return any(self.torch == f"2.{minor}" or self.torch.startswith(f"2.{minor}.") for minor in RIGHT)


def installed_release() -> Release:
    """The installed torch; one that shardviz knows is not even imported.

    Raises:
        TorchError: no torch is installed, or it has not the function that would be asked.
    """
    try:
        torch = version("torch").partition("+")[0]
    except PackageNotFoundError as error:
        raise TorchError("no torch is installed here: name the release that the job runs on (--torch 2.13)") from error
    return release(torch)


def named_release(torch: str) -> Release:
    """A release by its number, such as "2.13"; it need not be installed.

    Raises:
        TorchError: how it reports is not known, and it is not the installed one, which could be asked.
    """
    number = re.fullmatch(r"2\.(\d+)(\.\d+)?(\+.*)?", torch)
    try:
        installed = version("torch").partition("+")[0]
    except PackageNotFoundError:
        installed = "none"
    if torch != installed and not (number and int(number[1]) in (*RIGHT, *KNOWN)):
        known = f"2.{RIGHT[0]} to 2.{KNOWN[-1]}"
        raise TorchError(f"torch {torch!r}: how it reports is known of {known}, and of the installed one ({installed})")
    return release(torch)


def release(torch: str) -> Release:
    """The same for a version number; one that is not known is asked of the installed torch."""
    number = re.fullmatch(r"2\.(\d+)(\.\d+)?", torch.partition("+")[0])
    if number and int(number[1]) in KNOWN:
        return Release(torch, left_to_right, "arithmetic")
    if number and int(number[1]) in RIGHT:
        return Release(
            torch, in_sharding_order, f"arithmetic of shapes and offsets, which torch 2.{number[1]} reports as they are"
        )
    asked = [(one, ask_torch(one)) for one in SAMPLES]
    count = sum(len(found) for _, found in asked)
    how = f"arithmetic; shardviz does not know torch {torch}: asked at {count} sample coordinates"
    ways: tuple[tuple[Reports, str], ...] = (
        (left_to_right, "it reports from left to right, as 2.10 to 2.15 do"),
        (in_sharding_order, "it reports what the ranks hold"),
    )
    for reports, words in ways:
        if all(found == reports(one) for one, found in asked):
            return Release(torch, reports, f"{how}, {words}")
    return Release(torch, ask_torch, f"{how}, it reports in a way of its own, so it was asked at every coordinate")


def ask_torch(asked: Question) -> Mapping[Place, Box]:
    """Torch's own report at every place."""
    from shardviz.tensors.reported import shape_and_offset_at

    ask, spec = shape_and_offset_at(asked.spec), asked.spec
    found = {}
    for place in spec.mesh.coordinates:
        shape, offset = ask(place)
        found[place] = Box(int(shape[0]), int(offset[0]))
    return found
