"""Processes that a test run started and left behind: every one of them, wherever it went, inherits a mark."""

import os
import time
import uuid
from pathlib import Path

MARK = "SHARDVIZ_TEST_RUN"
PATIENCE = 10


def mark() -> str:
    """Mark everything that this process starts from now on."""
    return os.environ.setdefault(MARK, uuid.uuid4().hex)


def left_behind(run: str) -> list[str]:
    """The command lines of living processes of a run, this one left out, once they have had time to end."""
    end = time.monotonic() + PATIENCE
    while (found := list(_marked(run))) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _marked(run: str):
    own = {os.getpid(), os.getppid()}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes()
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
        if f"{MARK}={run}".encode() in environment.split(b"\0") and int(directory.name) not in own and command:
            yield f"{directory.name}: {command[:200]}"
