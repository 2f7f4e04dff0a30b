"""One error from what went wrong on several ranks: the cause first, what follows from it folded into a line."""

import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardviz.core.errors import FileError, RankFailure
from shardviz.core.mesh import Mesh
from shardviz.core.recording import Event, rank_list
from shardviz.core.recording_lines import merge, read_lines
from shardviz.ranks.calls import OBSERVER, Raised

LOG_LINES = 12
_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


@dataclass(frozen=True)
class Died:
    """A rank whose process ended.

    Attributes:
        exit_code: negative for the signal that killed it.
        log: the end of what it printed.
        doing: its last collective, in words; "" where it called none.
    """

    exit_code: int
    log: str
    doing: str = ""

    def __str__(self) -> str:
        if self.exit_code >= 0:
            return f"exited with code {self.exit_code}"
        name = signal.Signals(-self.exit_code).name
        hint = " (the out-of-memory killer does this too)" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"


@dataclass(frozen=True)
class Unfinished:
    """A rank that was still running.

    Attributes:
        doing: where it was, in words; empty when that is not known.
        waiting: whether it was inside a collective, waiting for others.
    """

    doing: str = ""
    waiting: bool = False


Fault = Raised | Died | Unfinished


def explain(faults: Mapping[int, Fault], n: int, mesh: Mesh | None = None, differing: Event | None = None) -> RankFailure:
    """Tell which rank failed and how, once at least one of `n` raised or died.

    Args:
        faults: what happened, by rank; a rank that returned its result is not in it.
        n: number of ranks.
        mesh: whose coordinates to tell.
        differing: the collective that the ranks called in different ways, if there was one: it comes first.
    """
    died = [rank for rank, fault in sorted(faults.items()) if isinstance(fault, Died)]
    raised = {rank: fault for rank, fault in sorted(faults.items()) if isinstance(fault, Raised)}
    if died:
        # Peers of a dead rank raise as soon as its connections close, often before its death is known.
        culprit = died[0]
    else:
        first = min(raised.values(), key=lambda fault: fault.at)
        culprit = next(rank for rank, fault in raised.items() if fault.summary == first.summary)
    fault = faults[culprit]
    who = _of([culprit], n, mesh)
    if isinstance(fault, Raised):
        story = f"{who} raised {fault.summary}\n\n{fault.traceback}"
    else:
        assert isinstance(fault, Died)
        story = f"{who} {fault}"
        story += f", {fault.doing}" if fault.doing else ""
        story += f"\n\nthe end of its log:\n{fault.log}" if fault.log else ", and its log is empty"
    others = {rank: other for rank, other in faults.items() if rank != culprit}
    return _failure(differing, "\n\n".join([story, *_folded(others, fault)]), culprit, mesh)


def _failure(differing: Event | None, story: str, culprit: int, mesh: Mesh | None) -> RankFailure:
    if differing is None:
        return RankFailure(story, culprit)
    lines = [f"the ranks called different collectives, as number {differing.number + 1} of {rank_list(differing.group)}"]
    for call, ranks in differing.by_call.items():
        lines.append(f"{rank_list(ranks)}{_at(ranks, mesh)}: {call}")
    first = next(iter(differing.by_call.values()))
    return RankFailure("\n".join(lines) + f"\n\n{story}", first[0])


def differing(records: Iterable[bytes]) -> Event | None:
    """The first collective of a call that its ranks called in different ways.

    Args:
        records: what each rank wrote of its collectives (`watch`).
    """
    logs = []
    for record in records:
        try:
            logs.append(read_lines(record))
        except FileError:  # a rank that ended before its first line
            continue
    events = merge(logs).events if logs else ()
    return next((event for event in sorted(events, key=lambda event: event.number) if event.differs), None)


def _of(ranks: Sequence[int], n: int, mesh: Mesh | None) -> str:
    return f"{_list(ranks)} of {n}{_at(ranks, mesh)}"


def _at(ranks: Sequence[int], mesh: Mesh | None) -> str:
    """Where ranks stand in a mesh, as in ` (dp=1, tp=0)`."""
    if mesh is None or not all(rank in mesh.ranks for rank in ranks):
        return ""
    places = [zip(mesh.names, mesh.coordinate(rank), strict=True) for rank in ranks]
    return f" ({'; '.join(', '.join(f'{name}={index}' for name, index in place) for place in places)})"


