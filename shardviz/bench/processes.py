"""The processes below this one, and the memory they take, as the kernel tells it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["children", "command_line", "living", "proportional_memory"]


def children(pid: int) -> list[int]:
    """The living processes that descend from one."""
    parents: dict[int, int] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        state, parent = _state(int(directory.name))
        if state not in "ZX":
            parents[int(directory.name)] = parent
    found = [pid]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


def command_line(pid: int) -> str:
    """A process's command line, its parts separated by spaces; "" where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def living(pids: list[int]) -> list[int]:
    """Those of the processes that have not ended."""
    return [pid for pid in pids if _state(pid)[0] not in "ZX"]


def proportional_memory(pids: list[int]) -> float:
    """Memory of processes in megabytes (10⁶ bytes), each shared page divided among those that share it."""
    kilobytes = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes * 1024 / 1e6


def _state(pid: int) -> tuple[str, int]:
    """The letter of its state ("X" where there is no such process), and its parent."""
    try:
        # The name, in parentheses, may hold anything.
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return state, int(parent)
