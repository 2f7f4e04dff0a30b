"""All ranks of a mesh in one process, a thread each: the same functions, with collectives played instead of sent."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from unittest import mock

import torch

from shardviz.tensors import reconstruction, resharding, scattering

HERE = threading.local()
MOST = 32
POOL = ThreadPoolExecutor(MOST)


class Room:
    """Where the ranks of one mesh meet, group by group; it stands in for the device mesh."""

    def __init__(self, mesh):
        self.brought = {(mesh_dim, rank): [] for mesh_dim in range(mesh.ndim) for rank in mesh.ranks}
        self.doors = {
            (mesh_dim, rank): door
            for mesh_dim in range(mesh.ndim)
            for group in mesh.groups(mesh_dim)
            for door in [threading.Barrier(len(group), timeout=60)]
            for rank in group
        }


class PlayedGroups:
    """`Groups` of the rank that this thread is. Every collective is one exchange of what each member brings."""

    device = torch.device("cpu")

    def __init__(self, mesh, room):
        self.mesh, self.room = mesh, room
        self.rank = HERE.rank
        self.place = mesh.position(self.rank)

    def _exchange(self, mesh_dim, value):
        brought = self.room.brought
        brought[mesh_dim, self.rank].append(value)
        number = len(brought[mesh_dim, self.rank]) - 1
        self.room.doors[mesh_dim, self.rank].wait()
        group = next(group for group in self.mesh.groups(mesh_dim) if self.rank in group)
        return [brought[mesh_dim, rank][number] for rank in group]

    def gather(self, buffer, mesh_dim):
        seen = self._exchange(mesh_dim, buffer)
        assert {part.shape for part in seen} == {buffer.shape}, "a real collective takes equal shapes"
        return [part.clone() for part in seen]

    def scatter(self, parts, into, mesh_dim, root):
        coordinate = self.mesh.coordinates[self.place]
        assert (parts is not None) == (coordinate[mesh_dim] == root)
        into.copy_(same_shape(self._exchange(mesh_dim, parts)[root][coordinate[mesh_dim]], into))

    def broadcast(self, buffer, mesh_dim, root):
        return same_shape(self._exchange(mesh_dim, buffer)[root], buffer).clone()

    def reduce(self, addend, mesh_dim, op):
        seen = torch.stack(self._exchange(mesh_dim, addend))
        reductions = {"sum": seen.sum(0), "product": seen.prod(0), "max": seen.amax(0), "min": seen.amin(0)}
        return reductions[op].to(addend.dtype)


def same_shape(part, expected):
    assert part.shape == expected.shape, "a real collective takes equal shapes"
    return part


def play(mesh, program):
    """Call `program(rank, room)` as every rank of a mesh at once; the results in the order of its ranks."""
    assert mesh.size <= MOST
    room = Room(mesh)

    def run(rank):
        HERE.rank = rank
        try:
            return program(rank, room)
        except BaseException:
            for door in room.doors.values():
                door.abort()
            raise

    with ExitStack() as patched:
        for module in (reconstruction, resharding, scattering):
            patched.enter_context(mock.patch.object(module, "Groups", PlayedGroups))
        return list(POOL.map(run, mesh.ranks))
