"""One question at many sizes: where padding, empty ranks, differing readings and wrong reports come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from shardviz.core.layout import layout
from shardviz.core.mesh import Mesh
from shardviz.core.order import split_factor
from shardviz.core.placements import StridedShard
from shardviz.core.readings import differing_readings
from shardviz.core.spec import Spec
from shardviz.core.unshuffle import unshuffle

__all__ = ["Axis", "Swept", "axes", "resized", "size_of", "sweep"]

Axis: TypeAlias = tuple[Literal["tensor", "mesh"], int]
"""What is varied: a tensor dimension, or a mesh dimension, by its number."""


@dataclass(frozen=True)
class Swept:
    """What is found at one size.

    Attributes:
        size: of the dimension that is varied.
        spec: the question at this size.
        padding: slots of padding that all ranks together add in the exact reconstruction.
        empty: ranks that hold nothing.
        ambiguous: ranks on which the readings differ.
        misreported: ranks that torch reports wrongly.
    """

    size: int
    spec: Spec
    padding: int
    empty: int
    ambiguous: int
    misreported: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        parts = (
            _count(self.padding, "slot of padding", "slots of padding"),
            _count(self.empty, "empty rank", "empty ranks"),
            f"the readings differ on {_count(self.ambiguous, 'rank', 'ranks')}" if self.ambiguous else "the readings agree",
            f"torch reports {_count(self.misreported, 'rank', 'ranks')} wrongly"
            if self.misreported
            else "torch's report is right",
        )
        return f"Size {self.size:,}: {', '.join(parts)}."


def axes(spec: Spec) -> dict[str, Axis]:
    """Everything that can be varied, by its name.

    Example:
        >>> from shardviz.core.spec import parse
        >>> list(axes(parse("[15, 5] on dp=2, tp=2: _S(0, 2), S(0)")))
        ['tensor dimension 0', 'tensor dimension 1', 'mesh dimension dp', 'mesh dimension tp']
    """
    tensor: dict[str, Axis] = {f"tensor dimension {dim}": ("tensor", dim) for dim in range(spec.ndim)}
    return tensor | {f"mesh dimension {name}": ("mesh", number) for number, name in enumerate(spec.mesh.names)}


def size_of(spec: Spec, axis: Axis) -> int:
    """The size that an axis has now."""
    kind, number = axis
    return spec.shape[number] if kind == "tensor" else spec.mesh.sizes[number]


def resized(spec: Spec, axis: Axis, size: int) -> Spec:
    """The same question with another size; a split factor that counted the pieces of a mesh dimension follows it.

    Raises:
        SpecError: there is no such size.

    Example:
        >>> from shardviz.core.spec import parse
        >>> five = parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> print(resized(five, ("tensor", 0), 9), "|", resized(five, ("mesh", 1), 3))
        [9] on dp=2, tp=2: _S(0, 2), S(0) | [5] on dp=2, tp=3: _S(0, 3), S(0)
    """
    kind, number = axis
    if kind == "tensor":
        shape = (*spec.shape[:number], size, *spec.shape[number + 1 :])
        return Spec(shape, spec.mesh, spec.placements, spec.made_by)
    sizes = dict(zip(spec.mesh.names, spec.mesh.sizes, strict=True)) | {spec.mesh.names[number]: size}
    ranks = spec.mesh.ranks if size == spec.mesh.sizes[number] else None
    placements = list(spec.placements)
    for mesh_dim, placement in enumerate(placements):
        if not isinstance(placement, StridedShard):
            continue
        later = [m for m in spec.cuts(placement.dim) if m > mesh_dim]
        before, now = _pieces(spec.mesh.sizes, later), _pieces(tuple(sizes.values()), later)
        if split_factor(spec, mesh_dim) == before:
            placements[mesh_dim] = StridedShard(placement.dim, now)
    return Spec(spec.shape, Mesh(sizes, ranks), placements, spec.made_by)


def sweep(spec: Spec, axis: Axis, sizes: Iterable[int], misreported: Callable[[Spec], int]) -> tuple[Swept, ...]:
    """What is found at every size.

    Args:
        spec: the question.
        axis: what is varied.
        sizes: the sizes.
        misreported: on how many ranks torch's report is wrong; `core` knows nothing of torch.

    Example:
        >>> from shardviz.core.spec import parse
        >>> five = parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> for found in sweep(five, ("tensor", 0), range(3, 6), lambda _: 0):
        ...     print(found.size, found.padding, found.empty)  # with 5, rank 1 pads over tp, and ranks 2 and 3 over dp
        3 3 1
        4 0 0
        5 3 0
    """
    return tuple(_swept(spec, axis, size, misreported) for size in sizes)


def _swept(spec: Spec, axis: Axis, size: int, misreported: Callable[[Spec], int]) -> Swept:
    here = resized(spec, axis, size)
    empty = sum(not held.numel for held in layout(here))
    differing = {difference.rank for comparison in differing_readings(here) for difference in comparison.differences}
    return Swept(size, here, sum(_padding(here)), empty, len(differing), misreported(here))


def _padding(spec: Spec) -> Iterator[int]:
    """The slots that each step of the reconstruction adds as padding."""
    steps = unshuffle(spec).steps
    for before, now in pairwise(steps):
        if now.name.startswith("pad "):
            yield sum(buffer.numel for buffer in now.buffers) - sum(buffer.numel for buffer in before.buffers)


def _pieces(sizes: tuple[int, ...], mesh_dims: list[int]) -> int:
    pieces = 1
    for mesh_dim in mesh_dims:
        pieces *= sizes[mesh_dim]
    return pieces


def _count(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}" if count else f"no {many}"
