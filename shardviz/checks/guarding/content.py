"""Whether copies are copies: checksums first, and where they differ, the first element on which they do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch.distributed.tensor import DTensor

from shardviz.checks.guarding.agreement import Agreement, Copies, Trouble, ranks_text
from shardviz.checks.guarding.claims import size_text
from shardviz.checks.guarding.exchange import everyone_s
from shardviz.core.runs import length, piece

__all__ = ["checksums", "different_copies"]

PIECE = 1 << 24
"""The most elements that are brought to the CPU at once."""

WAYS = 64
"""Into how many pieces a stretch is cut where copies differ, until one element is left."""

LOCATED = 20
"""The most names for which that element is looked for."""

UNREAD = b""


def checksums(tensors: Mapping[str, torch.Tensor], agreed: Mapping[str, Agreement], rank: int) -> dict[str, bytes]:
    """The checksum of every part that other ranks have as well; `UNREAD` where there is nothing to read (the meta device)."""
    known: dict[int, bool] = {}  # names about which the ranks say the same have one agreement
    found = {}
    for name, one in agreed.items():
        if id(one) not in known:
            known[id(one)] = any(rank in copies.ranks for copies in one.copies)
        if known[id(one)]:
            try:
                found[name] = _sum(_flat(tensors[name]))
            except Exception:  # the others wait for this rank: what cannot be read is told as a gap
                found[name] = UNREAD
    return found


def different_copies(
    tensors: Mapping[str, torch.Tensor], agreed: Mapping[str, Agreement], sums: Sequence[Mapping[str, bytes]], rank: int
) -> dict[str, Trouble]:
    """The names whose copies differ; every rank calls it at the same time.

    Args:
        tensors: this rank's.
        agreed: what came of comparing the claims.
        sums: every rank's checksums.
        rank: this one.
    """
    differing: dict[str, Copies] = {}
    for name, one in agreed.items():
        for copies in one.copies:
            seen = {sums[member][name] for member in copies.ranks}
            if len(seen) > 1 and UNREAD not in seen:
                differing.setdefault(name, copies)
    if not differing:
        return {}
    located = _located(tensors, {name: differing[name].ranks for name in list(differing)[:LOCATED]}, rank)
    found = {}
    for name, copies in differing.items():
        where = ""
        if name in located:
            place, values = located[name]
            where = f"; at {size_text(_index(copies, place))} {values}"
        cure = "make the copies equal"
        if agreed[name].spec is None:
            cure = "give each a name of its own, or make them one tensor that is cut over these ranks"
        words = f"{ranks_text(copies.ranks)} hold the same part with different values{where}; a checkpoint keeps one of them"
        found[name] = Trouble(words, copies.ranks, cure)
    return found


def _located(
    tensors: Mapping[str, torch.Tensor], differing: Mapping[str, tuple[int, ...]], rank: int
) -> dict[str, tuple[int, str]]:
    """The first element on which copies differ: its place in the part, in elements, and who has which value there."""
    mine = {name: _flat(tensors[name]) for name, ranks in differing.items() if rank in ranks}
    sizes = everyone_s({name: flat.numel() for name, flat in mine.items()})
    bounds = {name: (0, sizes[ranks[0]][name]) for name, ranks in differing.items()}
    while any(stop - start > 1 for start, stop in bounds.values()):
        cut = {name: _pieces(*bound) for name, bound in bounds.items()}
        sums = everyone_s({name: [_sum(flat[slice(*one)]) for one in cut[name]] for name, flat in mine.items()})
        for name, ranks in differing.items():
            unlike = (one for number, one in enumerate(cut[name]) if len({sums[r][name][number] for r in ranks}) > 1)
            bounds[name] = next(unlike)
    values = everyone_s({name: str(flat[bounds[name][0]].item()) for name, flat in mine.items()})
    found = {}
    for name, ranks in differing.items():
        having: dict[str, list[int]] = {}
        for member in ranks:
            having.setdefault(values[member][name], []).append(member)
        found[name] = (bounds[name][0], ", ".join(f"{value} on {ranks_text(on)}" for value, on in having.items()))
    return found


def _pieces(start: int, stop: int) -> list[tuple[int, int]]:
    step = -(-(stop - start) // WAYS)
    return [(low, min(low + step, stop)) for low in range(start, stop, step)]


def _index(copies: Copies, place: int) -> tuple[int, ...]:
    """The global index of an element of a part, by its place in row-major order."""
    index: list[int] = []
    for runs in reversed(copies.part):
        place, along = divmod(place, length(runs))
        index.append(piece(runs, along, along + 1)[0][0])
    return tuple(reversed(index))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.detach().contiguous().view(-1)


def _sum(flat: torch.Tensor) -> bytes:
    """A checksum of the memory: NaN is equal to itself there, and every type can be read."""
    found = hashlib.blake2b(digest_size=8)
    for start in range(0, flat.numel(), PIECE):
        found.update(flat[start : start + PIECE].view(torch.uint8).cpu().numpy().data)
    return found.digest()
