"""What uneven and empty shards of one tensor dimension lead to, apart from checkpoints and loading."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shardviz.checks.audits.checkpoint import rows_text
from shardviz.checks.audits.empty_table import refusing
from shardviz.checks.audits.kinds import Fault, Place, fault
from shardviz.checks.audits.lines import Line, columns
from shardviz.core.runs import length

__all__ = ["refused_cut", "shape_faults"]

REDUCTIONS = ("max()", "min()", "amax()", "argmax()", "infinity norm", "clip_grad_norm_, infinity norm")
"""Of the operations that were tried on an empty rank, those that people call on a parameter or its gradient."""

UNEVEN = 1.25
"""From this ratio of the largest shard to the mean on, a cut is called out of balance."""


def refused_cut(found: Line) -> Fault | None:
    """FSDP2 refuses uneven cuts of other dimensions than the first, on the ranks where they are uneven."""
    groups = columns(found)
    totals = {inner: sum(length(found.held[p]) for p in members) for inner, members in groups.items()}
    bad = {inner: total for inner, total in totals.items() if total % found.question.cuts[0]}
    if not bad:
        return None
    places = tuple(place for inner in bad for place in groups[inner])
    inner, total = next(iter(bad.items()))
    only = "" if len(bad) == len(groups) else "; on these ranks alone: the others go on, and wait"
    text = f"FSDP2 refuses to cut {total} {{rows}} evenly into {found.question.cuts[0]}{only}"
    return fault("sharding-refused", found.rows(places), places, text, (groups[inner][0],))


def shape_faults(found: Line, fsdp2: bool) -> Iterator[Fault]:
    """Faults of a cut that is made. `fsdp2` says whether the parameter is FSDP2's, whoever cut this dimension."""
    asked = found.question
    whole = ((0, asked.size),)
    if asked.fsdp and not asked.decodes:
        moved = tuple(place for place in found.held if found.held[place] != found.label[place])
        if moved:
            indices = found.rows(moved)
            text = f"full_tensor() is wrong, in up to {length(indices)} {{rows}}: FSDP2 is over a cut that decodes to no order"
            yield fault("full-tensor-wrong", indices, moved, text)
    if fsdp2:
        yield from _untrainable(found)
    empty = tuple(place for place in found.held if not found.held[place])
    if empty and asked.size:
        text = f"rank {{0}} holds nothing: {refusing(REDUCTIONS)} raise there in the forward pass; the other ranks wait"
        yield fault("hangs-on-empty-rank", (), empty, text, (empty[0],))
        text = f"{len(empty)} of {len(found.held)} places hold nothing, rank {{0}} first"
        yield fault("empty-ranks", (), empty, text, empty[:1])
    if asked.decodes:
        parted = tuple(place for place in found.held if found.held[place] != found.label[place])
        if parted:
            indices = found.rows(parted)
            text = f"one label, two layouts: read from left to right, as torch does, {rows_text(indices)} would be elsewhere"
            yield fault("ambiguous-label", indices, parted, text)
    elif asked.fsdp:
        yield fault("ambiguous-label", whole, found.places, "the placements decode to no order: they do not say who holds what")
    yield from _spread(found)


def _untrainable(found: Line) -> Iterator[Fault]:
    """FSDP2 cannot reduce the gradients of a parameter of which a rank of the other mesh dimensions holds nothing."""
    groups: list[tuple[Place, ...]] = list(columns(found).values()) if found.question.fsdp else [(p,) for p in found.held]
    bare = [members for members in groups if not any(found.held[place] for place in members)]
    if bare and found.question.size and len(groups) > 1:
        places = tuple(place for members in bare for place in members)
        text = "FSDP2 cannot train it: rank {0} and its like hold nothing, and the backward pass raises there (_chunk_cat)"
        yield fault("train-refused", (), places, text, (places[0],))


def _spread(found: Line) -> Iterator[Fault]:
    sizes = {place: length(runs) for place, runs in found.held.items()}
    total, largest = sum(sizes.values()), max(sizes.values())
    padding = largest * len(sizes) - total
    if found.question.fsdp:
        padding = 0
        for members in columns(found).values():
            column = sum(sizes[place] for place in members)
            padding += math.ceil(column / len(members)) * len(members) - column
    if padding:
        whose = "every rank of an FSDP2 group" if found.question.fsdp else "every rank"
        rows = "{row} of padding is" if padding == 1 else "{rows} of padding are"
        added = f"{padding} {rows} added, so that {whose} sends the same"
        yield fault("padding", (), (), added)._replace(number=padding)
    if total and largest * len(sizes) >= UNEVEN * total:
        mean = total / len(sizes)
        text = f"the largest shard, rank {{0}}'s, has {largest} {{{'row' if largest == 1 else 'rows'}}}, the mean is {mean:.3g}"
        place = max(sizes, key=lambda one: sizes[one])
        yield fault("imbalance", (), (place,), text, (place,))
