"""The process that imports torch once and forks the ranks from itself: `python -m shardviz.ranks.forking PARENT_PID DIRECTORY`.

It reads requests and writes events, both as lines of JSON, on its standard input and output:

    {"fork": [order, …]}     fork one rank for each order (the fields of `Order`)
    {"signal": 9}            send a signal to every living rank

    {"ready": true}          torch is imported
    {"died": [7, -9]}        the rank with engine id 7 ended with this exit code (negative: killed by that signal)

It stays single-threaded, as a forking process must, and never touches CUDA. As soon as its standard input ends or its parent is
gone, it ends every rank, removes the directory of their files, and ends.
"""

import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import sys
from typing import Any

from shardviz.ranks.order import Order, die_with_parent

# What ranks need sooner or later: imported here it costs time and memory once, not once per rank.
PRELOAD = (
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.distributed.tensor._dtensor_spec",
    "torch.distributed.checkpoint",
    "torch._dynamo",
    "tornado.platform.asyncio",
    "tornado.queues",
    "IPython.core.completerlib",
    "IPython.extensions.storemagic",
    "ipykernel.debugger",
    "shardviz.ranks.calls",
    "shardviz.ranks.engine",
    "shardviz.ranks.watch",
    "shardviz.ranks.worker",
)
PARENT_CHECK_SECONDS = 2.0


class Forker:
    """The loop: requests in, events out, ranks forked and reaped between."""

    def __init__(self, parent: int, requests: int, events: int) -> None:
        self.parent = parent
        self.requests = requests
        self.events = events
        self.ranks: dict[int, int] = {}  # pid -> engine id
        self.unread = b""
        self.child_ended, wakeup = os.pipe()
        for end in (self.child_ended, wakeup):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup)

    def run(self) -> None:
        """Serve until the parent is gone, then end every rank."""
        self.tell(ready=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self.requests, selectors.EVENT_READ)
            selector.register(self.child_ended, selectors.EVENT_READ)
            try:
                # The pipe's end is the quick sign. The parent's pid is the sure one: a copy of the pipe may be open elsewhere.
                while os.getppid() == self.parent:
                    ready = {key.fd for key, _ in selector.select(PARENT_CHECK_SECONDS)}
                    if self.requests in ready and not self.read_requests():
                        break
                    self.reap()
            finally:
                self.signal(signal.SIGKILL)
                for pid in self.ranks:
                    os.waitpid(pid, 0)

    def tell(self, **event: Any) -> None:
        """Write one event."""
        os.write(self.events, json.dumps(event).encode() + b"\n")

    def read_requests(self) -> bool:
        """Obey what has arrived; False at the end of the input."""
        arrived = os.read(self.requests, 1 << 16)
        *lines, self.unread = (self.unread + arrived).split(b"\n")
        for line in lines:
            request = json.loads(line)
            for order in request.get("fork", ()):
                self.fork(Order(**order))
            if "signal" in request:
                self.signal(request["signal"])
        return bool(arrived)

    def fork(self, order: Order) -> None:
        """Fork one rank."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                die_with_parent(parent)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(self.requests)
                os.close(self.events)
                from shardviz.ranks.engine import become_rank

                become_rank(order)
            finally:
                os._exit(1)
        self.ranks[pid] = order.engine

    def signal(self, number: int) -> None:
        """Send a signal to every rank not yet reaped: their pids cannot have passed to other processes."""
        for pid in self.ranks:
            os.kill(pid, number)

    def reap(self) -> None:
        """Report the ranks that have ended."""
        while True:
            try:
                os.read(self.child_ended, 1 << 10)
            except BlockingIOError:
                break
        for pid in list(self.ranks):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.tell(died=[self.ranks.pop(pid), os.waitstatus_to_exitcode(status)])


def main() -> None:
    """Keep the pipes to the parent for messages alone, import, and serve."""
    requests, events = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    gc.disable()
    # An engine offers to be debugged when it can import debugpy, which takes time and memory in each: let it find none.
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    for name in PRELOAD:
        importlib.import_module(name)
    del sys.modules["debugpy"]
    gc.enable()
    # What is frozen is not walked by the ranks' collections, and so stays shared between them.
    gc.freeze()
    Forker(int(sys.argv[1]), requests, events).run()
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    # The interpreter's own way out takes torch apart first, and somebody may be waiting for the end.
    os._exit(0)


if __name__ == "__main__":
    main()
