"""A mesh that exists only as numbers: which dimensions carry data, which the model, and what FSDP2 makes of a parameter."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from shardviz.core.errors import SpecError
from shardviz.core.mesh import Mesh
from shardviz.core.notation import read_placements
from shardviz.core.placements import Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec

__all__ = ["Grid", "read_mesh"]

REPLICATING = ("dp_replicate", "replicate", "rep", "ddp", "hsdp")
SHARDING = ("dp", "dp_shard", "fsdp", "shard", "data", "cp", "dp_cp", "dp_shard_cp")
"""Mesh dimensions over which FSDP2 shards, flattened into one; every other name is the model's: tp, ep, …"""


def read_mesh(given: str | Mapping[str, int] | Mesh) -> Mesh:
    """A mesh from `"dp=4, tp=2"`, from a mapping, or as it is.

    Raises:
        SpecError: text that is no list of name=size.
    """
    if isinstance(given, Mesh):
        return given
    if not isinstance(given, str):
        return Mesh(given)
    sizes: dict[str, int] = {}
    for part in given.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part)
        if not match or match[1] in sizes:
            raise SpecError(f"the mesh {given!r}: {part.strip()!r} is no new name=size; right would be 'dp=4, tp=2'")
        sizes[match[1]] = int(match[2])
    return Mesh(sizes)


@dataclass(frozen=True)
class Grid:
    """A mesh as FSDP2 sees it: at most one replicating and one sharding dimension, and the model's dimensions behind them.

    Attributes:
        mesh: with those dimensions, and the ranks where they really are.
        data: how many of its leading dimensions are FSDP2's.
    """

    mesh: Mesh
    data: int

    @classmethod
    def of(cls, given: str | Mapping[str, int] | Mesh) -> Grid:
        """Sort the dimensions of a mesh by their names, and flatten those over which FSDP2 shards (dp_shard × cp).

        Example:
            >>> print(Grid.of("dp_replicate=2, dp_shard=2, cp=2, tp=2").mesh)
            dp_replicate=2, dp_shard_cp=4, tp=2
        """
        mesh = read_mesh(given)
        kinds = [0 if name in REPLICATING else 1 if name in SHARDING else 2 for name in mesh.names]
        groups = [[m for m, kind in enumerate(kinds) if kind == wanted] for wanted in (0, 1)]
        joined = [group for group in (*groups, *([m] for m, kind in enumerate(kinds) if kind == 2)) if group]
        sizes = {"_".join(mesh.names[m] for m in group): math.prod(mesh.sizes[m] for m in group) for group in joined}
        order = [m for group in joined for m in group]
        strides = [math.prod(mesh.sizes[m + 1 :]) for m in range(mesh.ndim)]
        places = product(*(range(mesh.sizes[m]) for m in order))
        ranks = [mesh.ranks[sum(i * strides[m] for i, m in zip(place, order, strict=True))] for place in places]
        return cls(Mesh(sizes, ranks), sum(bool(group) for group in groups))

    @property
    def model(self) -> tuple[str, ...]:
        """The names of the model's dimensions."""
        return self.mesh.names[self.data :]

    def spec(self, shape: Sequence[int], placements: str | Sequence[Placement]) -> Spec:
        """A parameter whose model dimensions are cut by `placements`, with FSDP2 put over it.

        Raises:
            SpecError: another number of placements than of model dimensions.
        """
        if isinstance(placements, str) and not placements.strip():
            placements = ()
        behind = tuple(one.placement for one in read_placements(placements)) if isinstance(placements, str) else placements
        if len(behind) != len(self.model):
            names = ", ".join(self.model) or "no dimension"
            raise SpecError(f"{len(behind)} placements ({placements}) for the model's part of the mesh, which is {names}")
        if not self.data:
            return Spec(shape, self.mesh, behind)
        ahead: list[Placement] = [Replicate()] * self.data
        shards = any(name in SHARDING for part in self.mesh.names[: self.data] for name in (part, *part.split("_")))
        if shards and len(shape):
            ndim = len(shape)
            cuts = [isinstance(p, Shard | StridedShard) and p.dim % ndim == 0 for p in behind]
            factor = math.prod(size for size, cut in zip(self.mesh.sizes[self.data :], cuts, strict=True) if cut)
            ahead[-1] = StridedShard(0, factor) if factor > 1 else Shard(0)
        return Spec(shape, self.mesh, [*ahead, *behind], "fsdp2" if shards and len(shape) else None)
