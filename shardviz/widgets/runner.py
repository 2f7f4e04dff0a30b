"""Runs specs on real ranks that stay warm between runs, off the thread that asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from shardviz.core.errors import RanksError, RequestError
from shardviz.core.spec import Spec
from shardviz.core.trace import Trace

__all__ = ["Maker", "Runner", "Warm"]

JOIN_SECONDS = 20.0

Progress = Callable[[str, float], None]


class Warm(Protocol):
    """What a runner needs of ranks: a part of `Ranks`."""

    n: int

    def start(self) -> object:
        """Start, unless they run."""

    def stop(self) -> None:
        """End them, whatever they are doing."""

    def run(self, spec: Spec) -> Trace:
        """Record a spec."""

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
        self._thread: threading.Thread | None = None
        self._busy = False
        self._stopping = False
        self._progress: Progress = lambda _sentence, _fraction: None

    @property
    def busy(self) -> bool:
        """Whether a run is on its way."""
        return self._busy

    @property
    def stopping(self) -> bool:
        """Whether the present run was asked to stop."""
        return self._stopping

    def run(self, spec: Spec, progress: Progress, ended: Callable[[Trace | Exception], None]) -> None:
        """Begin a run in a thread of its own.

        Args:
            spec: the question.
            progress: called from that thread with a sentence and the fraction done.
            ended: called from that thread with the recorded trace, or with what went wrong.

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
        self._busy, self._stopping = True, False
        self._progress = progress
        self._thread = threading.Thread(target=self._work, args=(spec, needed, ended), daemon=True, name="shardviz-run")
        self._thread.start()

    def stop(self) -> None:
        """Make the present run end at once, with an error; the ranks are replaced at the next run."""
        self._stopping = True
        if self._ranks is not None:
            self._ranks.interrupt()

    def close(self) -> None:
        """End the run and the ranks."""
        self._stopping = True
        if self._ranks is not None:
            self._ranks.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
        self._ranks = None

    def _work(self, spec: Spec, needed: int, ended: Callable[[Trace | Exception], None]) -> None:
        result: Trace | Exception
        try:
            ranks = self._warm(needed)
            self._progress(f"running {spec}", 1.0)
            result = ranks.run(spec)
        except Exception as error:  # the explorer shows whatever it is
            result = error
        self._busy = False
        ended(result)

    def _warm(self, needed: int) -> Warm:
        """Running ranks, at least so many."""
        ranks = self._ranks
        if ranks is None or ranks.n < needed:
            if ranks is not None:
                self._progress(f"ending {ranks.n} ranks to start {needed}", 0.0)
                ranks.stop()
            ranks = self._ranks = self._make(needed, self._tell)
        ranks.start()
        if self._stopping:
            raise RanksError("The run was stopped.")
        return ranks

    def _tell(self, sentence: str, fraction: float) -> None:
        self._progress(sentence, fraction)
