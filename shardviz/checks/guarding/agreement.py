"""What all ranks say of one name, side by side: whether it is one tensor, cut one way, whose shards cover it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shardviz.checks.guarding.claims import Claim, size_text
from shardviz.core.layout import Layout, layout
from shardviz.core.live import fitting
from shardviz.core.mesh import Mesh
from shardviz.core.runs import Runs, joined
from shardviz.core.spec import Spec

__all__ = ["Agreement", "Copies", "Trouble", "agreement", "ranks_text"]

HAVE = "have it on every rank of its mesh, or on a mesh of those that do"

Value = TypeVar("Value")


@dataclass(frozen=True)
class Trouble:
    """What is wrong about one name.

    Attributes:
        words: what, with the ranks and their values.
        ranks: where.
        cure: what to do, where the audit's cures are no help; "" otherwise.
    """

    words: str
    ranks: tuple[int, ...]
    cure: str = ""


@dataclass(frozen=True)
class Copies:
    """Ranks that hold one and the same part, as runs of global indices per tensor dimension."""

    part: tuple[Runs, ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Agreement:
    """What came of comparing all ranks' claims to one name.

    Attributes:
        text: the tensor in the notation, as the lowest rank has it.
        spec: how it is sharded, where it is, and all that have it say the same; None otherwise.
        troubles: what is wrong.
        copies: the parts that several ranks hold.
        elsewhere: ranks that do not have the name, and need not.
    """

    text: str
    spec: Spec | None
    troubles: tuple[Trouble, ...]
    copies: tuple[Copies, ...]
    elsewhere: tuple[int, ...]


def agreement(everyone: Sequence[Mapping[str, Claim]]) -> dict[str, Agreement]:
    """Compare the claims of all ranks, name by name; names about which the ranks say the same are looked at once.

    Args:
        everyone: every rank's claims by name, in rank order.
    """
    numbers: dict[Claim, int] = {}
    by_rank: dict[int, dict[str, int]] = {}  # ranks that say the same in all give one object
    for one in everyone:
        if id(one) not in by_rank:
            seen: dict[int, int] = {}  # and so do names of which a rank says the same
            for claim in one.values():
                if id(claim) not in seen:
                    seen[id(claim)] = numbers.setdefault(claim, len(numbers))
            by_rank[id(one)] = {name: seen[id(claim)] for name, claim in one.items()}
    numbered = [by_rank[id(one)] for one in everyone]
    claims = list(numbers)
    names = dict.fromkeys(name for one in by_rank.values() for name in one)
    known: dict[tuple[int | None, ...], Agreement] = {}
    found = {}
    for name in names:
        key = tuple([one.get(name) for one in numbered])
        if key not in known:
            known[key] = _of_one({rank: claims[number] for rank, number in enumerate(key) if number is not None}, len(key))
        found[name] = known[key]
    return found


def _of_one(claims: Mapping[int, Claim], world: int) -> Agreement:
    first = claims[min(claims)]
    groups = _groups(claims)
    troubles = [
        Trouble(f"{ranks_text(ranks)} cannot be compared: {why}", tuple(ranks))
        for why, ranks in _by(claims, lambda claim: claim.unread).items()
        if why
    ]
    if not troubles:
        for mesh, group in groups.items():
            troubles += _of_mesh(mesh, group, claims) if mesh else _unlike(group, "ranks have", "tensors that are no DTensors")
    parts: dict[tuple[Runs, ...], list[int]] = {}
    if not troubles:
        troubles += _between(groups)
    if not troubles:
        for group in groups.values():
            for rank, part in _parts(group).items():
                parts.setdefault(part, []).append(rank)
    copies = tuple(Copies(part, tuple(sorted(ranks))) for part, ranks in parts.items() if len(ranks) > 1)
    spec = first.spec if len(groups) == 1 and not troubles else None
    elsewhere = tuple(rank for rank in range(world) if rank not in claims)
    return Agreement(first.text, spec, (*troubles, *_own(claims)), copies, elsewhere)


def _groups(claims: Mapping[int, Claim]) -> dict[Mesh | None, dict[int, Claim]]:
    """The claims by the mesh that they are about; many ranks give one object."""
    groups: dict[Mesh | None, dict[int, Claim]] = {}
    known: dict[int, dict[int, Claim]] = {}
    for rank, claim in claims.items():
        if id(claim) not in known:
            known[id(claim)] = groups.setdefault(claim.spec.mesh if claim.spec else None, {})
        known[id(claim)][rank] = claim
    return groups


def _own(claims: Mapping[int, Claim]) -> Iterator[Trouble]:
    """What ranks found by themselves: the first one's words, and how many more have any."""
    ranks = sorted(rank for rank, claim in claims.items() if claim.trouble)
    if ranks:
        others = f" (and {len(ranks) - 1} more rank{'s' * (len(ranks) > 2)})" if len(ranks) > 1 else ""
        yield Trouble(f"rank {ranks[0]} {claims[ranks[0]].trouble}{others}", tuple(ranks), claims[ranks[0]].cure)


