"""A mesh that exists only as numbers: which dimensions carry data, which the model, and what FSDP2 makes of a parameter."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from shardviz.checks.audits.model import Planned
from shardviz.checks.audits.roles import Role, reading_of, roles_of
from shardviz.core.errors import SpecError
from shardviz.core.mesh import Mesh
from shardviz.core.notation import read_placements
from shardviz.core.placements import Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec

__all__ = ["Grid", "read_mesh"]


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
    """A mesh as FSDP2 sees it: at most one copying and one sharding dimension, and the model's dimensions behind them.

    Attributes:
        mesh: with those dimensions, and the ranks where they really are; of a pipeline the first stage.
        roles: of its dimensions.
        reading: how the given mesh was read, in words.
    """

    mesh: Mesh
    roles: tuple[Role, ...]
    reading: str

    @classmethod
    def of(cls, given: str | Mapping[str, int] | Mesh, roles: Mapping[str, str] | None = None) -> Grid:
        """Sort the dimensions of a mesh by their roles, and flatten those over which FSDP2 shards (dp_shard × cp).

        Args:
            given: sizes by name.
            roles: of names that are not known, or mean another thing here; see `Role`.

        Raises:
            SpecError: a name without a role, or two dimensions of one that a plan cuts only once.

        Example:
            >>> print(Grid.of("dp_replicate=2, dp_shard=2, cp=2, tp=2").mesh)
            dp_replicate=2, dp_shard_cp=4, tp=2
        """
        mesh = read_mesh(given)
        said = roles_of(mesh.names, roles)
        behind = [[m] for m, role in enumerate(said) if role in (Role.TP, Role.EP)]
        ahead = [[m for m, role in enumerate(said) if role is wanted] for wanted in (Role.COPY, Role.FSDP)]
        joined = [group for group in (*ahead, *behind) if group]
        if not joined:
            raise SpecError(f"the mesh {mesh} has pipeline stages alone, and they cut nothing: there is nothing to audit")
        sizes = {"_".join(mesh.names[m] for m in group): math.prod(mesh.sizes[m] for m in group) for group in joined}
        order = [m for group in joined for m in group]
        strides = [math.prod(mesh.sizes[m + 1 :]) for m in range(mesh.ndim)]
        places = product(*(range(mesh.sizes[m]) for m in order))
        ranks = [mesh.ranks[sum(i * strides[m] for i, m in zip(place, order, strict=True))] for place in places]
        return cls(Mesh(sizes, ranks), tuple(said[group[0]] for group in joined), reading_of(mesh.names, said))

    @property
    def data(self) -> int:
        """How many of the leading dimensions are FSDP2's."""
        return sum(role in (Role.COPY, Role.FSDP) for role in self.roles)

    @property
    def model(self) -> tuple[str, ...]:
        """The names of the model's dimensions."""
        return self.mesh.names[self.data :]

    def planned(self, one: Planned) -> Spec:
        """A parameter as its class's plans cut it: an expert by the expert plan alone, where there is an `ep`.

        Raises:
            SpecError: the mesh has two dimensions of one role, and the plan cuts once.
        """
        behind = self.roles[self.data :]
        if len(set(behind)) != len(behind):
            raise SpecError(f"the model's plan cuts once, and {' and '.join(self.model)} are {len(behind)} dimensions")
        expert = one.ep is not None and Role.EP in behind
        cut = {Role.EP: one.ep if expert else None, Role.TP: None if expert else one.tp}
        return self.spec(one.shape, [cut[role] or Replicate() for role in behind])

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
        shards = Role.FSDP in self.roles and len(shape) > 0
        if shards:
            ndim = len(shape)
            cuts = [isinstance(p, Shard | StridedShard) and p.dim % ndim == 0 for p in behind]
            factor = math.prod(size for size, cut in zip(self.mesh.sizes[self.data :], cuts, strict=True) if cut)
            ahead[-1] = StridedShard(0, factor) if factor > 1 else Shard(0)
        return Spec(shape, self.mesh, [*ahead, *behind], "fsdp2" if shards else None)
