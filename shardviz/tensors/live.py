"""A live DTensor as facts: what this rank holds, or what all ranks of its mesh hold, beside what torch reports."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from shardviz.core.live import Live, layout_seen
from shardviz.core.seen import Seen, seen_here
from shardviz.core.spec import Spec
from shardviz.core.trace import Report
from shardviz.tensors.reported import shape_and_offset_at

__all__ = ["live", "seen_everywhere"]


def live(dtensor: DTensor, everywhere: bool = False) -> Live:
    """What is known of a live DTensor.

    Args:
        dtensor: the tensor.
        everywhere: ask the other ranks of its mesh for their local shapes; all of them must then call it at the same time.
    """
    here = seen_here(dtensor)
    seen = seen_everywhere(dtensor) if everywhere else () if here is None else (here,)
    found = layout_seen(Spec.of(dtensor), seen)
    return Live(found, tuple(_reports(found.spec)), torch.__version__.partition("+")[0])


def seen_everywhere(dtensor: DTensor) -> tuple[Seen, ...]:
    """What every rank of a DTensor's mesh holds, in the mesh's order; all of them call it at the same time."""
    here = seen_here(dtensor)
    known = {} if here is None else {here.rank: here}
    for mesh_dim in range(dtensor.device_mesh.ndim if known else 0):
        group = dtensor.device_mesh.get_group(mesh_dim)
        told: list[dict[int, Seen]] = [{} for _ in range(dist.get_world_size(group))]
        dist.all_gather_object(told, known, group=group)
        known = {rank: seen for one in told for rank, seen in one.items()}
    return tuple(known[rank] for rank in dtensor.device_mesh.mesh.flatten().tolist() if rank in known)


def _reports(spec: Spec) -> Iterator[Report]:
    """Torch's own arithmetic for every rank: it needs no other one."""
    ask = shape_and_offset_at(spec)
    for rank, place in zip(spec.mesh.ranks, spec.mesh.coordinates, strict=True):
        try:
            shape, offset = ask(place)
        except (RuntimeError, ValueError, AssertionError, NotImplementedError, IndexError) as error:
            yield Report(rank, error=f"{type(error).__name__}: {error}".strip(": "))
        else:
            yield Report(rank, tuple(map(int, shape)), tuple(map(int, offset)))