def _folded(others: Mapping[int, Fault], first: Fault) -> list[str]:
    """One line for each kind of fault that came with the first."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for rank, fault in sorted(others.items()):
        if isinstance(fault, Unfinished):
            kinds["had not finished and {were} stopped"].append(rank)
        elif isinstance(fault, Died):
            kinds[str(fault)].append(rank)
        elif isinstance(first, Raised) and fault.summary == first.summary:
            kinds["raised the same"].append(rank)
        else:
            kinds[f"stopped with it: {first_sentence(fault.summary)}"].append(rank)
    return [
        f"{len(ranks)} other {'rank' if len(ranks) == 1 else 'ranks'} ({_list(ranks)}) "
        + what.replace("{were}", "was" if len(ranks) == 1 else "were")
        for what, ranks in kinds.items()
    ]


def first_sentence(summary: str) -> str:
    """A secondary error without what differs from rank to rank: where in torch's source, and which address and port."""
    line = re.sub(r"\[[^\]]*\.(cc|cpp|h):\d+\] *", "", summary.split("\n")[0])
    return re.sub(r" *\[[\d.:a-f]+\](:\d+)?", "", line).split(". ")[0].rstrip(".")


def explain_timeout(
    unfinished: Mapping[int, Unfinished], n: int, seconds: float, mesh: Mesh | None = None, differing: Event | None = None
) -> RankFailure:
    """Tell which ranks had not finished after `seconds`: those that did not come before those that waited for them."""
    absent = {rank: fault for rank, fault in unfinished.items() if not fault.waiting}
    waiting = {rank: fault for rank, fault in unfinished.items() if fault.waiting}
    lines = []
    if absent and waiting:
        lines.append(f"{_of(sorted(absent), n, mesh)} did not come to the collective in {seconds:g} s")
    else:
        lines.append(f"{_of(sorted(unfinished), n, mesh)} did not finish in {seconds:g} s")
    lines += describe({**absent, **waiting})
    if returned := sorted(set(range(n)) - set(unfinished)):
        lines.append(f"{_list(returned)}: returned")
    return _failure(differing, "\n".join(lines), min(absent or waiting), mesh)


def describe(unfinished: Mapping[int, Unfinished]) -> list[str]:
    """One line for each thing that ranks were doing."""
    doing: dict[str, list[int]] = defaultdict(list)
    for rank, fault in unfinished.items():
        doing[fault.doing or "doing nothing that could be seen"].append(rank)
    return [f"{_list(ranks)}: {what}" for what, ranks in doing.items()]


def _list(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(map(str, ranks))}"


def unfinished(stack: str) -> Unfinished:
    """Read what a rank was doing off the stack that faulthandler wrote, innermost frame first."""
    frames = []
    for match in _FRAME.finditer(stack):
        if match["file"].endswith("shardviz/ranks/calls.py"):
            break
        if not match["file"].endswith(OBSERVER):  # it stands between a collective and its caller
            frames.append(match)
    if not frames:
        return Unfinished()
    inner = [frame for frame in frames if "/torch/" in frame["file"]]
    outer = next((frame for frame in frames if "/torch/" not in frame["file"]), frames[-1])
    waiting = bool(inner) and frames[0] is inner[0] and any("/torch/distributed/" in frame["file"] for frame in inner)
    place = f"{outer['function']} ({outer['file']}, line {outer['line']})"
    if not waiting:
        return Unfinished(f"in {place}")
    collective = next((f["function"] for f in inner if f["function"] not in ("wrapper", "__call__")), inner[0]["function"])
    return Unfinished(f"waiting in {collective}, called by {place}", waiting=True)


def end_of_log(text: str) -> str:
    """The last lines of a log."""
    return "\n".join(text.rstrip().splitlines()[-LOG_LINES:])


def last_collective(record: bytes) -> str:
    """The last collective that a rank called, in words, from what it wrote of them; "" where it called none."""
    try:
        log = read_lines(record)
    except FileError:
        return ""
    events = merge([log]).events
    if not events:
        return ""
    call = max((call for event in events for call in event.calls if call), key=lambda call: call.at)
    state = "during" if call.seconds is None else "after"
    return f"{state} {call.text}" + (f", called by {call.place}" if call.place else "")
