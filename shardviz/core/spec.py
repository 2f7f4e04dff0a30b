"""The question: a global shape, a mesh, and one placement per mesh dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shardviz.core import notation
from shardviz.core.errors import SpecError
from shardviz.core.mesh import Mesh, as_mesh
from shardviz.core.placements import Partial, Placement, Replicate, Shard, StridedShard
from shardviz.core.whole import whole

__all__ = ["BY_FSDP2", "MADE_BY", "Spec", "as_spec", "parse"]

BY_FSDP2 = ("fsdp2-over-tp", "fsdp2")
"""Those that go through `fully_shard`."""

MADE_BY = (*BY_FSDP2, "distribute_tensor", "redistribute", "from_local")
"""How a real tensor of a spec can come into being, in order of preference."""


@dataclass(frozen=True, init=False)
class Spec:
    """How one tensor is sharded: its global shape, the mesh, and one placement per mesh dimension.

    Args:
        shape: the global shape, one size in elements per tensor dimension; `()` is a 0-dimensional tensor.
        mesh: a `Mesh`, or what makes one: `{"dp": 2, "tp": 2}`, `"dp=2, tp=2"`, sizes alone, or torch's `DeviceMesh`.
        placements: placements in the notation (`"_S(0, 2), S(0)"`), or a sequence of placements: shardviz's, torch's, or
            texts; one per mesh dimension.
        made_by: how the tensor came to be (one of `MADE_BY`), where that is known. It is no part of the question: two specs
            that differ in it are equal.

    Raises:
        SpecError: sizes that are negative or no integers, another number of placements than of mesh dimensions, or a
            placement on a tensor dimension that the shape does not have.
        NotationError: text that is not in the notation.

    Example:
        >>> spec = Spec((15, 5), mesh={"dp": 2, "tp": 2}, placements="_S(0, 2), S(-2)")
        >>> print(spec)  # dimension -2 of 2 is dimension 0
        [15, 5] on dp=2, tp=2: _S(0, 2), S(0)
        >>> spec.numel  # 75 = 15 * 5
        75
        >>> parse(str(spec)) == spec
        True
    """

    shape: tuple[int, ...]
    mesh: Mesh
    placements: tuple[Placement, ...]
    made_by: str | None = field(compare=False)

    def __init__(
        self,
        shape: Sequence[int],
        mesh: Mesh | Mapping[str, int] | Sequence[int] | str,
        placements: str | Sequence[Any],
        made_by: str | None = None,
    ) -> None:
        asked: Any = shape
        if isinstance(asked, str) or not isinstance(asked, Iterable):
            raise SpecError(f"the shape {shape!r}: one size per tensor dimension is expected, such as (5,) or (15, 5)")
        sizes: list[int] = []
        for dim, given in enumerate(shape):
            size = whole(given)
            if size is None or size < 0:
                raise SpecError(f"tensor dimension {dim} has size {given!r}: a size is a whole number of elements, 0 or more")
            sizes.append(size)
        if made_by is not None and made_by not in MADE_BY:
            raise SpecError(f"made_by={made_by!r}: one of {', '.join(MADE_BY)}")
        grid = as_mesh(mesh)
        object.__setattr__(self, "shape", tuple(sizes))
        object.__setattr__(self, "mesh", grid)
        object.__setattr__(self, "placements", _placements(placements, grid, len(sizes)))
        object.__setattr__(self, "made_by", made_by)

    @classmethod
    def of(cls, dtensor: Any) -> Spec:
        """Read the spec of a live DTensor; torch is not imported, only attributes are read.

        Args:
            dtensor: a `torch.distributed.tensor.DTensor`, or a parameter that holds one.

        Raises:
            SpecError: the object has no placements on a device mesh.
        """
        try:
            mesh, placements, shape = as_mesh(dtensor.device_mesh), dtensor.placements, tuple(dtensor.shape)
        except AttributeError:
            raise SpecError(
                f"a DTensor was expected, with a shape, a device mesh and placements; got {type(dtensor).__name__}"
            ) from None
        return cls(shape, mesh, _in_shard_order(dtensor, [_plain_placement(p) for p in placements], mesh))

    @property
    def ndim(self) -> int:
        """Number of tensor dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements of the global tensor."""
        return math.prod(self.shape)

    def cuts(self, tensor_dim: int) -> tuple[int, ...]:
        """The mesh dimensions that cut a tensor dimension, from left to right."""
        return tuple(
            mesh_dim
            for mesh_dim, placement in enumerate(self.placements)
            if isinstance(placement, Shard | StridedShard) and placement.dim == tensor_dim
        )

    @property
    def pending_dims(self) -> tuple[int, ...]:
        """The mesh dimensions over which a reduction is pending; on a mesh dimension of size 1 the addend is the value."""
        return tuple(
            mesh_dim
            for mesh_dim, placement in enumerate(self.placements)
            if isinstance(placement, Partial) and self.mesh.sizes[mesh_dim] > 1
        )

    def with_made_by(self, made_by: str | None) -> Spec:
        """The same spec with another origin."""
        return replace(self, made_by=made_by)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.shape))}] on {self.mesh}: {', '.join(map(str, self.placements))}"


def parse(text: str) -> Spec:
    """Read a spec from its notation.

    Args:
        text: `[shape] on name=size, …: placement, …`, the mesh dimensions optionally followed by `(ranks 4-7)`. Placements as
            torch prints them, short or long (`S(0)`, `_StridedShard(dim=0, sf=2)`, `R`, `Partial(sum)`), or in its order
            notation (`S(0)[1]S(0)[0]`).

    Raises:
        NotationError: the text cannot be read; the message shows where.
        SpecError: it can be read but describes no sharded tensor.

    Example:
        >>> parse("[5] on dp=2, tp=2: _StridedShard(dim=0, sf=2), Shard(dim=0)").placements
        (StridedShard(dim=0, split_factor=2), Shard(dim=0))
        >>> print(parse("[5] on dp=2, tp=2: S(0)[1]S(0)[0]"))  # tp cuts first
        [5] on dp=2, tp=2: _S(0, 2), S(0)
    """
    shape, (names, sizes, ranks), placements = notation.read_spec(text)
    mesh = Mesh(dict(zip(names, sizes, strict=True)) if names else sizes, ranks)
    return Spec(shape, mesh, notation.encode_order(placements, mesh.sizes, text))


def as_spec(spec: Spec | str) -> Spec:
    """A spec from itself or from its notation.

    Raises:
        SpecError: it is neither, or the notation describes no sharded tensor.
    """
    if isinstance(spec, str):
        return parse(spec)
    if not isinstance(spec, Spec):
        raise SpecError(f"a spec, or its notation, was expected; got {type(spec).__name__} (of a DTensor: Spec.of)")
    return spec


def _placements(given: str | Sequence[Any], mesh: Mesh, ndim: int) -> tuple[Placement, ...]:
    if isinstance(given, str):
        ordered, text = notation.read_placements(given), given
    elif isinstance(given, Iterable):
        given = tuple(given)
        ordered = tuple(_placement(item) for item in given)
        text = ", ".join(map(str, given))
    else:
        raise SpecError(f"the placements {given}: one per mesh dimension is expected, such as '_S(0, 2), S(0)' or [Shard(0)]")
    placements = notation.encode_order(ordered, mesh.sizes, text)
    if len(placements) != mesh.ndim:
        raise SpecError(
            f"{len(placements)} placements for {mesh.ndim} mesh dimensions ({mesh}): give one placement per mesh dimension"
        )
    return tuple(_normalised(placement, name, ndim) for placement, name in zip(placements, mesh.names, strict=True))


def _placement(item: Any) -> notation.OrderedPlacement:
    """A placement from shardviz's own, from text, or from torch's (known by their class names: torch is not imported)."""
    if isinstance(item, str):
        found = notation.read_placements(item)
        if len(found) != 1:
            raise SpecError(f"{item!r} is {len(found)} placements; in a sequence each item is one")
        return found[0]
    return notation.OrderedPlacement(_plain_placement(item), None, 0)


def _plain_placement(item: Any) -> Placement:
    if isinstance(item, Replicate | Shard | StridedShard | Partial):
        return item
    match type(item).__name__:
        case "Replicate":
            return Replicate()
        case "Shard":
            return Shard(int(item.dim))
        case "_StridedShard":
            return StridedShard(int(item.dim), int(item.split_factor))
        case "Partial" | "_MaskPartial":
            return Partial(str(item.reduce_op))
    raise SpecError(f"{item!r} is no placement: Replicate, Shard, StridedShard (torch's _StridedShard) or Partial")


def _in_shard_order(dtensor: Any, placements: Sequence[Placement], mesh: Mesh) -> Sequence[Placement]:
    """The placements with the order of the cuts that torch keeps beside them, where it is not the mesh's (torch 2.10 on)."""
    order = getattr(getattr(dtensor, "_spec", None), "shard_order", None)
    if not order or any(isinstance(placement, StridedShard) for placement in placements):
        return placements
    turns = {mesh_dim: turn for entry in order for turn, mesh_dim in enumerate(entry.mesh_dims)}
    ordered = tuple(notation.OrderedPlacement(p, turns.get(mesh_dim), 0) for mesh_dim, p in enumerate(placements))
    return notation.encode_order(ordered, mesh.sizes, str(order))


def _normalised(placement: Placement, name: str, ndim: int) -> Placement:
    if isinstance(placement, Replicate | Partial):
        return placement
    if not -ndim <= placement.dim < ndim:
        some = "0 (or -1)" if ndim == 1 else f"0 to {ndim - 1} (or {-ndim} to -1)"
        allowed = some if ndim else "none: a 0-dimensional tensor cannot be cut"
        raise SpecError(
            f"{placement} on mesh dimension {name!r}: the tensor has {ndim} dimension{'s' * (ndim != 1)}, so tensor dimension "
            f"{placement.dim} does not exist; right would be {allowed}"
        )
    return replace(placement, dim=placement.dim % ndim)
