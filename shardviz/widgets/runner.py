"""Runs specs on real ranks that stay warm between runs, off the thread that asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from shardviz.core.errors import RanksError, RequestError
from shardviz.core.spec import Spec
from shardviz.core.trace import Trace

__all__ = ["Maker", "Runner", "Warm"]

JOIN_SECONDS = 20.0
STOPPED = "The run was stopped."

Progress = Callable[[str, float], None]
Ended = Callable[[Trace | Exception], None]


class Warm(Protocol):
    """What a runner needs of ranks: a part of `Ranks`."""

    n: int

    def start(self) -> object:
        """Start, unless they run."""

    def stop(self) -> None:
        """End them, whatever they are doing."""

    def run(self, spec: Spec) -> Trace:
        """Record a spec."""

    def redistribute(self, spec: Spec, placements: Sequence[Any]) -> Trace:
        """Record how torch takes it to other placements."""

    def interrupt(self) -> None:
        """Make a run in another thread raise."""


Maker = Callable[[int, Progress], Warm]
"""Makes that many ranks, not yet started, that tell their progress."""


def real_ranks(n: int, progress: Progress) -> Warm:
    """Ranks on this machine."""
    from shardviz.ranks.cluster import Ranks  # ipyparallel is needed for a run alone

    return Ranks(n, progress=progress)


class Runner:
    """One run at a time; a mesh of fewer ranks uses a part of those that are warm, a larger one starts more.

    Args:
        most: the most ranks to start.
        make: makes the ranks.
    """

    def __init__(self, most: int, make: Maker = real_ranks) -> None:
        self.most = most
        self._make = make
        self._ranks: Warm | None = None
        self._run: _Run | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a run is on its way."""
        return self._run is not None and not self._run.ended

    @property
    def stopping(self) -> bool:
        """Whether the last run was asked to stop."""
        return self._run is not None and self._run.stopped

    def run(self, spec: Spec, progress: Progress, ended: Ended, target: Spec | None = None) -> None:
        """Begin a run in a thread of its own.

        Args:
            spec: the question.
            progress: called from that thread with a sentence and the fraction done.
            ended: called once, with the recorded trace or with what went wrong, from that thread or from the one that stops it.
            target: where a redistribution is to lead; None to put the whole tensor together.

        Raises:
            RequestError: the mesh has more ranks than the bound, or a run is on its way.
        """
        needed = max(spec.mesh.ranks) + 1
        if needed > self.most:
            raise RequestError(
                f"This mesh needs {needed} ranks, and this explorer starts at most {self.most}: "
                f"sv.explore(spec, max_ranks={needed}) would start them."
            )
        if self.busy:
            raise RequestError("A run is on its way: stop it first.")
        self._run = run = _Run(spec, target, progress, ended)
        before = self._thread
        self._thread = threading.Thread(target=self._work, args=(run, needed, before), daemon=True, name="shardviz-run")
        self._thread.start()

    def stop(self) -> None:
        """Make the present run end at once, with an error; the ranks are replaced at the next run."""
        run = self._run
        if run is None:
            return
        run.stopped = True
        if self._ranks is not None:
            self._ranks.interrupt()
        if not run.started:  # a start takes seconds to give up: it does so by itself
            run.end(RanksError(STOPPED))

    def close(self) -> None:
        """End the run and the ranks."""
        self.stop()
        if self._ranks is not None:
            self._ranks.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
        self._ranks = None

    def _work(self, run: _Run, needed: int, before: threading.Thread | None) -> None:
        result: Trace | Exception
        if before is not None and before.is_alive():
            run.tell("ending the start that was stopped", 0.0)
            before.join()
        try:
            ranks = self._warm(run, needed)
            run.tell(f"running {run.spec}", 1.0)
            run.started = True
            target = run.target
            result = ranks.run(run.spec) if target is None else ranks.redistribute(run.spec, target.placements)
        except Exception as error:  # the explorer shows whatever it is
            result = error
        run.end(result)

    def _warm(self, run: _Run, needed: int) -> Warm:
        """Running ranks, at least so many."""
        ranks = self._ranks
        if ranks is None or ranks.n < needed:
            if ranks is not None:
                run.tell(f"ending {ranks.n} ranks to start {needed}", 0.0)
                ranks.stop()
            ranks = self._ranks = self._make(needed, self._tell)
        if not run.stopped:
            ranks.start()
        if run.stopped:
            ranks.stop()
            raise RanksError(STOPPED)
        return ranks

    def _tell(self, sentence: str, fraction: float) -> None:
        if self._run is not None:
            self._run.tell(sentence, fraction)


class _Run:
    """One run: what it is about, and how far it is."""

    def __init__(self, spec: Spec, target: Spec | None, progress: Progress, ended: Ended) -> None:
        self.spec = spec
        self.target = target
        self.stopped = False
        self.started = False
        self.ended = False
        self._progress = progress
        self._told = ended
        self._lock = threading.Lock()

    def tell(self, sentence: str, fraction: float) -> None:
        """Tell how far it is, while somebody waits for it."""
        if not self.ended:
            self._progress(sentence, fraction)

    def end(self, result: Trace | Exception) -> None:
        """Hand the result over, once."""
        with self._lock:
            if self.ended:
                return
            self.ended = True
        self._told(result)
