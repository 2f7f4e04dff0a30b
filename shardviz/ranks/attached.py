"""Ranks on engines that somebody else started: through ipyparallel's launchers for Slurm, SSH, MPI, or by hand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipyparallel as ipp

from shardviz.core.errors import RanksError, RequestError
from shardviz.core.recording import Event, rank_list
from shardviz.ranks import calls, faults, meeting
from shardviz.ranks.binding import BACKENDS, Binding
from shardviz.ranks.calling import Calling
from shardviz.ranks.meeting import EngineFacts

__all__ = ["AttachedRanks", "bind", "survey"]

SURVEY_SECONDS = 60.0
JOIN_SECONDS = 60.0  # the engines import what ranks need
LEAVE_SECONDS = 5.0
# A call is given up by the caller, who can say more, before the group's own limit frees the engines.
SLACK_SECONDS = 2.0


def survey(client: Any) -> dict[int, EngineFacts]:
    """Ask every engine of a cluster what it is.

    Returns:
        The facts by engine id, in the order of the ids.

    Raises:
        RequestError: there is no engine, or one cannot run ranks.
    """
    engines = sorted(client.ids)
    if not engines:
        raise RequestError("The cluster has no engines: start some, and wait for them (client.wait_for_engines).")
    packed = calls.pack(meeting.look_around, (), {})
    replies = {engine: client[engine].apply_async(calls.perform, packed) for engine in engines}
    facts = {}
    for engine, reply in replies.items():
        try:
            outcome = calls.unpack(reply.get(timeout=SURVEY_SECONDS))
        except ipp.error.TimeoutError as error:
            raise RequestError(f"Engine {engine} does not answer: it is busy, or gone.") from error
        except ipp.error.IPythonError as error:
            raise RequestError(f"Engine {engine} cannot run ranks; shardviz must be installed for it: {error}") from error
        if isinstance(outcome, calls.Raised):
            raise RequestError(f"Engine {engine} cannot run ranks: {outcome.summary}")
        facts[engine] = outcome.value
    if len(versions := sorted({fact.torch for fact in facts.values()})) > 1:
        raise RequestError(f"The engines have different versions of torch: {', '.join(versions)}.")
    return facts


def bind(facts: Sequence[EngineFacts], backend: str = "auto") -> Binding:
    """Decide which card each engine uses as a rank: NCCL where each has one of its own, gloo on the CPU otherwise.

    Raises:
        RequestError: the backend cannot be had there.
    """
    if backend not in BACKENDS:
        raise RequestError(f"Unknown backend {backend!r}: use one of {', '.join(BACKENDS)}.")
    taken: Counter[tuple[str, str | None]] = Counter()
    cards = []
    obstacle = ""
    for fact in facts:
        place = (fact.host, fact.visible)  # engines that see the same cards divide them among themselves
        cards.append(taken[place])
        taken[place] += 1
        if not fact.gpus:
            obstacle = f"{fact.host} has no GPU that its engine may use."
        elif not fact.cuda:
            obstacle = f"the torch {fact.torch} of {fact.host} is built without CUDA."
        elif taken[place] > fact.gpus:
            obstacle = f"{fact.host} has more engines than GPUs, and NCCL refuses two ranks on one card."
    if backend == "nccl" and obstacle:
        raise RequestError(f"NCCL cannot run these ranks: {obstacle}")
    n = len(facts)
    if backend == "gloo" or obstacle:
        notice = f"Using gloo on the CPU: {obstacle}" if backend == "auto" and any(fact.gpus for fact in facts) else None
        return Binding("gloo", ("cpu",) * n, ({},) * n, notice)
    return Binding("nccl", tuple(f"cuda:{card}" for card in cards), ({},) * n)


class AttachedRanks(Calling):
    """Engines of a cluster that is not ours, joined to one group. None of them is ever ended."""

    def __init__(
        self,
        client: Any,
        facts: Mapping[int, EngineFacts],
        binding: Binding,
        timeout: float,
        progress: Callable[[str, float], object],
        interrupted: threading.Event,
    ) -> None:
        super().__init__(len(facts), interrupted)
        self._client = client
        self._engines = list(facts)
        self._binding = binding
        self._timeout = timeout
        self._progress = progress
        one_host = len({fact.host for fact in facts.values()}) == 1
        self._address = "127.0.0.1" if one_host else facts[self._engines[0]].address

    def start(self) -> None:
        """Join the engines to one group."""
        self.renew()

    def renew(self) -> None:
        """Join the engines to a new group, once they have finished what they were last called for."""
        self._check()
        until = time.monotonic() + self._timeout + 3 * SLACK_SECONDS
        while busy := [rank for rank, reply in enumerate(self._replies) if not reply.done()]:
            self._check()
            if time.monotonic() > until:
                raise RanksError(
                    f"{rank_list(busy)} still run the last call. shardviz does not end engines that it did not start: "
                    "restart them, and attach again."
                )
            time.sleep(0.05)
        self._progress(f"joining {self.n} engines to one group", 0.5)
        seconds = self._timeout + SLACK_SECONDS
        packed = calls.pack(meeting.host_store, (self._address,), {})
        try:
            reply = calls.unpack(self._client[self._engines[0]].apply_async(calls.perform, packed).get(timeout=JOIN_SECONDS))
        except ipp.error.IPythonError as error:
            raise RanksError(f"The engine of rank 0 does not answer: {error}") from error
        if isinstance(reply, calls.Raised):
            raise RanksError(f"The engine of rank 0 could not open the place where the ranks meet: {reply.summary}")
        cards = [int(device[5:]) if device != "cpu" else None for device in self._binding.devices]
        joins = [
            (rank, self.n, self._binding.group, self._address, reply.value, seconds, card) for rank, card in enumerate(cards)
        ]
        self.call([calls.pack(meeting.join_at, arguments, {}) for arguments in joins], JOIN_SECONDS)
        self._progress(f"{self.n} ranks are ready", 1.0)

    def discard(self) -> None:
        """Leave the engines to the group's own limit, which ends a collective that is not met."""
        self.dirty = True

    def close(self) -> None:
        """Leave the group where the engines are free to do so; they run on."""
        if self.dirty or self.broken():
            return
        packed = calls.pack(meeting.leave, (), {})
        replies = [self._client[engine].apply_async(calls.perform, packed) for engine in self._engines]
        for reply in replies:
            reply.wait(LEAVE_SECONDS)
        self.dirty = True

    def broken(self) -> str | None:
        """Why these engines cannot be ranks any longer, when they cannot."""
        gone = [rank for rank in range(self.n) if self._engines[rank] not in self._client.ids]
        if not gone:
            return None
        return f"{rank_list(gone)} left the cluster, and shardviz starts no engines there: attach again"

    def lost_a_rank(self) -> bool:
        """Whether an engine has left the cluster."""
        return self.broken() is not None

    def doing(self) -> Mapping[int, faults.Unfinished]:
        """Nothing is known of what an engine does that shardviz did not start."""
        return {rank: faults.Unfinished("not known, on a cluster that shardviz did not start") for rank in self._busy}

    def _differing(self) -> Event | None:
        return None
