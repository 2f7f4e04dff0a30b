"""The processes behind a `Ranks` object while they run: controller, forking process, engines, and their directory."""

import asyncio
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import ipyparallel as ipp
from traitlets.config import Config

from shardviz.core.errors import RanksError
from shardviz.core.recording import Event
from shardviz.ranks import calls, faults
from shardviz.ranks.binding import Binding
from shardviz.ranks.calling import Calling
from shardviz.ranks.launcher import ForkedEngines, ForkServer, python_command, python_environment
from shardviz.ranks.order import Order

START_SECONDS = 60.0
STOP_SECONDS = 10.0
STACK_SECONDS = 1.0
GREETING_SECONDS = 0.5
# ipyparallel picks free ports before it binds them: another process can be quicker.
CONTROLLER_ATTEMPTS = 3
CONTROLLER_ARGS = [
    "--ip=127.0.0.1",
    "--location=127.0.0.1",
    # An engine is admitted after its first heartbeats: with the default of three seconds that takes six.
    "--HeartMonitor.period=200",
    # The forking process tells of a death at once; a machine that is merely busy must not count as one.
    "--HeartMonitor.max_heartmonitor_misses=100",
    "--IPController.use_threads=True",
    "--IPController.db_class=NoDB",
]

log = logging.getLogger("shardviz.ranks")
log.addHandler(logging.NullHandler())
T = TypeVar("T")
Progress = Callable[[str, float], object]


