"""Right offsets for torch's checkpoints: `corrected_offsets` makes saves and loads whole where torch reports shards wrongly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from shardviz.core.errors import ShardvizError
from shardviz.core.layout import local_shape_and_offset
from shardviz.core.order import cutting_order
from shardviz.core.spec import Spec

__all__ = ["corrected_offsets"]

_lock = threading.Lock()
_inside = 0
_undo: Callable[[], None] | None = None


@contextmanager
def corrected_offsets() -> Iterator[None]:
    """Make `torch.distributed.checkpoint` save and load by what the ranks really hold.

    Use it on every rank around `save`, `load`, `set_model_state_dict` (with `broadcast_from_rank0` too) and
    `set_optimizer_state_dict`. While it lasts, these follow the sharding order for a shard's shape and offset, in this process
    and for all its threads; nothing else in torch is touched. Blocks may be nested and may overlap between threads; torch's
    functions are back when the last one ends, however it ends.

    What it does not change: a full state dict without `broadcast_from_rank0` is refused by torch on uneven shards, and
    `async_save` is refused inside. A checkpoint that was saved without it and is not whole must not be loaded under it: mend it
    first. One that was saved with it loads without it into full tensors and wherever torch reports shards rightly. Where torch
    reports a wrong shape it raises `CheckpointException`, which `except Exception` does not catch; where it reports the right
    shapes at wrong offsets (seen with nested strides: 9 elements on 2, 2 and 2) it loads wrong rows without an error.

    Raises:
        TorchError: the installed torch is built in a way that is not known. Inside the block: a rank is about to save a shard
            whose shape is not what its placements say (torch raises it on every rank, as a `CheckpointException`).

    Example:
        >>> import tempfile, torch
        >>> from torch.distributed.checkpoint.state_dict_saver import save
        >>> with corrected_offsets():  # in a job, on every rank
        ...     _ = save({"weight": torch.ones(3, 2)}, checkpoint_id=tempfile.mkdtemp(), no_dist=True)
    """
    global _inside, _undo
    from shardviz.tensors.reported import replace_offsets  # torch is imported here

    with _lock:
        if not _inside:
            _undo = replace_offsets(_corrected)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _undo is not None:
                _undo()
                _undo = None


def _corrected(shape: Sequence[Any], mesh: Sequence[int], coordinate: Sequence[Any], placements: Sequence[Any]) -> Any:
    """The shape and offset of a shard by its sharding order; None where torch's own answer stands."""
    numbers = [*shape, *coordinate]
    if not all(type(number) is int for number in numbers):
        return None  # symbolic sizes, while torch.compile traces
    try:
        spec = Spec(tuple(shape), tuple(mesh), tuple(placements))
    except ShardvizError:
        return None
    if all(len(spec.cuts(dim)) < 2 or cutting_order(spec, dim) is None for dim in range(spec.ndim)):
        return None
    return local_shape_and_offset(spec, coordinate)
