"""Trying things on real ranks that may raise on some and leave the others waiting: one after the other, each within a bound.

Every attempt is remembered in a directory that the ranks share. After it the ranks meet; where some do not come, the call is
given up, and the next one goes on behind the attempt that hung, in new processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from shardviz.core.errors import RankFailure
from shardviz.core.runs import Runs

if TYPE_CHECKING:
    from shardviz.ranks.cluster import Ranks

__all__ = ["NOT_TRIED", "Journal", "Outcome", "Trials", "try_on"]

MEETING = 1 / 4
"""How long those who have come through an attempt wait for the others, as a part of what a call may take."""

BATCH = 1 / 3
"""After this part of what a call may take, it ends, and the next one goes on."""


@dataclass(frozen=True)
class Outcome:
    """What came of one attempt on one rank.

    Attributes:
        refused: the exception, or "".
        wrong: the rows that came out wrong.
        hangs: whether the rank waited for others until it was ended.
        tried: false where this rank had no part in it, or it was never reached.
    """

    refused: str = ""
    wrong: Runs = ()
    hangs: bool = False
    tried: bool = True

    @property
    def right(self) -> bool:
        """Whether nothing went wrong here."""
        return not (self.refused or self.wrong or self.hangs)


Journal: TypeAlias = dict[str, list[Outcome]]
"""What came of every attempt, by rank."""

NOT_TRIED = Outcome(tried=False)


class Trials:
    """Inside a rank: performs attempts, skips those that are over, and meets the other ranks after each."""

    def __init__(self, directory: str, over: Sequence[str], seconds: float) -> None:
        import torch.distributed as dist

        self.directory = Path(directory)
        notes = _read(directory, dist.get_world_size())
        self._over = {name: all(_came_through(note.get(name, NOT_TRIED)) for note in notes) for name in over}
        self._seconds = seconds
        self._group = dist.new_group(backend="gloo")  # apart from the model's, whose collectives may stand still
        self._file = self.directory / f"rank{dist.get_rank()}.jsonl"
        self._begun = time.monotonic()
        self.stopped = False

    def __call__(self, name: str, call: Callable[[], Runs] | None, *, again: bool = False) -> bool:
        """Perform one attempt; every rank names the same one, and has None for it where it has no part.

        Args:
            name: of the attempt, the only one of this name.
            call: gives the rows that come out wrong; what it raises is its outcome.
            again: also where it was performed by a former call, because what follows needs it.

        Returns:
            Whether it came through on every rank, now or in a former call.
        """
        if self.stopped:
            return False
        if name in self._over and not again:
            return self._over[name]
        outcome = NOT_TRIED
        if call is not None:
            self._write(name, None)
            outcome = attempt(call)
            self._write(name, outcome)
        return self._meet(outcome)

    def _meet(self, mine: Outcome) -> bool:
        """Wait for the other ranks; whether none of them raised.

        Raises:
            RankFailure: some rank did not come; or some raised and others did not, and so may have left collectives behind in
                which the others had no part: what follows needs new ranks.
        """
        import torch
        import torch.distributed as dist

        spent = time.monotonic() - self._begun > self._seconds * BATCH
        flags = torch.tensor([int(bool(mine.refused)), int(mine.tried and not mine.refused), int(spent)])
        work = dist.all_reduce(flags, dist.ReduceOp.MAX, group=self._group, async_op=True)
        try:
            work.wait(timedelta(seconds=self._seconds * MEETING))
        except RuntimeError as error:
            raise RankFailure("some ranks did not come through the attempt", dist.get_rank()) from error
        raised, came_through, self.stopped = map(bool, flags)
        if raised and came_through:
            raise RankFailure("the attempt was refused on some ranks alone", dist.get_rank())
        return not raised

    def gather(self, mine: Any) -> list[Any]:
        """What every rank says, in rank order."""
        import torch.distributed as dist

        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, mine, group=self._group)
        return found

    def _write(self, name: str, outcome: Outcome | None) -> None:
        said = None if outcome is None else [outcome.refused, outcome.wrong]
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, said]) + "\n")


def attempt(call: Callable[[], Runs]) -> Outcome:
    """What a call gave: the rows that came out wrong, or its exception."""
    try:
        return Outcome("", call())
    except BaseException as error:  # a checkpoint's exception is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Outcome(f"{type(error).__name__}: {lines[-1] if lines else 'without text'}"[:300])


def try_on(
    ranks: Ranks, program: Callable[..., Any], args: Sequence[Any], directory: str, last: Sequence[str] = ("build",)
) -> tuple[list[Any] | None, Journal]:
    """Run a program of attempts to its end, however many of them hang.

    Args:
        ranks: running ranks; their `timeout` bounds every single attempt.
        program: importable, called in every rank as `program(trials, *args)`; what it returns must be plain.
        args: plain data.
        directory: a new one, which all ranks see.
        last: attempts that must come through for anything else to be tried.

    Returns:
        What the program returned on each rank, None where it never came to its end; and what came of every attempt.

    Raises:
        RankFailure: a rank failed outside of any attempt.
    """
    over: list[str] = []
    died: dict[tuple[str, int], str] = {}
    while True:
        answers: list[Any] | None = None
        failure: RankFailure | None = None
        try:
            answers = ranks.apply(perform, program, tuple(args), directory, tuple(over), ranks.timeout)
        except RankFailure as caught:
            failure = caught
        notes = _read(directory, ranks.n)
        begun = list(dict.fromkeys(name for note in notes for name in note))
        stuck = [name for name in begun if any(note.get(name, NOT_TRIED) is None for note in notes) and name not in over]
        if failure is not None:
            words = str(failure).splitlines()[0]
            dead = "was killed" in words or "exited with code" in words
            if not set(begun) - set(over):
                raise failure
            if dead and stuck:
                died[stuck[-1], failure.rank] = words
        fresh = set(begun) - set(over)
        over = begun
        lost = set(last) & {name for name in begun if not all(_came_through(note.get(name, NOT_TRIED)) for note in notes)}
        if (answers is not None and all(done for done, _ in answers)) or lost:
            return answers and [value for _, value in answers], _journal(notes, begun, died)
        if not fresh:
            raise failure or RankFailure("the attempts do not go on", 0)


def perform(
    program: Callable[..., Any], args: Sequence[Any], directory: str, over: Sequence[str], seconds: float
) -> tuple[bool, Any]:
    """Called in a rank: the program, from where it stopped; whether it came to its end, and what it returned."""
    trials = Trials(directory, over, seconds)
    value = program(trials, *args)
    return not trials.stopped, value


def _read(directory: str, n: int) -> list[dict[str, Outcome | None]]:
    """The last word of every rank about every attempt; None where it began and did not come through."""
    found: list[dict[str, Outcome | None]] = []
    for rank in range(n):
        file = Path(directory) / f"rank{rank}.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        notes: dict[str, Outcome | None] = {}
        for line in lines:
            name, said = json.loads(line)
            notes[name] = None if said is None else Outcome(said[0], tuple((start, stop) for start, stop in said[1]))
        found.append(notes)
    return found


def _came_through(outcome: Outcome | None) -> bool:
    return outcome is not None and not outcome.refused


def _journal(notes: Sequence[dict[str, Outcome | None]], begun: Sequence[str], died: dict[tuple[str, int], str]) -> Journal:
    found: Journal = {}
    for name in begun:
        found[name] = []
        for rank, note in enumerate(notes):
            outcome = note.get(name, NOT_TRIED)
            if outcome is None:
                outcome = Outcome(died[name, rank]) if (name, rank) in died else Outcome(hangs=True)
            found[name].append(outcome)
    return found