class Fleet(Calling):
    """Everything that one start brings to life, and the way to end all of it."""

    def __init__(self, n: int, binding: Binding, progress: Progress, interrupted: threading.Event) -> None:
        super().__init__(n, interrupted)
        self.binding = binding
        self._progress = progress
        self._owner = os.getpid()
        self._generation = -1
        self._deadline = 0.0
        self._cluster: Any = None
        self._server: ForkServer | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="shardviz-"))
        self._loop = asyncio.new_event_loop()
        self._loop_thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="shardviz-cluster")
        self._loop_thread.start()

    def start(self) -> None:
        """Start the controller and the forking process side by side, then the first ranks."""
        self._deadline = time.monotonic() + START_SECONDS
        self._progress("starting the controller and importing torch", 0.0)
        self._server = ForkServer(self._directory, self._changed.set)
        info = self._await(self._start_controller())
        own = str(self._directory)
        self._client = ipp.Client(info["client"], profile_dir=f"{own}/profile", ipython_dir=own, timeout=self._left())
        self._progress("importing torch", 0.4)
        if not self._server.wait_ready(self._left()):
            raise RanksError(f"torch could not be imported for the ranks:\n{_end_of(self._server.log)}")
        self.renew()

    async def _start_controller(self) -> dict[str, Any]:
        self._cluster = ipp.Cluster(
            engines=ForkedEngines,
            config=Config(),
            log=log,
            profile_dir=str(self._directory / "profile"),
            cluster_file="",
            load_profile=False,
            shutdown_atexit=False,
            controller_args=CONTROLLER_ARGS,
        )
        for attempt in range(1, CONTROLLER_ATTEMPTS + 1):
            await self._cluster.start_controller(
                controller_cmd=python_command("shardviz.ranks.controller"),
                environment=python_environment(self._directory),
                stop_seconds_until_kill=1,
            )
            controller = self._cluster.controller
            controller.on_stop(lambda _: self._changed.set())
            try:
                info: dict[str, Any] = await controller.get_connection_info(timeout=self._left())
                return info
            except (RuntimeError, TimeoutError, OSError) as error:
                await self._cluster.stop_controller()
                if attempt == CONTROLLER_ATTEMPTS or self._left() <= 0:
                    tail = faults.end_of_log(controller.get_output())
                    raise RanksError(f"The controller of the ranks could not be started: {error}\n{tail}") from error
        raise AssertionError("unreachable")

    def renew(self) -> None:
        """Replace the ranks by a new generation, joined to a group of its own."""
        assert self._server is not None
        self._deadline = time.monotonic() + START_SECONDS
        self.discard()
        self._generation += 1
        first = self._generation * self.n
        self._engines = list(range(first, first + self.n))
        self._progress(f"forking {self.n} ranks", 0.6)
        orders = [self._order(rank) for rank in range(self.n)]
        self._await(self._cluster.start_engines(self.n, str(self._generation), server=self._server, orders=orders))
        self._wait_for_engines()
        self._progress("joining the ranks to one group", 0.9)
        store = str(self._directory / f"group-{self._generation}")
        joins = [(rank, self.n, self.binding.group, store, str(self._record(rank))) for rank in range(self.n)]
        self.call([calls.pack(calls.join, arguments, {}) for arguments in joins], self._left())
        self._progress(f"{self.n} ranks are ready", 1.0)

    def _order(self, rank: int) -> Order:
        name = f"rank-{rank}-{self._generation}"
        return Order(
            engine=self._engines[rank],
            environment=self.binding.environments[rank],
            log=str(self._directory / f"{name}.log"),
            stack=str(self._directory / f"{name}.stack"),
            profile=str(self._directory / "profile"),
        )

    def _wait_for_engines(self) -> None:
        """Wait until every engine answers, or one of them is known not to come.

        To be registered is not enough: the scheduler drops a message without a word while the engine's own connection to it
        is on its way. So engines are greeted, again and again, until they answer.
        """
        here, greeted, greetings = -1, dict[int, float](), list[tuple[int, Any]]()
        while here < self.n:
            answered = {engine for engine, reply in greetings if reply.done()}
            for engine in (set(self._engines) & set(self._client.ids)) - answered:
                if time.monotonic() - greeted.get(engine, -GREETING_SECONDS) >= GREETING_SECONDS:
                    greeted[engine] = time.monotonic()
                    greetings.append((engine, self._client[engine].apply_async(os.getpid)))
                    greetings[-1][1].add_done_callback(lambda _: self._changed.set())
            if len(answered) != here:
                here = len(answered)
                self._progress(f"{here} of {self.n} ranks are connected", 0.6 + 0.3 * here / self.n)
            self._check()
            for rank in range(self.n):
                if self._death(rank) or self._left() <= 0:
                    tail = _end_of(Path(self._order(rank).log))
                    raise RanksError(f"Only {here} of {self.n} ranks could be started. The log of rank {rank}:\n{tail}")
            self._changed.wait(0.02)
            self._changed.clear()

    def _outcome(self, rank: int, reply: Any) -> calls.Returned | calls.Raised | faults.Died | None:
        return super()._outcome(rank, reply) or self._death(rank)

    def _death(self, rank: int) -> faults.Died | None:
        assert self._server is not None
        code = self._server.deaths.get(self._engines[rank])
        if code is None:
            return None
        return faults.Died(code, _end_of(Path(self._order(rank).log)), faults.last_collective(_bytes(self._record(rank))))

    def _record(self, rank: int) -> Path:
        """The file of a rank's collectives."""
        return self._directory / f"rank-{rank}-{self._generation}.jsonl"

    def _differing(self) -> Event | None:
        return faults.differing([_bytes(self._record(rank)) for rank in range(self.n)])

    def doing(self) -> Mapping[int, faults.Unfinished]:
        """What each rank whose call is running does at this moment."""
        assert self._server is not None
        self._server.signal(signal.SIGUSR1)
        stacks = {rank: Path(self._order(rank).stack) for rank in self._busy}
        until = time.monotonic() + STACK_SECONDS
        while time.monotonic() < until and not all("in perform" in _text(stack) for stack in stacks.values()):
            time.sleep(0.02)
        return {rank: faults.unfinished(_text(stack)) for rank, stack in stacks.items()}

    def broken(self) -> str | None:
        """Why this fleet must be thrown away as a whole, when it must."""
        if self._server is None or self._server.exit_code is not None:
            return "the process that forks them has ended"
        if self._cluster is None or self._cluster.controller is None or not self._cluster.controller.running:
            return "their controller has ended"
        return None

    def lost_a_rank(self) -> bool:
        """Whether a rank has died, or left the cluster, since the last call."""
        return any(self._death(rank) for rank in range(self.n)) or not set(self._engines) <= set(self._client.ids)

    def discard(self) -> None:
        """End the present generation of ranks, whatever they are doing."""
        self.dirty = True
        generation = str(self._generation)
        if self._cluster is not None and generation in self._cluster.engines:
            self._await(self._cluster.stop_engines(generation), STOP_SECONDS)
        for file in self._directory.glob(f"*-{generation}*"):  # their logs may be what fills the disk
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """End every process and remove every file; harmless when called again."""
        if os.getpid() != self._owner or self._loop.is_closed():
            return
        if threading.current_thread() in (self._loop_thread, getattr(self._client, "_io_thread", None)):
            # The garbage collector may call this in a thread that would have to wait for itself.
            threading.Thread(target=self.close).start()
            return
        with ExitStack() as steps:  # from the last to the first, each even if another fails
            steps.callback(shutil.rmtree, self._directory, ignore_errors=True)
            steps.callback(self._end_loop)
            if self._cluster is not None:
                steps.callback(lambda: self._await(self._cluster.stop_cluster(), STOP_SECONDS))
            if self._server is not None:
                steps.callback(self._server.close)
            if self._client is not None:
                steps.callback(self._client.close, linger=0)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop_thread.join(STOP_SECONDS)
        self._loop.close()

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _await(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run ipyparallel's asynchronous work: on a loop of our own, for a notebook's loop is taken."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(self._left() if seconds is None else seconds)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _text(path: Path) -> str:
    return _bytes(path).decode(errors="replace")


def _end_of(path: Path) -> str:
    return faults.end_of_log(_text(path))
