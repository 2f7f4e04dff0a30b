"""The definitions of sharding, done the slow way: every element stands in a list. Nothing here is shared with shardviz.

A placement is a tuple: `("R",)`, `("P", op)`, `("S", dim)` or `("SS", dim, split_factor)`. A mesh is a tuple of sizes. A buffer
is, per tensor dimension, the list of the global indices along it, with None where there is padding.
"""

import itertools
import math
from typing import NamedTuple


class DoesNotApply(Exception):
    """The reading has no meaning for these placements."""


class Cut(NamedTuple):
    """One mesh dimension that cuts a tensor dimension."""

    mesh_dim: int
    size: int
    factor: int


def chunks(items, count):
    """ceil(n / count) items each, then the rest, then nothing."""
    step = -(-len(items) // count)
    return [items[i * step : (i + 1) * step] for i in range(count)]


def strided_chunks(items, pieces, count):
    """Cut into pieces, every piece into `count`; part i is chunk i of every piece."""
    cut = [chunks(piece, count) for piece in chunks(items, pieces)]
    return [[item for piece in cut for item in piece[i]] for i in range(count)]


def cuts_of(sizes, placements, dim):
    """The cuts of a tensor dimension from left to right."""
    return [
        Cut(mesh_dim, sizes[mesh_dim], p[2] if p[0] == "SS" else 1)
        for mesh_dim, p in enumerate(placements)
        if p[0] in ("S", "SS") and p[1] == dim
    ]


def orders(cuts):
    """Every order of cutting in which each cut's factor is the product of the sizes of the later mesh dimensions before it."""
    for order in itertools.permutations(cuts):
        if all(
            cut.factor == math.prod(other.size for other in order[:place] if other.mesh_dim > cut.mesh_dim)
            for place, cut in enumerate(order)
        ):
            yield order


def in_sharding_order(items, cuts, coordinate):
    for order in orders(cuts):
        for cut in order:
            items = chunks(items, cut.size)[coordinate[cut.mesh_dim]]
        return items
    raise DoesNotApply


def left_to_right(items, cuts, coordinate):
    for cut in cuts:
        items = strided_chunks(items, cut.factor, cut.size)[coordinate[cut.mesh_dim]]
    return items


def outer_last(items, cuts, coordinate):
    if not cuts:
        return items
    outer, *inner = cuts
    if outer.factor != math.prod(cut.size for cut in inner):
        raise DoesNotApply
    try:
        items = in_sharding_order(items, inner, coordinate)
    except DoesNotApply:
        items = left_to_right(items, inner, coordinate)
    return chunks(items, outer.size)[coordinate[outer.mesh_dim]]


READINGS = {"sharding-order": in_sharding_order, "left-to-right": left_to_right, "outer-last": outer_last}


def auto(items, cuts, coordinate, by_fsdp2=False):
    readings = [in_sharding_order, outer_last, left_to_right] if by_fsdp2 else [in_sharding_order, left_to_right]
    for read in readings:
        try:
            return read(items, cuts, coordinate)
        except DoesNotApply:
            continue
    raise AssertionError("left to right always applies")


def holdings(shape, sizes, placements, reading="auto", by_fsdp2=False):
    """Per coordinate, per tensor dimension: the list of global indices held.

    Raises:
        DoesNotApply: the reading has no meaning for these placements.
    """
    held = {}
    for coordinate in itertools.product(*map(range, sizes)):
        held[coordinate] = []
        for dim, size in enumerate(shape):
            cuts = cuts_of(sizes, placements, dim)
            items = list(range(size))
            if reading == "auto":
                held[coordinate].append(auto(items, cuts, coordinate, by_fsdp2))
            else:
                held[coordinate].append(READINGS[reading](items, cuts, coordinate))
    return held


def cells(shape, buffer):
    """The slots of a buffer in row-major order, as flat global indices; None where any dimension has padding."""
    found = []
    for index in itertools.product(*buffer):
        if None in index:
            found.append(None)
        else:
            flat = 0
            for i, size in zip(index, shape, strict=True):
                flat = flat * size + i
            found.append(flat)
    return found


def group_of(sizes, coordinate, mesh_dim):
    """The coordinates that differ from one in a mesh dimension alone, in order."""
    return [(*coordinate[:mesh_dim], i, *coordinate[mesh_dim + 1 :]) for i in range(sizes[mesh_dim])]


class Event(NamedTuple):
    """What happened, every rank's buffer after it, and the elements each rank sent."""

    what: str
    buffers: dict
    sent: dict


def reconstruction(shape, sizes, placements, held):
    """Gather from right to left, padding wherever the members of a group hold unequal amounts; sort at the end."""
    buffers = {coordinate: [list(items) for items in axes] for coordinate, axes in held.items()}
    nothing = dict.fromkeys(buffers, 0)
    yield Event("start", buffers, nothing)
    for mesh_dim in reversed(range(len(sizes))):
        kind = placements[mesh_dim][0]
        if kind == "P" and sizes[mesh_dim] > 1:
            yield Event("reduce", buffers, nothing)
        if kind not in ("S", "SS"):
            continue
        dim = placements[mesh_dim][1]
        if sizes[mesh_dim] > 1:
            widths = {at: max(len(buffers[member][dim]) for member in group_of(sizes, at, mesh_dim)) for at in buffers}
            uneven = any(len(buffers[at][dim]) < widths[at] for at in buffers)
            if uneven:
                buffers = {
                    at: _with(axes, dim, axes[dim] + [None] * (widths[at] - len(axes[dim]))) for at, axes in buffers.items()
                }
                yield Event("pad", buffers, nothing)
            sent = {at: (sizes[mesh_dim] - 1) * math.prod(map(len, axes)) for at, axes in buffers.items()}
            gathered = {}
            for at, axes in buffers.items():
                members = [buffers[member] for member in group_of(sizes, at, mesh_dim)]
                for member in members:  # a real collective takes equal shapes; other dimensions are joined as they are
                    assert list(map(len, member)) == list(map(len, axes))
                    assert _with(member, dim, []) == _with(axes, dim, [])
                gathered[at] = _with(axes, dim, [item for member in members for item in member[dim]])
            buffers = gathered
            yield Event("gather", buffers, sent)
            if uneven:
                buffers = {at: _with(axes, dim, [i for i in axes[dim] if i is not None]) for at, axes in buffers.items()}
                yield Event("unpad", buffers, nothing)
        leftmost = min(m for m, p in enumerate(placements) if p[0] in ("S", "SS") and p[1] == dim)
        if mesh_dim == leftmost and any(axes[dim] != sorted(axes[dim]) for axes in buffers.values()):
            buffers = {at: _with(axes, dim, sorted(axes[dim])) for at, axes in buffers.items()}
            yield Event("unshuffle", buffers, nothing)


def _with(axes, dim, items):
    return [*axes[:dim], items, *axes[dim + 1 :]]


def torch_28(n, dp, tp):
    """What releases 2.8 and 2.9 return for n elements under FSDP2 over TP: a list with None for padding, or None: a hang."""
    rows = [chunks(list(held), dp) for held in chunks(range(n), tp)]
    held = {(d, t): rows[t][d] for d in range(dp) for t in range(tp)}
    row = -(-n // dp)
    gathered = []
    for d in range(dp):
        believed = min(row, max(n - row * d, 0))
        sent = [held[d, t] for t in range(tp)]
        if believed % tp:
            sent = [piece + [None] * (-(-believed // tp) - len(piece)) for piece in sent]
        if len({len(piece) for piece in sent}) > 1:
            return None
        joined = [item for piece in sent for item in piece]
        gathered.append(joined[:believed] if believed % tp else joined)
    gathered = [items + [None] * (row - len(items)) for items in gathered]
    if len({len(items) for items in gathered}) > 1:
        return None
    flat = [item for items in gathered for item in items][:n]
    pieces = [piece for part in chunks(flat, dp) if part for piece in chunks(part, tp) if piece]
    return [item for first in range(tp) for piece in pieces[first::tp] for item in piece]
