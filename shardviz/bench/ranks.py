"""How fast and how small ranks are, and how soon a fault of theirs is told: `shardviz bench ranks`."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from shardviz.bench.measure import Measurement
from shardviz.bench.processes import children, command_line, living, proportional_memory
from shardviz.bench.programs import SPEC, break_down
from shardviz.core.errors import RanksError
from shardviz.ranks.cluster import Ranks

__all__ = ["bench_ranks"]

N = 4
WARM_RUNS = 10
PATIENCE = 2.0
"""Seconds after which a hung call is given up, where the bound is counted from then on."""

_KERNEL = f"""
import os, time
from shardviz.bench.processes import children
from shardviz.ranks.cluster import Ranks
ranks = Ranks({N}).start()
print(*children(os.getpid()), flush=True)
time.sleep(600)
"""


def bench_ranks(faults: bool) -> Iterator[Measurement]:
    """Measure four ranks on this machine against the bounds of their promises.

    Args:
        faults: measure how soon each kind of fault is told, too.
    """
    yield from _speed()
    if faults:
        yield from _faults()


def _speed() -> Iterator[Measurement]:
    before = set(children(os.getpid()))
    began = time.perf_counter()
    with Ranks(N) as ranks:
        ready = time.perf_counter() - began
        own = [pid for pid in children(os.getpid()) if pid not in before]
        memory = proportional_memory(own)
        ranks.run(SPEC)
        first = time.perf_counter() - began
        warm = statistics.median(_seconds(lambda: ranks.run(SPEC)) for _ in range(WARM_RUNS))
    torchrun = _seconds(lambda: _torchrun("ask"))
    yield Measurement(f"{N} ranks ready", ready, "seconds")
    yield Measurement("first recorded result", first, "seconds")
    yield Measurement("warm run", warm, "seconds")
    yield Measurement("the same by torchrun", torchrun, "seconds")
    yield _at_most("first recorded result, of a torchrun run", first / torchrun, "times", 0.8)
    speedup = torchrun / warm
    yield Measurement("warm run, faster than torchrun", speedup, "times", "at least 50", speedup >= 50)
    yield _at_most(f"memory (PSS) of {N} ready ranks, controller included", memory, "megabytes", 600)
    with tempfile.TemporaryDirectory() as directory:
        ratio = float(_torchrun("train", directory).split()[-1])
    yield _at_most("a training step takes longer when it is recorded", 100 * (ratio - 1), "percent", 5)


def _faults() -> Iterator[Measurement]:
    with Ranks(N) as ranks:
        for how, name in (
            ("raise", "a rank raises before a collective"),
            ("exit", "a rank exits"),
            ("kill", "a rank is killed"),
        ):
            ranks.run(SPEC)
            yield _at_most(name, _until_told(ranks, how, ranks.timeout), "seconds", 5)
        for how, name in (
            ("stall", "a rank never joins a collective, after the timeout"),
            ("differ", "ranks call different collectives, after the timeout"),
        ):
            ranks.run(SPEC)
            yield _at_most(name, max(0.0, _until_told(ranks, how, PATIENCE) - PATIENCE), "seconds", 5)
        yield _at_most("the next run after a fault", _seconds(lambda: ranks.run(SPEC)), "seconds", 20)
        timer = threading.Timer(PATIENCE, ranks.interrupt)
        timer.start()
        yield _at_most(
            "control is back after an interrupt", _until_told(ranks, "stall", ranks.timeout) - PATIENCE, "seconds", 5
        )
        ranks.run(SPEC)
        threading.Timer(PATIENCE, _kill_controller).start()
        lost = _until_told(ranks, "stall", ranks.timeout) - PATIENCE
        yield _at_most("the controller is killed", lost, "seconds", 20)
        ranks.run(SPEC)
        own = children(os.getpid())
        yield _at_most("all gone when stopped while blocked", _stop_blocked(ranks, own), "seconds", 5)
    yield _at_most("a start that has nowhere to write", _nowhere_to_write(), "seconds", 20)
    yield _at_most("nothing left of a killed kernel", _killed_kernel(), "seconds", 10)


def _at_most(name: str, value: float, unit: str, most: float) -> Measurement:
    return Measurement(name, value, unit, f"at most {most:g}", value <= most)


def _until_told(ranks: Ranks, how: str, timeout: float) -> float:
    began = time.perf_counter()
    with suppress(RanksError):
        ranks.apply(break_down, how, 1, timeout=timeout)
        raise AssertionError(f"a call that {how}s went well")
    return time.perf_counter() - began


def _kill_controller() -> None:
    for pid in children(os.getpid()):
        if "shardviz.ranks.controller" in command_line(pid):
            os.kill(pid, signal.SIGKILL)


def _nowhere_to_write() -> float:
    before, tempfile.tempdir = tempfile.tempdir, os.path.join(tempfile.gettempdir(), "missing", "folder")
    try:
        began = time.perf_counter()
        with suppress(RanksError):
            Ranks(N).start()
            raise AssertionError("ranks started without a place for their files")
        return time.perf_counter() - began
    finally:
        tempfile.tempdir = before


def _stop_blocked(ranks: Ranks, pids: list[int]) -> float:
    caller = threading.Thread(target=lambda: _until_told(ranks, "stall", ranks.timeout))
    caller.start()
    time.sleep(0.5)
    took = _seconds(ranks.stop) + _until_gone(pids)
    caller.join()
    return took


def _killed_kernel() -> float:
    with subprocess.Popen([sys.executable, "-c", _KERNEL], stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        pids = [int(pid) for pid in kernel.stdout.readline().split()]
        kernel.send_signal(signal.SIGKILL)
        return _until_gone(pids)


def _until_gone(pids: list[int]) -> float:
    began = time.perf_counter()
    while living(pids) and time.perf_counter() - began < 60:
        time.sleep(0.01)
    return time.perf_counter() - began


def _torchrun(*arguments: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(N), "-m", "shardviz.bench.programs"]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, check=False)
    if run.returncode:
        raise RanksError(f"torchrun could not run its part of the measurement:\n{run.stderr[-2000:]}")
    return run.stdout


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
