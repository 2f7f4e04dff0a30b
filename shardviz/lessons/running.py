"""A person's function, run on cases in a process of its own: nothing it does reaches the notebook, and it ends.

The process is a fork, so that a function from a notebook cell needs no copying. An alarm in it tells on which line a call
hangs, even where the call swallows every exception; a call that never comes back to Python is killed a little later.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import linecache
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import CodeType, FrameType
from typing import Any, Literal

from shardviz.lessons.values import plain

__all__ = ["PATIENCE", "Ran", "run_cases"]

PATIENCE = 4.0
"""Seconds that one call may take."""

TOTAL = 20.0
"""Seconds that all calls together may take."""

GRACE = 1.0
"""Seconds after which a call that heeds no alarm is killed."""

MEMORY = 1 << 29
"""Bytes that the calls may take."""

PRINTED = 1000
"""The most characters of what a call prints that are kept."""


@dataclass(frozen=True)
class Ran:
    """What came of one call.

    Attributes:
        how: "returned", "raised", "hung" (it was stopped) or "died" (its process ended, or could not be started).
        value: what it returned, made plain.
        error: what it raised, or how it died.
        line: the line of the person's code on which it raised or hung, as "line 3: while True:"; "" where that is not known.
        stub: whether it raised NotImplementedError.
        printed: what it printed.
    """

    how: Literal["returned", "raised", "hung", "died"]
    value: Any = None
    error: str = ""
    line: str = ""
    stub: bool = False
    printed: str = ""


def run_cases(function: Callable[..., Any], cases: Sequence[tuple[Any, ...]], patience: float = PATIENCE) -> list[Ran]:
    """Call a function on cases, one after the other, until one hangs.

    Args:
        function: any callable; it gets copies of the arguments.
        cases: the arguments of each call.
        patience: seconds that one call may take.

    Returns:
        One result per call made: fewer than cases where one of them hung or died.
    """
    reader, writer = Pipe(duplex=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child runs this one thread, and no lock of another
            child = os.fork()
    except OSError as error:
        return [Ran("died", error=f"no process could be started for it: {error.strerror}")]
    if child == 0:
        try:
            _call_all(function, cases, patience, writer)
        finally:
            os._exit(0)
    writer.close()
    try:
        return list(_results(reader, len(cases), patience))
    finally:
        reader.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _results(reader: Connection, count: int, patience: float) -> Iterator[Ran]:
    began = time.monotonic()
    for _ in range(count):
        left = TOTAL - (time.monotonic() - began)
        if left <= 0 or not reader.poll(min(patience + GRACE, left)):
            yield Ran("hung")
            return
        try:
            ran: Ran = reader.recv()
        except EOFError:
            yield Ran("died", error="its process ended")
            return
        yield ran
        if ran.how == "hung":
            return


def _call_all(function: Callable[..., Any], cases: Sequence[tuple[Any, ...]], patience: float, writer: Connection) -> None:
    """In the child: call, and send what came of it."""
    gc.freeze()  # what the notebook holds is never finalised here
    _limit_memory()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = getattr(function, "__code__", None)

    def give_up(_: int, frame: FrameType | None) -> None:
        writer.send(Ran("hung", line=_line_of(code, _frames(frame))))
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    for arguments in cases:
        writer.send(_call(function, code, arguments, patience))


def _call(function: Callable[..., Any], code: CodeType | None, arguments: tuple[Any, ...], patience: float) -> Ran:
    printed = io.StringIO()
    given = copy.deepcopy(arguments)
    signal.setitimer(signal.ITIMER_REAL, patience)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            value = plain(function(*given))
        return Ran("returned", value, printed=printed.getvalue()[:PRINTED])
    except BaseException as error:  # also what ends a program, such as exit()
        line = _line_of(code, [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)][::-1])
        words = "".join(traceback.format_exception_only(error)).strip()
        stub = isinstance(error, NotImplementedError)
        return Ran("raised", error=words, line=line, stub=stub, printed=printed.getvalue()[:PRINTED])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _frames(frame: FrameType | None) -> list[tuple[str, int]]:
    """File and line of a frame and those that called it, innermost first."""
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def _line_of(code: CodeType | None, places: Sequence[tuple[str, int]]) -> str:
    """The innermost line that stands in the file of the person's function."""
    if code is None:
        return ""
    for name, number in places:
        if name == code.co_filename:
            source = linecache.getline(name, number).strip()
            return f"line {number}: {source}" if source else f"line {number}"
    return ""


def _limit_memory() -> None:
    """Let the calls take so much more than the notebook has; without a limit a list that never ends takes all there is."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/statm") as file:
            has = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = has + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
