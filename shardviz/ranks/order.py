"""What a rank is told when it is forked, and the way every process of ours ends with its parent."""

import ctypes
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """One rank to fork.

    Attributes:
        engine: the id its engine asks for, new for each generation of ranks.
        environment: what to set before anything else happens in it.
        log: file that takes all it prints.
        stack: file that takes its Python stack when it gets SIGUSR1.
        profile: directory of the IPython profile.
    """

    engine: int
    environment: Mapping[str, str]
    log: str
    stack: str
    profile: str


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of `parent` that forked it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
