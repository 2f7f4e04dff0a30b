"""A live tensor: its layout by arithmetic, and beside it what ranks were seen to hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardviz.core.layout import Layout, layout, local_shape_and_offset
from shardviz.core.runs import Runs, unknown
from shardviz.core.seen import Seen, seen_here
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report, Source, start

__all__ = ["Live", "explained", "fitting", "held_buffers", "layout_here", "layout_seen"]


@dataclass(frozen=True)
class Live:
    """A live tensor, as facts.

    Attributes:
        layout: what arithmetic says, with what was seen.
        reports: what torch reports of every rank's shard.
        torch: the release; "" where it was not asked.
    """

    layout: Layout
    reports: tuple[Report, ...] = ()
    torch: str = ""

    @property
    def spec(self) -> Spec:
        """How the tensor is sharded."""
        return self.layout.spec

    @property
    def source(self) -> Source:
        """Where these facts come from."""
        return Source("predicted", torch=self.torch, notice=", ".join(filter(None, (self.layout.seen_text, self.layout.note))))


def layout_here(dtensor: Any, reading: str = "auto") -> Layout:
    """The layout of a live DTensor by what this process knows of it: no other rank is asked.

    Args:
        dtensor: a `torch.distributed.tensor.DTensor`, or a parameter that holds one.
        reading: as for `layout`.
    """
    spec, seen = Spec.of(dtensor), seen_here(dtensor)
    return layout_seen(spec, () if seen is None else (seen,), reading)


def layout_seen(spec: Spec, seen: Sequence[Seen], reading: str = "auto") -> Layout:
    """The layout of a spec, with what ranks were seen to hold.

    Where all ranks of the mesh were seen and their shards fit another global shape than the spec's, it is that one's layout.
    """
    shapes = {one.rank: one.shape for one in seen}
    if any(one.whole != spec.shape for one in seen) and (right := fitting(spec, shapes)):
        spec = right
    elif seen:
        spec = explained(spec, spec.mesh.coordinate(seen[0].rank), seen[0].shape)
    return replace(layout(spec, reading), seen=tuple(seen))


def explained(spec: Spec, coordinate: Sequence[int], held: tuple[int, ...]) -> Spec:
    """The spec, made by FSDP2 where it does not say by whom and that alone explains a local shape."""
    by_fsdp2 = spec.with_made_by("fsdp2")
    if spec.made_by or held == local_shape_and_offset(spec, coordinate)[0]:
        return spec
    return by_fsdp2 if held == local_shape_and_offset(by_fsdp2, coordinate)[0] else spec


def fitting(spec: Spec, shapes: Mapping[int, tuple[int, ...]]) -> Spec | None:
    """The global shape whose shards by these placements have the local shapes that all ranks hold; None where there is none.

    Args:
        spec: the mesh and the placements; its own shape does not matter.
        shapes: local shapes by rank.

    Example:
        >>> from shardviz.core.spec import parse
        >>> print(fitting(parse("[20, 3] on dp=4: S(0)"), {0: (5, 3), 1: (5, 3), 2: (5, 3), 3: (2, 3)}))
        [17, 3] on dp=4: S(0)
        >>> fitting(parse("[14] on dp=4: S(0)"), {0: (2,), 1: (3,), 2: (4,), 3: (5,)}) is None  # no 14 is cut like that
        True
    """
    if set(shapes) != set(spec.mesh.ranks) or any(len(shape) != spec.ndim for shape in shapes.values()):
        return None
    sizes = []
    for dim in range(spec.ndim):
        cuts = spec.cuts(dim)
        along = (
            shapes[rank][dim]
            for rank, place in zip(spec.mesh.ranks, spec.mesh.coordinates, strict=True)
            if not any(index for mesh_dim, index in enumerate(place) if mesh_dim not in cuts)
        )
        sizes.append(sum(along))
    right = Spec(sizes, spec.mesh, spec.placements, spec.made_by)
    return right if all(shapes[one.rank] == one.shape for one in layout(right)) else None


def held_buffers(held: Layout) -> tuple[Buffer, ...]:
    """What each rank has: by the layout, and of a rank that was seen to hold another shape, slots that nobody can name."""
    buffers = list(start(held))
    for one in held.seen:
        position = held.spec.mesh.position(one.rank)
        computed = held.ranks[position]
        if one.shape != computed.shape and len(one.shape) == len(computed.shape):
            axes: list[Runs] = [
                runs if size == right else ((unknown(size),) if size else ())
                for size, right, runs in zip(one.shape, computed.shape, computed.runs, strict=True)
            ]
            buffers[position] = Buffer(tuple(axes), one.shape, pending=buffers[position].pending)
    return tuple(buffers)