def _of_mesh(mesh: Mesh, group: Mapping[int, Claim], claims: Mapping[int, Claim]) -> Iterator[Trouble]:
    """Whether all ranks of a mesh have the tensor on it, and believe the same of it."""
    lacking = [rank for rank in mesh.ranks if rank not in claims]
    if lacking:
        yield Trouble(f"{ranks_text(lacking)} of its mesh {mesh} {_verb(lacking, 'lacks', 'lack')} it", tuple(lacking), HAVE)
    others = {rank: claims[rank] for rank in mesh.ranks if rank in claims and rank not in group}
    if others:
        has = "; ".join(f"{claim.text} on {ranks_text(ranks)}" for claim, ranks in _by(others, lambda one: one).items())
        yield Trouble(f"not all ranks of its mesh {mesh} have it there: {has}", tuple(others), HAVE)
    yield from _unlike(group, "the ranks of its mesh believe in", "global shapes")


def _unlike(group: Mapping[int, Claim], who: str, what: str) -> Iterator[Trouble]:
    """Ranks that should say the same, and do not."""
    ranks = tuple(group)
    shapes = _by(group, lambda claim: claim.shape)
    if len(shapes) > 1:
        held = "; ".join(f"{size_text(shape)} on {ranks_text(on)}" for shape, on in _by(group, lambda one: one.held).items())
        spec = group[ranks[0]].spec
        right = spec and fitting(spec, {rank: claim.held for rank, claim in group.items()})
        said = f"{who} different {what}: {_listed(shapes, size_text)}"
        if spec is None:
            yield Trouble(said, ranks, "give each of them a name of its own")
        elif right:
            stride = tuple(_strides(right.shape))
            cure = f"give DTensor.from_local shape={right.shape}, stride={stride} (local_map takes no shape: make it even)"
            yield Trouble(f"{said}; they hold {held}, which is {size_text(right.shape)} cut by its placements", ranks, cure)
        else:
            cure = "give DTensor.from_local shape= and stride=, and shards as the placements cut that shape"
            yield Trouble(f"{said}; they hold {held}, as no global shape is cut by its placements", ranks, cure)
    placements = _by(group, lambda claim: claim.spec and claim.spec.placements)
    if len(placements) > 1:
        listed = _listed(placements, lambda one: ", ".join(map(str, one or ())))
        yield Trouble(f"{who} different placements: {listed}", ranks, "make it with the same placements on every rank")
    dtypes = _by(group, lambda claim: claim.dtype)
    if len(dtypes) > 1:
        yield Trouble(f"{who} different dtypes: {_listed(dtypes, str)}", ranks, "make it of one dtype on every rank")


def _between(groups: Mapping[Mesh | None, Mapping[int, Claim]]) -> Iterator[Trouble]:
    """One name on several meshes: whether it can be one tensor, of which each mesh has the same parts."""
    if len(groups) < 2:
        return
    ranks = tuple(sorted(rank for group in groups.values() for rank in group))
    firsts = {tuple(sorted(group)): next(iter(group.values())) for group in groups.values()}
    if len({(claim.shape, claim.dtype) for claim in firsts.values()}) > 1:
        listed = "; ".join(f"{claim.dtype} {claim.text} on {ranks_text(on)}" for on, claim in firsts.items())
        yield Trouble(f"one name stands for different tensors: {listed}", ranks, "give each of them a name of its own")
    elif len({frozenset(_parts(group).values()) for group in groups.values()}) > 1:
        listed = "; ".join(f"{claim.text} on {ranks_text(on)}" for on, claim in firsts.items())
        words = f"it is cut in different ways, so that chunks overlap: {listed}"
        yield Trouble(words, ranks, "give it one sharding, or a name for each")


def _parts(group: Mapping[int, Claim]) -> dict[int, tuple[Runs, ...]]:
    """The elements of every rank, where there are any that are not an addend."""
    found: dict[int, tuple[Runs, ...]] = {}
    layouts: dict[Spec, Layout] = {}
    pieces: dict[int, Layout] = {}  # by the claim: many ranks give one object
    for rank, claim in group.items():
        if claim.spec is None:
            found[rank] = tuple(((0, size),) for size in claim.shape)
        elif 0 not in claim.held and not claim.spec.pending_dims:
            if id(claim) not in pieces:
                if claim.spec not in layouts:
                    layouts[claim.spec] = layout(claim.spec)
                pieces[id(claim)] = layouts[claim.spec]
            found[rank] = pieces[id(claim)][rank].runs
    return found


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(shape)]


def _by(claims: Mapping[int, Claim], key: Callable[[Claim], Value]) -> dict[Value, list[int]]:
    """The ranks, by what their claims have in common."""
    found: dict[Value, list[int]] = {}
    known: dict[int, list[int]] = {}  # many ranks give one object
    for rank, claim in sorted(claims.items(), key=lambda pair: pair[0]):
        if id(claim) not in known:
            known[id(claim)] = found.setdefault(key(claim), [])
        known[id(claim)].append(rank)
    return found


def _listed(values: Mapping[Value, Sequence[int]], text: Callable[[Value], str]) -> str:
    return ", ".join(f"{text(value)} on {ranks_text(ranks)}" for value, ranks in values.items())


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks in words.

    Example:
        >>> ranks_text([0, 1, 2, 5]), ranks_text([3])
        ('ranks 0-2, 5', 'rank 3')
    """
    runs = joined((rank, rank + 1) for rank in sorted(ranks))
    shown = [f"{start}-{stop - 1}" if stop - start > 1 else str(start) for start, stop in runs[:8]]
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(shown)}{', …' if len(runs) > 8 else ''}"


def _verb(ranks: Sequence[int], one: str, more: str) -> str:
    return one if len(ranks) == 1 else more
