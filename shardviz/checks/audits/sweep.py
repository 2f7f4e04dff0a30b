"""A map of good and bad meshes: the same parameters on every mesh of a range."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from shardviz.checks.audits.coverage import Coverage
from shardviz.checks.audits.kinds import ERRORS, Place
from shardviz.checks.audits.parameter import findings_of
from shardviz.checks.audits.release import Release
from shardviz.checks.audits.subjects import Subject
from shardviz.core.errors import SpecError
from shardviz.picture.picture import Picture
from shardviz.picture.scene_meshes import MeshMap, draw_meshes

__all__ = ["SIGNS", "Sweep", "read_sweep", "sweep"]

MESHES = 10_000
"""The most meshes of one map."""

SIGNS: Mapping[str, str] = {
    "checkpoint-loses-elements": "L",
    "checkpoint-refused": "R",
    "load-shifts-rows": "s",
    "load-refused": "l",
    "pretrained-refused": "p",
    "checkpoint-unloadable": "u",
    "full-tensor-wrong": "f",
    "export-wrong-shape": "x",
    "forward-refused": "w",
    "train-refused": "T",
    "sharding-refused": "X",
    "ranks-disagree": "d",
}
"""A letter for every kind of error; a mesh shows the first of them that it has."""

GOOD = "·"
WORDS = {
    "·": "nothing is wrong",
    "p": "transformers' from_pretrained is refused",
    "w": "the forward pass is refused",
    "L": "a checkpoint loses rows silently",
    "R": "no checkpoint can be saved",
}


@dataclass(frozen=True)
class Sweep:
    """The kinds of errors on every mesh of a range.

    Attributes:
        torch: the release.
        names: the mesh dimensions that vary.
        sizes: the sizes of each.
        kinds: per mesh, in row-major order of the sizes, its kinds of errors, gravest first.
        coverage: how many parameters were checked, on the mesh where they were fewest.
        reading: how the meshes were read, in words.
    """

    torch: str
    names: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]
    kinds: Mapping[Place, tuple[str, ...]]
    coverage: Coverage
    reading: str = ""

    @property
    def bad(self) -> tuple[tuple[int, ...], ...]:
        """The meshes that have errors."""
        return tuple(sizes for sizes, kinds in self.kinds.items() if kinds)

    @property
    def errors(self) -> int:
        """How many meshes have errors."""
        return len(self.bad)

    def sign(self, sizes: tuple[int, ...]) -> str:
        """The letter of a mesh: what is lost silently comes first."""
        return next((letter for kind, letter in SIGNS.items() if kind in self.kinds[sizes]), GOOD)

    @property
    def ok(self) -> bool:
        """Whether everything was checked and nothing is wrong on any mesh."""
        return not self.bad and self.coverage.complete

    def __bool__(self) -> bool:
        return not self.ok

    @property
    def _premises(self) -> list[str]:
        said = (("read as", self.reading), ("covered", self.coverage.text))
        return [f"{what}: {words}" for what, words in said if words]

    @property
    def text(self) -> str:
        """The map: one row per size of the first dimension (one map per combination of those between), the last across."""
        lines = [f"torch {self.torch}: errors on {self.errors} of {len(self.kinds)} meshes"]
        lines += self._premises
        *outer, last = self.sizes
        width = max(len(str(size)) for size in last) + 1
        label = max(len(self._label(place)) for place in product(*outer))
        lines.append(f"{'':{label}} {self.names[-1]} " + "".join(f"{size:>{width}}" for size in last))
        for place in product(*outer):
            row = "".join(f"{self.sign((*place, size)):>{width}}" for size in last)
            lines.append(f"{self._label(place):{label}} {'':{len(self.names[-1])}} {row}")
        used = sorted({self.sign(sizes) for sizes in self.kinds}, key=[GOOD, *SIGNS.values()].index)
        return "\n".join([*lines, *(f"{letter} {self.meaning(letter)}" for letter in used)])

    def _label(self, place: Sequence[int]) -> str:
        return ", ".join(f"{name}={size}" for name, size in zip(self.names, place, strict=False))

    def __str__(self) -> str:
        return self.text

    def draw(self) -> Picture:
        """The map as a picture."""
        signs = {sizes: self.sign(sizes) for sizes in self.kinds}
        used = sorted(set(signs.values()), key=[GOOD, *SIGNS.values()].index)
        legend = tuple((sign, self.meaning(sign), sum(one == sign for one in signs.values())) for sign in used)
        title = f"Errors on {self.errors:,} of {len(self.kinds):,} meshes"
        premises = (f"torch {self.torch}, by arithmetic", *self._premises)
        return draw_meshes(MeshMap(title, premises, self.names, self.sizes, signs, GOOD, legend), self.text)

    @staticmethod
    def meaning(sign: str) -> str:
        """What a letter stands for, in words."""
        names = {letter: kind for kind, letter in SIGNS.items()}
        return WORDS.get(sign) or names[sign].replace("-", " ")

    def _repr_mimebundle_(self, **given: object) -> dict[str, str]:
        return self.draw()._repr_mimebundle_(**given)

    def json(self) -> dict[str, object]:
        """The map as plain data."""
        meshes = [{"mesh": dict(zip(self.names, s, strict=True)), "kinds": list(kinds)} for s, kinds in self.kinds.items()]
        return {
            "torch": self.torch,
            "meshes": meshes,
            "errors": self.errors,
            "coverage": self.coverage.json(),
            "reading": self.reading,
        }


def read_sweep(text: str) -> dict[str, Sequence[int]]:
    """Ranges by mesh dimension: `"dp=1..16, tp=1..8"`, or lists `"tp=2|4|8"`, or single sizes.

    Raises:
        SpecError: with the part that is no range.

    Example:
        >>> read_sweep("dp=1..3, tp=2|4")
        {'dp': range(1, 4), 'tp': (2, 4)}
    """
    found: dict[str, Sequence[int]] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*=\s*(?:(\d{1,12})\.\.(\d{1,12})|(\d{1,12}(?:\|\d{1,12})*))\s*", part)
        sizes = _sizes(match) if match else ()
        if not match or not sizes or (sizes[0] if isinstance(sizes, range) else min(sizes)) < 1:
            raise SpecError(f"the sweep {text!r}: {part.strip()!r} is no range of sizes; right would be 'dp=1..16, tp=1..8'")
        found[match[1]] = sizes
    return found


def _sizes(match: re.Match[str]) -> Sequence[int]:
    return range(int(match[2]), int(match[3]) + 1) if match[2] else tuple(map(int, match[4].split("|")))


def sweep(
    subject: Callable[[Mapping[str, int]], Subject],
    ranges: Mapping[str, Sequence[int]],
    release: Release,
    progress: Callable[[Sequence[Place]], Iterable[Place]] = iter,
    reading: str = "",
) -> Sweep:
    """Audit on every mesh of a range.

    Args:
        subject: what there is to audit on a mesh of given sizes.
        ranges: sizes by mesh dimension.
        release: how torch reports.
        progress: goes through the meshes, and may tell how far it is.
        reading: how the meshes were read, in words.

    Raises:
        SpecError: these are more meshes than a map can show.
    """
    count = math.prod(map(len, ranges.values()))
    if count > MESHES:
        hint = "narrow the ranges, or list sizes (tp=2|4|8)"
        raise SpecError(f"a sweep over {count:,} meshes; a map shows at most {MESHES:,}: {hint}")
    names, sizes = tuple(ranges), tuple(tuple(one) for one in ranges.values())
    kinds, coverage = {}, Coverage(0)
    for place in progress(list(product(*sizes))):
        asked = subject(dict(zip(names, place, strict=True)))
        found = {finding.kind for _, finding in asked.extra if finding.severity == "error"}
        for spec in {spec for _, spec in asked.specs}:
            found |= {finding.kind for finding in findings_of(spec, release.reports) if finding.severity == "error"}
        kinds[place] = tuple(sorted(found, key=ERRORS.index))
        coverage = max(coverage, asked.coverage, key=lambda one: (len(one.unknown), one.total))
    return Sweep(release.torch, names, sizes, kinds, coverage, reading)
