"""Loading a full state dict into one tensor dimension: what each way of `set_model_state_dict` leaves on the ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from shardviz.checks.audits.checkpoint import rows_text
from shardviz.checks.audits.kinds import Fault, Place, as_warning, fault
from shardviz.checks.audits.lines import Line, columns, differing, merged
from shardviz.core.runs import Run, Runs, length, piece, strided_chunk, strided_chunks

__all__ = ["load_faults"]


def load_faults(found: Line) -> Iterator[Fault]:
    """What goes wrong with `full_state_dict=True`: broadcast from rank 0 into meta or real parameters, and not broadcast."""
    if found.wrong:
        yield from _broadcast_to_meta(found)
        yield from _broadcast_to_memory(found)
    yield from _not_broadcast(found)


def _broadcast_to_meta(found: Line) -> Iterator[Fault]:
    """Each place takes the reported box for its shard; FSDP2 pads it, and cuts the gathered column to its size."""
    wrong: list[Run] = []
    places: list[Place] = []
    for members in columns(found).values() if found.question.fsdp else ([place] for place in found.held):
        total = sum(length(found.held[place]) for place in members)
        share = math.ceil(total / len(members))
        too_many = [place for place in members if found.reported[place].size > share]
        if too_many and found.question.fsdp:
            box = found.reported[too_many[0]]
            text = (
                f"parameters on the meta device cannot be loaded from rank 0's full state dict: rank {{0}} is given {box.size} "
                f"{{rows}} and has room for {share}"
            )
            yield fault("load-refused", (box.run,), tuple(too_many), text, (too_many[0],))
            return
        used = _used(found, tuple(members), share, total)
        held = found.rows(members) if found.question.decodes else tuple(r for p in members for r in found.held[p])
        off = differing(held, used)
        if off:
            wrong += off
            places += members
    if wrong:
        indices = merged(wrong)
        text = (
            f"parameters on the meta device, loaded from rank 0's full state dict: no error, and the forward pass of rank "
            f"{{0}} and its like uses wrong values in {rows_text(indices)}"
        )
        yield fault("load-shifts-rows", indices, tuple(places), text, (places[0],))


def _used(found: Line, members: tuple[Place, ...], share: int, total: int) -> Runs:
    """What a column uses: the boxes one after the other, each padded to FSDP2's share, up to its size."""
    runs: list[Run] = []
    for place in members:
        box = found.reported[place]
        runs.append(box.run)
        if box.size < share and found.question.fsdp:
            runs.append((box.size - share, 0))
    whole = tuple(run for run in runs if run[0] != run[1])
    return piece(whole, 0, total) if total else ()


def _broadcast_to_memory(found: Line) -> Iterator[Fault]:
    """Each place copies the reported box into what it holds; torch spreads a box of one over any number."""
    refusing = tuple(p for p in found.wrong if found.surplus(p) and found.reported[p].size != 1)
    if refusing:
        place = refusing[0]
        text = (
            f"real parameters cannot be loaded from rank 0's full state dict: rank {{0}} would copy "
            f"{found.reported[place].size} {{rows}} into {length(found.held[place])}; it raises, and the other ranks wait"
        )
        indices = merged((*found.rows(refusing), *(found.reported[p].run for p in refusing)))
        yield fault("load-refused", indices, refusing, text, (place,))
        return
    wrong, places = list[Run](), list[Place]()
    for place in found.wrong:
        box, count = found.reported[place], length(found.held[place])
        copied = tuple(box.run for _ in range(count)) if found.surplus(place) else (box.run,)
        off = differing(found.held[place], copied)
        if off:
            wrong += off
            places.append(place)
    if wrong:
        indices = merged(wrong)
        text = f"real parameters, loaded from rank 0's full state dict: no error, and {rows_text(indices)} get others' values"
        yield fault("load-shifts-rows", indices, tuple(places), text)


def _not_broadcast(found: Line) -> Iterator[Fault]:
    """Without broadcast torch cuts the tensor by its placements, and does so only where every strided cut comes out even."""
    asked = found.question
    lists: dict[Place, Runs] = {(): ((0, asked.size),) if asked.size else ()}
    for cut, factor in zip(asked.cuts, asked.factors, strict=True):
        if factor > 1:  # no index has more than the first, and none less than the last
            ends = {place: [strided_chunk(runs, factor, cut, index) for index in (0, cut - 1)] for place, runs in lists.items()}
            uneven = {place for place, (first, last) in ends.items() if length(first) != length(last)}
            if uneven:
                yield _not_taken(found, [place for place in found.held if place[: len(next(iter(uneven)))] in uneven])
                return
        lists = {
            (*place, index): part
            for place, runs in lists.items()
            for index, part in enumerate(strided_chunks(runs, factor, cut))
        }
    unfit = [place for place in found.held if length(lists[place]) != length(found.held[place])]
    if unfit:
        yield _not_taken(found, unfit)
        return
    off = {place: differing(found.held[place], lists[place]) for place in found.held}
    indices = merged(run for runs in off.values() for run in runs)
    if indices:
        text = f"a full state dict that every rank has, not broadcast: no error, and {rows_text(indices)} are shifted"
        yield fault("load-shifts-rows", indices, tuple(place for place, runs in off.items() if runs), text)


def _not_taken(found: Line, places: Sequence[Place]) -> Fault:
    where = "" if len(places) == len(found.held) else ", on rank {0} and its like alone"
    text = f"a full state dict that every rank has, not broadcast, is refused{where}: the cut is uneven"
    return as_warning(fault("load-refused", ((0, found.question.size),), tuple(places), text, (places[0],)))
