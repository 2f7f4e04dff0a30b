"""The process groups of a mesh as one rank sees them: collectives for every dtype, in the order of the coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from shardviz.core.errors import SpecError
from shardviz.core.mesh import Mesh

__all__ = ["Groups"]

REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.SUM,  # gloo has no average
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "product": dist.ReduceOp.PRODUCT,
}

REDUCED_AS = {
    torch.bool: torch.int32,
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
}
"""Types that backends do not reduce, and the wider one to reduce them in."""


class Groups:
    """The groups that this rank belongs to, one per mesh dimension.

    Elements travel as bytes, because gloo refuses many types (float8, 16-bit integers, most unsigned ones). A process group
    may number its ranks otherwise than the mesh does (torch sorts them), so everything here is put in the order of the
    coordinates.

    Args:
        mesh: shardviz's mesh.
        device_mesh: torch's mesh of the same ranks.

    Attributes:
        rank: this rank.
        place: its index among the ranks of the mesh.

    Raises:
        SpecError: the two are different meshes, or this rank is not in them.
    """

    def __init__(self, mesh: Mesh, device_mesh: DeviceMesh) -> None:
        ranks = tuple(device_mesh.mesh.flatten().tolist())
        if (tuple(device_mesh.mesh.shape), ranks) != (mesh.sizes, mesh.ranks):
            raise SpecError(f"the layout is on {mesh}, and the device mesh is {Mesh(tuple(device_mesh.mesh.shape), ranks)}")
        self._mesh, self._device_mesh = mesh, device_mesh
        self.rank = dist.get_rank()
        self.place = mesh.position(self.rank)

    @property
    def device(self) -> torch.device:
        """Where this rank's tensors live."""
        return torch.device(self._device_mesh.device_type)

    def gather(self, buffer: torch.Tensor, mesh_dim: int) -> list[torch.Tensor]:
        """Every member's buffer, all of one shape, in the order of the coordinates."""
        group = self._device_mesh.get_group(mesh_dim)
        sent = _plain(buffer)
        received = {rank: torch.empty_like(sent) for rank in dist.get_process_group_ranks(group)}
        if sent.numel():
            dist.all_gather([_bytes(part) for part in received.values()], _bytes(sent), group=group)
        return [received[rank] for rank in self._members(mesh_dim)]

    def scatter(self, parts: Sequence[torch.Tensor] | None, into: torch.Tensor, mesh_dim: int, root: int) -> None:
        """Fill `into` with this rank's part.

        Args:
            parts: on the root one tensor per member, all like `into`, in the order of the coordinates; None elsewhere.
            into: a contiguous tensor.
            mesh_dim: the mesh dimension along which to send.
            root: coordinate of the sender on it.
        """
        if not into.numel():
            return
        group, members = self._device_mesh.get_group(mesh_dim), self._members(mesh_dim)
        sent = None
        if parts is not None:
            by_rank = dict(zip(members, parts, strict=True))
            sent = [_bytes(_plain(by_rank[rank])) for rank in dist.get_process_group_ranks(group)]
        dist.scatter(_bytes(into), sent, src=members[root], group=group)

    def broadcast(self, buffer: torch.Tensor, mesh_dim: int, root: int) -> torch.Tensor:
        """The buffer of the member whose coordinate on the mesh dimension is `root`; the others' are overwritten."""
        plain = _plain(buffer)
        if plain.numel():
            group = self._device_mesh.get_group(mesh_dim)
            dist.broadcast(_bytes(plain), src=self._members(mesh_dim)[root], group=group)
        return plain

    def reduce(self, addend: torch.Tensor, mesh_dim: int, op: str) -> torch.Tensor:
        """The reduction of every member's addend, in the addends' dtype; an average of integers is cut to a whole number.

        Raises:
            SpecError: there is no such reduction.
        """
        if op not in REDUCTIONS:
            raise SpecError(f"a pending {op!r} cannot be reduced; there are {', '.join(REDUCTIONS)}")
        total = _plain(addend).to(REDUCED_AS.get(addend.dtype, addend.dtype), copy=True)
        if total.numel():
            dist.all_reduce(total, REDUCTIONS[op], group=self._device_mesh.get_group(mesh_dim))
        if op == "avg":
            whole = not (total.is_floating_point() or total.is_complex())
            total = torch.div(total, self._mesh.sizes[mesh_dim], rounding_mode="trunc" if whole else None)
        return total.to(addend.dtype)

    def _members(self, mesh_dim: int) -> list[int]:
        """The ranks of this rank's group, in the order of their coordinates."""
        step = math.prod(self._mesh.sizes[mesh_dim + 1 :])
        first = self.place - self._mesh.coordinates[self.place][mesh_dim] * step
        return [self._mesh.ranks[first + i * step] for i in range(self._mesh.sizes[mesh_dim])]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as it can be sent: contiguous, no conjugate or negative that is only marked as such, no history."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's memory as bytes."""
    # Not view(-1): a contiguous tensor of one element may have any stride, and view keeps it.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
