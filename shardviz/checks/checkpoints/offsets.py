"""Right offsets for torch's checkpoints: `corrected_offsets` makes saves and loads whole where torch reports shards wrongly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shardviz.core.errors import SpecError

__all__ = ["corrected_offsets", "correcting"]

_MAKERS = (None, "fsdp2", "distribute_tensor")

_lock = threading.Lock()
_inside = 0
_undo: Callable[[], None] | None = None


def correcting() -> bool:
    """Whether this is inside a `corrected_offsets` block, of whichever thread."""
    return _inside > 0


@contextmanager
def corrected_offsets(made_by: str | None = None) -> Iterator[None]:
    """Make `torch.distributed.checkpoint` save and load by what the ranks really hold.

    Use it on every rank around `save`, `async_save`, `load`, `set_model_state_dict` (of full state dicts too, broadcast or not)
    and `set_optimizer_state_dict`. While it lasts, these take a rank's part of a DTensor as the blocks that it is: by the
    sharding order where the split factors tell one, and as several where a packed or lone strided weight has several runs. A
    checkpoint may have many chunks of a tensor in one file: plain torch reads what was saved. It acts in this process and for
    all its threads; nothing else in torch is touched. Blocks may be nested and may overlap between threads; torch's functions
    are back when the last one ends, however it ends. What `async_save` began inside may end outside.

    A checkpoint that was saved without it and is not whole must not be loaded under it: mend it first. One that was saved with
    it loads without it into full tensors and wherever torch reports shards rightly. Where torch reports a wrong shape it raises
    `CheckpointException`, which `except Exception` does not catch; where it reports the right shapes at wrong offsets (every
    packed or lone strided weight, and nested strides: 9 elements on 2, 2 and 2) it loads wrong rows without an error.

    Args:
        made_by: `"fsdp2"` or `"distribute_tensor"`, for tensors whose placements stand for two layouts (`_S(0, 2), _S(0, 2)`):
            the first is FSDP2 over a packed weight, the second a cut from left to right. It need not be said of what is like a
            parameter that FSDP2 made in this process, such as the parameter itself and its optimizer's state. Blocks inside
            a block take what the outermost says.

    Raises:
        SpecError: `made_by` is something else.
        TorchError: the installed torch is built in a way that is not known. Inside the block: a rank holds another shape than
            its placements say, or these stand for two layouts and nothing tells which, or the Hugging Face writer would lose
            something (torch raises it on every rank, as a `CheckpointException`).

    Example:
        >>> import tempfile, torch
        >>> from torch.distributed.checkpoint.state_dict_saver import save
        >>> with corrected_offsets():  # in a job, on every rank
        ...     _ = save({"weight": torch.ones(3, 2)}, checkpoint_id=tempfile.mkdtemp(), no_dist=True)
    """
    global _inside, _undo
    from shardviz.tensors.checkpointing import replace_checkpointing  # torch is imported here
    from shardviz.tensors.described import Describer

    if made_by not in _MAKERS:
        raise SpecError(f"made_by={made_by!r}: one of {', '.join(map(repr, _MAKERS))}")
    with _lock:
        if not _inside:
            _undo = replace_checkpointing(Describer(made_by))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _undo is not None:
                _undo()
                _undo = None
