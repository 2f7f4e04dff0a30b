"""What a forked process does to become one rank: a real ipyparallel engine."""

import faulthandler
import os
import signal
import sys
from typing import Any, NoReturn

from ipyparallel.engine.app import IPEngine

from shardviz.ranks.order import Order

REGISTRATION_SECONDS = 30


class RankEngine(IPEngine):
    """An engine whose output stays in its log: the log is what explains a death, and no warning reaches a notebook."""

    def redirect_output(self, iopub_socket: Any) -> None:
        """Leave standard output and error as they are."""


def become_rank(order: Order) -> NoReturn:
    """Turn this freshly forked process into the rank of the order, until it is killed."""
    os.environ.update(order.environment)
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    # Kept open for life: after a fault the stack must be writable without the interpreter's help.
    stack = os.open(order.stack, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    RankEngine.launch_instance(
        [
            f"--profile-dir={order.profile}",
            "--log-level=ERROR",
            f"--IPEngine.id={order.engine}",
            f"--IPEngine.timeout={REGISTRATION_SECONDS}",
            # The forking process watches the engines and signals them: no nanny, no watch on the controller.
            "--IPEngine.enable_nanny=False",
            "--IPEngine.max_heartbeat_misses=0",
            "--HistoryManager.enabled=False",
        ]
    )
    sys.exit(0)
