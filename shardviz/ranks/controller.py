"""An ipyparallel controller that ends with its parent: `python -m shardviz.ranks.controller PARENT_PID [arguments]`."""

import multiprocessing
import os
import sys
import threading
import time

from ipyparallel.controller.app import IPController

from shardviz.ranks.order import die_with_parent

PARENT_CHECK_SECONDS = 0.5


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def main() -> None:
    """Run the controller, and its heart monitor, no longer than the parent lives."""
    parent = int(sys.argv[1])
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # The heart monitor is a process of its own, forked by the main thread.
    multiprocessing.set_start_method("fork")
    controller = os.getpid()
    os.register_at_fork(after_in_child=lambda: die_with_parent(controller))
    IPController.launch_instance(sys.argv[2:])


if __name__ == "__main__":
    main()
