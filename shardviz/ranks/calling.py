"""Calling all ranks at the same time, and waiting for them however they end."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import ipyparallel as ipp

from shardviz.core.errors import RanksError
from shardviz.core.mesh import Mesh
from shardviz.core.recording import Event
from shardviz.ranks import calls, faults, returning

__all__ = ["Calling"]

# After the first failure the others get this long to fail in their own words.
GRACE_SECONDS = 1.0
LOOK_SECONDS = 60.0


class Calling(ABC):
    """Engines that are ranks of one group, as far as calling them goes.

    Attributes:
        n: number of ranks.
        dirty: whether the present ranks must be replaced, or joined anew, before the next call.
    """

    def __init__(self, n: int, interrupted: threading.Event) -> None:
        self.n = n
        self.dirty = True
        self._interrupted = interrupted
        self._changed = threading.Event()
        self._engines: list[int] = []
        self._busy: list[int] = []  # ranks whose call is running
        self._replies: list[Any] = []
        self._client: Any = None

    def call(self, packed: Sequence[bytes], seconds: float, mesh: Mesh | None = None) -> list[Any]:
        """Perform one packed call per rank, all at the same time.

        Args:
            packed: one call per rank.
            seconds: how long it may take.
            mesh: whose coordinates a failure tells.

        Returns:
            The results in rank order.

        Raises:
            RankFailure: a rank raised or died, or some had not finished after `seconds`.
            RanksError: the call was interrupted, or the cluster itself broke.
        """
        # However this call is left, its ranks count as dirty until it has gone well.
        self.dirty = True
        give_up = time.monotonic() + seconds
        each = zip(self._engines, packed, strict=True)
        self._replies = [self._client[engine].apply_async(calls.perform, call) for engine, call in each]
        for reply in self._replies:
            reply.add_done_callback(lambda _: self._changed.set())
        outcomes: dict[int, Any] = {}
        while True:
            self._changed.clear()
            for rank, reply in enumerate(self._replies):
                if rank not in outcomes and (outcome := self._outcome(rank, reply)):
                    outcomes[rank] = outcome
            self._busy = [rank for rank in range(self.n) if rank not in outcomes]
            self._check()
            failed = {rank: outcome for rank, outcome in outcomes.items() if not isinstance(outcome, calls.Returned)}
            if not failed and not self._busy:
                self.dirty = False
                results = [outcomes[rank].value for rank in range(self.n)]
                return returning.beside(results) if any(one.tensors for one in outcomes.values()) else results
            if failed:
                give_up = min(give_up, time.monotonic() + GRACE_SECONDS)
            left = give_up - time.monotonic()
            if failed and (left <= 0 or not self._busy):
                unfinished = {rank: faults.Unfinished() for rank in self._busy}
                raise faults.explain({**failed, **unfinished}, self.n, mesh, self._differing())
            if left <= 0:
                raise faults.explain_timeout(self.doing(), self.n, seconds, mesh, self._differing())
            self._changed.wait(min(left, LOOK_SECONDS))

    def _outcome(self, _rank: int, reply: Any) -> calls.Returned | calls.Raised | faults.Died | None:
        """How the call of a rank ended; None while it runs."""
        if not reply.done():
            return None
        try:
            return calls.unpack(reply.get(timeout=1))
        except ipp.error.IPythonError as error:
            return calls.Raised(str(error), "", time.time())

    def wake(self) -> None:
        """Have whoever waits for the ranks look again."""
        self._changed.set()

    def _check(self) -> None:
        """Raise when there is no sense in waiting on."""
        if self._interrupted.is_set():
            raise RanksError("\n".join(["The run was interrupted.", *faults.describe(self.doing())]))
        if broken := self.broken():
            raise RanksError(f"The ranks are lost: {broken}.")

    @abstractmethod
    def start(self) -> None:
        """Bring the ranks to life, joined to one group."""

    @abstractmethod
    def renew(self) -> None:
        """Make ranks that work of those that are dirty."""

    @abstractmethod
    def discard(self) -> None:
        """End what the present ranks are doing, as far as that can be done."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; harmless when called again."""

    @abstractmethod
    def broken(self) -> str | None:
        """Why these ranks must be thrown away as a whole, when they must."""

    @abstractmethod
    def lost_a_rank(self) -> bool:
        """Whether a rank has died, or left the cluster, since the last call."""

    @abstractmethod
    def doing(self) -> Mapping[int, faults.Unfinished]:
        """What each rank whose call is running does at this moment, as far as that can be seen."""

    @abstractmethod
    def _differing(self) -> Event | None:
        """The first collective of the call that its ranks called in different ways, where that is known."""
