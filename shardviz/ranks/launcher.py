"""The launching side of the ranks: the process that forks them, and the ipyparallel launchers built on it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ipyparallel.cluster.launcher import EngineLauncher
from traitlets import Any as AnyTrait

from shardviz.ranks.order import Order

END_SECONDS = 3.0
KILL_SECONDS = 5.0


def python_command(module: str) -> list[str]:
    """The command of a process of ours that ends with this one."""
    # -P because a stray file in the working directory could shadow a library.
    return [sys.executable, "-P", "-m", module, str(os.getpid())]


def python_environment(directory: Path) -> dict[str, str]:
    """The environment such a process needs: our import path, one thread, loopback, and no user's profile."""
    return {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),
        "PYTHONSTARTUP": "",
        "IPYTHONDIR": str(directory),
        # Before torch or numpy is imported: their thread pools do not survive a fork.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }


class ForkServer:
    """Handle on the process that forks the ranks (`shardviz.ranks.forking`).

    Attributes:
        deaths: exit code of every rank that has ended, by engine id; negative for a signal.
        exit_code: of the forking process itself; None while it runs.
    """

    def __init__(self, directory: Path, on_event: Callable[[], object]) -> None:
        self.log = directory / "forking.log"
        self.deaths: dict[int, int] = {}
        self.exit_code: int | None = None
        self.forked: set[int] = set()
        self._ready = False
        self._on_event = on_event
        self._changed = threading.Condition()
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [*python_command("shardviz.ranks.forking"), str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **python_environment(directory)},
                start_new_session=True,
            )
        threading.Thread(target=self._read_events, daemon=True, name="shardviz-forked-ranks").start()

    def wait_ready(self, seconds: float) -> bool:
        """Wait until torch is imported; False when the process ended or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self.exit_code is not None, seconds)
            return self._ready and self.exit_code is None

    def fork(self, orders: Sequence[Order]) -> None:
        """Fork a rank for each order."""
        self.forked.update(order.engine for order in orders)
        self._request(fork=[asdict(order) for order in orders])

    def signal(self, number: int) -> None:
        """Send a signal to every living rank."""
        self._request(signal=int(number))

    def kill_ranks(self) -> None:
        """End every rank, whatever it is doing, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        with self._changed:
            gone = self._changed.wait_for(lambda: self.forked <= set(self.deaths), KILL_SECONDS)
        if not gone:
            self.close()

    def close(self) -> None:
        """End the process and every rank."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            # It is importing or stuck; the kernel ends its ranks with it.
            self._process.kill()
            self._process.wait(KILL_SECONDS)

    def _request(self, **request: Any) -> None:
        assert self._process.stdin is not None
        # When it has ended, and its ranks with it, `exit_code` says so.
        with suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as events:
            for line in events:
                event = json.loads(line)
                with self._changed:
                    self._ready = self._ready or "ready" in event
                    if "died" in event:
                        engine, code = event["died"]
                        self.deaths[engine] = code
                    self._changed.notify_all()
                self._on_event()
        exit_code = self._process.wait()
        with self._changed:
            self.exit_code = exit_code
            for engine in self.forked:
                self.deaths.setdefault(engine, -signal.SIGKILL)
            self._changed.notify_all()
        self._on_event()


class ForkedEngines(EngineLauncher):
    """One generation of ranks, as an ipyparallel engine set."""

    server = AnyTrait(help="the ForkServer that forks them")
    orders = AnyTrait(help="one Order per rank, without what ipyparallel adds to the environment")

    def find_args(self) -> list[str]:
        """What ipyparallel calls the command, for its log."""
        return ["shardviz.ranks.forking"]

    def start(self, n: int) -> int:
        """Fork the ranks."""
        self.n = n
        added: Mapping[str, str] = self.get_env()
        self.server.fork([_with_environment(order, added) for order in self.orders])
        return int(self.notify_start(n))

    def signal(self, sig: int) -> None:
        """Signal all of them."""
        self.server.signal(sig)

    async def stop(self) -> None:
        """Kill all of them: a rank blocked in a collective hears nothing else."""
        self.server.kill_ranks()
        self.notify_stop({"exit_code": None, "identifier": self.identifier})


def _with_environment(order: Order, added: Mapping[str, str]) -> Order:
    return Order(**{**asdict(order), "environment": {**added, **order.environment}})
