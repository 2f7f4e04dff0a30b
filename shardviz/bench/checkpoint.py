"""Looking into a checkpoint against loading it with torch."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from shardviz.bench.measure import Measurement
from shardviz.checks.checkpoints.checkpoint import checkpoint

__all__ = ["bench_checkpoint"]

TENSORS, SHAPE = 2000, (250, 500)
"""One gigabyte of float32."""
FASTER, ROUNDS = 20, 9


def bench_checkpoint() -> Iterator[Measurement]:
    """A checkpoint of 2,000 tensors and 1 GB, made for this: looked into, and loaded into tensors that are there.

    The two take turns, so that a busy machine slows both, and each turn gives a ratio of the better of two tries each. Torch
    loads once on its usual threads and once on one: on a busy machine, threads that wait for each other take ten times as long.
    The files are in the system's cache, the best case for loading: from a disk, it would read a gigabyte, and looking into it
    a few megabytes.
    """
    import torch
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save

    state = {f"layers.{place // 8}.part{place % 8}.weight": torch.full(SHAPE, float(place)) for place in range(TENSORS)}
    with tempfile.TemporaryDirectory(prefix="shardviz-bench-") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch tells of a save in one process, which is meant
        place = Path(made) / "checkpoint"
        save(state, checkpoint_id=place, no_dist=True)

        def look() -> None:
            if not checkpoint(place).whole:
                raise AssertionError("the checkpoint is not whole")

        def loaded(threads: int) -> float:
            torch.set_num_threads(threads)
            return _seconds(lambda: load(state, checkpoint_id=place, no_dist=True))

        usual = torch.get_num_threads()
        rounds = [(min(_seconds(look), _seconds(look)), min(loaded(1), loaded(usual))) for _ in range(ROUNDS + 1)]
    ours, theirs = zip(*rounds[1:], strict=True)  # the first round brings the files into the cache
    ratio = median(their / our for our, their in rounds[1:])
    about = f"{TENSORS:,} tensors, 1 GB, files in the system's cache"
    yield Measurement(f"{about}: mapped", median(ours), "seconds")
    yield Measurement(f"{about}: loaded with torch", median(theirs), "seconds")
    turns = f"{about}: mapped faster than loaded, median of {ROUNDS} turns"
    yield Measurement(turns, ratio, "times", f"at least {FASTER}", ratio >= FASTER)


def _seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
