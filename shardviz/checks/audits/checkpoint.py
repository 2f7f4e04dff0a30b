"""What a distributed checkpoint of one tensor dimension comes to: saving, loading it again, loading a whole one, exporting."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from shardviz.checks.audits.kinds import Fault, Place, fault
from shardviz.checks.audits.lines import Line, differing, merged
from shardviz.core.runs import Run, Runs, length, piece, run_text, runs_text

__all__ = ["checkpoint_faults", "rows_text"]

SHOWN = 4
"""The most runs that a sentence lists."""


def checkpoint_faults(found: Line) -> Iterator[Fault]:
    """What goes wrong between `torch.distributed.checkpoint` and a line that torch reports wrongly."""
    if not found.wrong:
        return
    refused = _refused(found)
    if refused:
        yield refused
    else:
        yield _loses(found)
        yield from _export(found)
    yield _onto(found)


def _refused(found: Line) -> Fault | None:
    """The save plan's validation: boxes out of bounds or overlapping. Their volume is always right: they are one partition."""
    size = found.question.size
    boxes = sorted((box.run, place) for place, box in found.reported.items() if box.size)
    beyond = [(run, place) for run, place in boxes if run[1] > size]
    if beyond:
        run, place = beyond[0]
        text = f"the save is refused: torch reports rank {{0}} {{rows}} {run_text(run)}, and there are {size}"
        return fault("checkpoint-refused", ((max(run[0], 0), size),), tuple(place for _, place in beyond), text, (place,))
    claimed: list[tuple[int, Run, Place]] = []  # by where they end: those that reach into what comes next
    twice: list[tuple[Run, Place, Place]] = []
    for run, place in boxes:
        claimed = [one for one in claimed if one[0] > run[0]]
        twice += [((run[0], min(run[1], stop)), other, place) for stop, _, other in claimed]
        insort(claimed, (run[1], run, place))
    if not twice:
        return None
    shared, one, other = twice[0]
    text = (
        f"the save is refused (overlapping chunks): torch reports rank {{0}} {rows_text((found.reported[one].run,))} and rank "
        f"{{1}} {rows_text((found.reported[other].run,))}, so {rows_text(((shared),))} would be saved twice"
    )
    indices = merged(run for run, _, _ in twice)
    places = tuple(sorted({place for _, *pair in twice for place in pair}))
    return fault("checkpoint-refused", indices, places, text, (one, other))


def _loses(found: Line) -> Fault:
    """A save that is accepted: each place loads as many of its first elements again as are reported."""
    short = tuple(place for place in found.wrong if found.surplus(place) > 0)
    lost = merged(run for p in short for run in piece(found.held[p], found.reported[p].size, length(found.held[p])))
    if not lost:  # the sizes are right, and the places are not
        indices = found.rows(found.wrong)
        text = (
            f"a checkpoint is saved without an error, but {rows_text(indices)} stand under wrong numbers: any other layout "
            "loads them shuffled"
        )
        return fault("checkpoint-loses-elements", indices, found.wrong, text)
    verb = "keeps its old value" if length(lost) == 1 else "keep their old values"
    text = (
        f"a checkpoint is saved and loaded without an error, and {rows_text(lost)} {verb} on rank {{0}}, which holds "
        f"{rows_text(found.held[short[0]])} and is reported {_count(found.reported[short[0]].size)}"
    )
    return fault("checkpoint-loses-elements", lost, short, text, (short[0],))


def _onto(found: Line) -> Fault:
    """A whole checkpoint that is loaded onto this mesh: each place asks for the box that torch reports."""
    more = tuple(place for place in found.wrong if found.surplus(place) < 0)
    indices = merged((*found.rows(found.wrong), *(found.reported[place].run for place in found.wrong)))
    if more:
        place = more[0]
        text = (
            f"no whole checkpoint can be loaded onto this mesh: rank {{0}} asks for {found.reported[place].size} and holds "
            f"{length(found.held[place]) or 'none'}"
        )
        return fault("checkpoint-unloadable", indices, more, text, (place,))
    indices = merged(run for place in found.wrong for run in differing(found.held[place], (found.reported[place].run,)))
    text = f"a whole checkpoint loads onto this mesh without an error, and {rows_text(indices)} are not what they should be"
    return fault("load-shifts-rows", indices, found.wrong, text)


def _export(found: Line) -> Iterator[Fault]:
    """The Hugging Face writer with consolidation takes the size from what is stored, and where it is said to begin."""
    size = found.question.size
    kept = [box.first + length(found.held[place]) for place, box in found.reported.items() if box.size]
    # Of those said to be empty one is kept: all of them are said to begin at the end.
    empty = [place for place, box in found.reported.items() if not box.size]
    ends = [max([*kept, size + length(found.held[place])]) for place in empty] or [max(kept)]
    if all(end == size for end in ends):
        return
    usual = ends[0]  # of equal plans, torch keeps that of the lowest rank
    wrong = usual if usual != size else next(end for end in ends if end != size)
    text = f"exported to Hugging Face files and consolidated, the dimension has {wrong} instead of {size}"
    if len(set(ends)) > 1:
        text += f" (or {', '.join(map(str, sorted({*ends} - {wrong})))}: that hangs on what else is saved)"
    indices = ((size, wrong),) if wrong > size else ((wrong, size),)
    places = tuple(p for p, box in found.reported.items() if box.first + length(found.held[p]) > size) or tuple(empty)
    yield fault("export-wrong-shape", indices, places, text)


def rows_text(runs: Runs) -> str:
    """Indices in a sentence, a few of them; the word for them is filled in later: {row} or {rows}."""
    return f"{{row{'s' * (length(runs) != 1)}}} {runs_text(runs, SHOWN)}"


def _count(rows: int) -> str:
    return f"{rows} row{'s' * (rows != 1)}" if rows else "none"
