"""Ranks in a grid with named dimensions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from shardviz.core.errors import SpecError
from shardviz.core.notation import LARGEST, read_mesh
from shardviz.core.whole import whole

__all__ = ["LARGEST", "Mesh", "as_mesh"]


@dataclass(frozen=True, init=False)
class Mesh:
    """Ranks in a grid: named dimensions, their sizes, and the rank at every coordinate.

    Args:
        sizes: mapping of mesh dimension name to size; the same as text, `"dp=2, tp=3"`; or the sizes alone (the dimensions are
            then called `dim0`, `dim1`, …).
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

    def __init__(self, sizes: Mapping[str, int] | Sequence[int] | str, ranks: Sequence[int] | None = None) -> None:
        if isinstance(sizes, str):
            written = read_mesh(sizes)
            if ranks is not None and written.ranks is not None:
                raise SpecError(f"the ranks of the mesh {sizes!r} are given twice")
            ranks = written.ranks if ranks is None else ranks
            sizes = dict(zip(written.names, written.sizes, strict=True)) if written.names else written.sizes
        if not isinstance(sizes, Iterable):
            raise SpecError(f"the mesh {sizes!r}: sizes by name are expected, such as {{'dp': 2, 'tp': 2}} or 'dp=2, tp=2'")
        if isinstance(sizes, Mapping):
            names, given = tuple(sizes), tuple(sizes.values())
        else:
            given = tuple(sizes)
            names = tuple(f"dim{i}" for i in range(len(given)))
        if not given:
            raise SpecError("a mesh needs at least one dimension, such as {'dp': 2}")
        counts: list[int] = []
        for name, size in zip(names, given, strict=True):
            # Python's names have a few more characters.
            if not isinstance(name, str) or not (name.isidentifier() and re.fullmatch(r"\w+", name)):
                raise SpecError(f"mesh dimension {name!r}: a name is letters, digits and underscores, such as 'dp' or 'tp'")
            count = whole(size)
            if count is None or count < 1:
                raise SpecError(f"mesh dimension {name}={size!r}: its size is a whole number of ranks, 1 or more")
            counts.append(count)
        total = math.prod(counts)
        if total > LARGEST:
            raise SpecError(f"a mesh of {' x '.join(map(str, counts))} has {total} ranks; at most {LARGEST} can be described")
        asked: Any = ranks
        if ranks is not None and (isinstance(asked, str) or not isinstance(asked, Iterable)):
            raise SpecError(f"the ranks of a mesh are one number per coordinate, such as (4, 5); got {ranks!r}")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "sizes", tuple(counts))
        object.__setattr__(self, "ranks", tuple(range(total)) if ranks is None else _members(ranks, tuple(counts)))

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
        except (KeyError, TypeError):
            raise SpecError(f"rank {rank} is not in the mesh, whose ranks are {self.ranks_text()}") from None

    def coordinate(self, rank: int) -> tuple[int, ...]:
        """Coordinate of a rank, one number per mesh dimension."""
        return self.coordinates[self.position(rank)]

    def groups(self, mesh_dim: int) -> tuple[tuple[int, ...], ...]:
        """The groups along one mesh dimension: ranks whose coordinates differ in that dimension alone.

        Raises:
            SpecError: there is no such mesh dimension.
        """
        if mesh_dim not in range(self.ndim):
            raise SpecError(f"the mesh {self} has no dimension {mesh_dim!r}; there are 0 to {self.ndim - 1}")
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


def as_mesh(given: Any) -> Mesh:
    """A mesh from all that is taken for one: itself, sizes by name as a mapping or as text, sizes alone, torch's `DeviceMesh`.

    Raises:
        SpecError: it is none of these.

    Example:
        >>> as_mesh("dp=2, tp=3") == as_mesh({"dp": 2, "tp": 3}), as_mesh((2, 3)).names
        (True, ('dim0', 'dim1'))
    """
    if isinstance(given, Mesh):
        return given
    if not hasattr(given, "mesh_dim_names"):
        return Mesh(given)
    members = given.mesh  # a tensor, which torch makes anew at every look
    sizes = tuple(members.shape)
    names = given.mesh_dim_names or tuple(f"dim{i}" for i in range(len(sizes)))
    return Mesh(dict(zip(names, sizes, strict=True)), members.flatten().tolist())


def _members(ranks: Sequence[object], counts: Sequence[int]) -> tuple[int, ...]:
    """The ranks that were given, one per coordinate."""
    listed, total = tuple(ranks), math.prod(counts)
    if len(listed) != total:
        shape = " x ".join(map(str, counts))
        raise SpecError(f"a mesh of {shape} has {total} coordinates, but {len(listed)} ranks were given")
    members = tuple(rank for rank in map(whole, listed) if rank is not None and rank >= 0)
    if len(set(members)) != total:
        raise SpecError(f"the ranks of a mesh are distinct numbers, 0 or more; got {listed}")
    return members
