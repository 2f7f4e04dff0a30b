"""Ranks in a grid with named dimensions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from shardviz.core.errors import SpecError

__all__ = ["LARGEST", "Mesh"]

LARGEST = 1 << 20
"""The most ranks a mesh may have: every rank is described one by one."""


@dataclass(frozen=True, init=False)
class Mesh:
    """Ranks in a grid: named dimensions, their sizes, and the rank at every coordinate.

    Args:
        sizes: mapping of mesh dimension name to size, or the sizes alone (the dimensions are then called `dim0`, `dim1`, …).
        ranks: the rank at every coordinate in row-major order of the coordinates; by default 0, 1, 2, …

    Raises:
        SpecError: no mesh dimension, a size below 1, a name that is not an identifier or stands twice, or `ranks` that do
            not match the number of coordinates.

    Example:
        >>> mesh = Mesh({"dp": 2, "tp": 3})
        >>> mesh.size  # 6 = 2 * 3
        6
        >>> mesh.coordinate(4)  # 4 = 1 * 3 + 1
        (1, 1)
        >>> mesh.groups(1)  # the ranks that differ in tp alone
        ((0, 1, 2), (3, 4, 5))
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]

    def __init__(self, sizes: Mapping[str, int] | Sequence[int], ranks: Sequence[int] | None = None) -> None:
        if isinstance(sizes, Mapping):
            names, counts = tuple(sizes), tuple(sizes.values())
        else:
            counts = tuple(sizes)
            names = tuple(f"dim{i}" for i in range(len(counts)))
        if not counts:
            raise SpecError("a mesh needs at least one dimension, such as {'dp': 2}")
        for name, count in zip(names, counts, strict=True):
            if not (name.isidentifier() and re.fullmatch(r"\w+", name)):  # Python's names have a few more characters
                raise SpecError(f"mesh dimension {name!r}: a name is letters, digits and underscores, such as 'dp' or 'tp'")
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise SpecError(f"mesh dimension {name}={count!r}: its size is a whole number of ranks, 1 or more")
        total = math.prod(counts)
        if total > LARGEST:
            raise SpecError(f"a mesh of {' x '.join(map(str, counts))} has {total} ranks; at most {LARGEST} can be described")
        members = tuple(range(total)) if ranks is None else tuple(ranks)
        if len(members) != total:
            shape = " x ".join(map(str, counts))
            raise SpecError(f"a mesh of {shape} has {total} coordinates, but {len(members)} ranks were given")
        if len(set(members)) != total or any(rank < 0 for rank in members):
            raise SpecError(f"the ranks of a mesh are distinct numbers, 0 or more; got {members}")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "sizes", counts)
        object.__setattr__(self, "ranks", members)

    @property
    def ndim(self) -> int:
        """Number of mesh dimensions."""
        return len(self.sizes)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @cached_property
    def coordinates(self) -> tuple[tuple[int, ...], ...]:
        """Every coordinate, in row-major order: the order of `ranks`."""
        return tuple(product(*map(range, self.sizes)))

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {rank: position for position, rank in enumerate(self.ranks)}

    def position(self, rank: int) -> int:
        """Index of a rank in `ranks`.

        Raises:
            SpecError: the rank is not in the mesh.
        """
        try:
            return self._positions[rank]
        except KeyError:
            raise SpecError(f"rank {rank} is not in the mesh, whose ranks are {self.ranks_text()}") from None

    def coordinate(self, rank: int) -> tuple[int, ...]:
        """Coordinate of a rank, one number per mesh dimension."""
        return self.coordinates[self.position(rank)]

    def groups(self, mesh_dim: int) -> tuple[tuple[int, ...], ...]:
        """The groups along one mesh dimension: ranks whose coordinates differ in that dimension alone."""
        inner = math.prod(self.sizes[mesh_dim + 1 :])
        count = self.sizes[mesh_dim]
        return tuple(
            tuple(self.ranks[outer + step * inner + offset] for step in range(count))
            for outer in range(0, self.size, count * inner)
            for offset in range(inner)
        )

    def ranks_text(self) -> str:
        """The ranks as people write them: `0-3`, or `4-6, 9` where they are no single range."""
        parts: list[list[int]] = []
        for rank in self.ranks:
            if parts and rank == parts[-1][-1] + 1:
                parts[-1][1:] = [rank]
            else:
                parts.append([rank])
        return ", ".join("-".join(map(str, part)) for part in parts)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={count}" for name, count in zip(self.names, self.sizes, strict=True))
        return sizes if self.ranks == tuple(range(self.size)) else f"{sizes} (ranks {self.ranks_text()})"
