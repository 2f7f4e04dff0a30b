"""Looking into a checkpoint against loading it with torch."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from shardviz.bench.measure import Measurement, seconds
from shardviz.checks.checkpoints.checkpoint import checkpoint

__all__ = ["bench_checkpoint"]

TENSORS, SHAPE = 2000, (250, 500)
"""One gigabyte of float32."""
FASTER = 20


def bench_checkpoint() -> Iterator[Measurement]:
    """A checkpoint of 2,000 tensors and 1 GB, made for this: looked into, and loaded into tensors that are there.

    Both are repeated, so that both find the files in the system's cache.
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

        theirs = seconds(lambda: load(state, checkpoint_id=place, no_dist=True), repeats=3)
        ours = seconds(look, repeats=9)
    ratio = theirs / ours
    name = f"{TENSORS:,} tensors, 1 GB"
    yield Measurement(f"{name}: mapped", ours, "seconds")
    yield Measurement(f"{name}: loaded with torch", theirs, "seconds")
    yield Measurement(f"{name}: faster than loading", ratio, "times", f"at least {FASTER}", ratio >= FASTER)
