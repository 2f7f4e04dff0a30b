"""What is called inside a rank: joining the group, and one function call with its result or its exception.

Imported on both sides, so nothing here may import torch at the top.
"""

import io
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import ModuleType, TracebackType
from typing import Any

import cloudpickle

# Hung ranks are found by the caller, who can say which rank did not come; torch's own limit must never be first.
GROUP_TIMEOUT = timedelta(days=1)

OBSERVER = ("shardviz/ranks/listening.py", "shardviz/tensors/seams.py")
"""The files whose frames stand between a collective and its caller."""


@dataclass(frozen=True)
class Returned:
    """The result of a call; `tensors` where there are DTensors in it, which came back as facts."""

    value: Any
    tensors: bool = False


@dataclass(frozen=True)
class Raised:
    """The exception of a call.

    Attributes:
        summary: type and message, as Python prints them.
        traceback: the traceback inside the rank, without the frames of shardviz around the function.
        at: when, in seconds since the epoch.
    """

    summary: str
    traceback: str
    at: float


def pack(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Make a call that `perform` takes: importable functions by name, those of a notebook cell or script by value."""
    # The path goes first and apart: what follows may need it to be read.
    buffer = io.BytesIO()
    _Pickler(buffer).dump((function, args, dict(kwargs)))
    return pickle.dumps((list(sys.path), buffer.getvalue()))


class _Pickler(cloudpickle.Pickler):
    """Takes functions that name torch.ops too: what is in there goes by its path."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is made anew inside a rank."""
        if "torch" in sys.modules and (path := operator_path(obj)) is not None:
            return operator_at, (path,)
        return super().reducer_override(obj)


def operator_path(obj: Any) -> tuple[str, ...] | None:
    """The path under `torch.ops` of what is found there; None for anything else."""
    ops = sys.modules["torch"].ops
    if obj is ops:
        return ()
    if type(obj).__module__ != type(ops).__module__:  # asked of everything that is packed: its text would cost, or warn
        return None
    name = str(getattr(obj, "__name__", "")) if isinstance(obj, ModuleType) else str(obj)
    path = tuple(name.removeprefix("torch.ops.").split(".")) if name else ()
    try:
        return path if path and operator_at(path) is obj else None
    except AttributeError:
        return None


def operator_at(path: Sequence[str]) -> Any:
    """What stands at a path under `torch.ops`."""
    import torch

    found: Any = torch.ops
    for part in path:
        found = getattr(found, part)
    return found


def perform(call: bytes) -> bytes:
    """Run a packed call; what comes back unpickles to `Returned` or `Raised`."""
    try:
        from shardviz.ranks import returning, watch

        watch.turn_page()
        path, packed = pickle.loads(call)
        sys.path.extend(entry for entry in path if entry not in sys.path)
        function, args, kwargs = pickle.loads(packed)
        return pickle.dumps(Returned(*returning.packed(function(*args, **kwargs))))
    except BaseException as error:  # SystemExit too: a rank that ends quietly would leave the others waiting
        frames = error.__traceback__ and error.__traceback__.tb_next
        return pickle.dumps(
            Raised(
                summary="".join(traceback.format_exception_only(error)).strip(),
                traceback=_traceback(error, frames),
                at=time.time(),
            )
        )


def unpack(answer: bytes) -> Returned | Raised:
    """What `perform` sent back."""
    outcome: Returned | Raised = pickle.loads(answer)
    return replace(outcome, value=pickle.loads(outcome.value)) if isinstance(outcome, Returned) else outcome


def _traceback(error: BaseException, frames: TracebackType | None) -> str:
    told = traceback.TracebackException(type(error), error, frames)
    # The frames that watch the collectives stand between torch's own, and explain nothing.
    kept = [frame for frame in told.stack if not frame.filename.endswith(OBSERVER)]
    told.stack = traceback.StackSummary.from_list(kept)
    return "".join(told.format()).rstrip()


def join(rank: int, n: int, group: str, store: str, record: str) -> None:
    """Join this process to the group of all ranks, as `rank`, and watch its collectives from then on.

    Args:
        rank: this rank.
        n: number of ranks.
        group: the backend, as `init_process_group` takes it.
        store: path of the file over which the ranks find each other; it needs no port.
        record: path of the file that takes the collectives of the current call.
    """
    import torch
    import torch.distributed as dist

    from shardviz.ranks import watch

    device = None
    if "nccl" in group:
        # The rank sees one card only, so this is its own. Naming it forms the communicator at once, so that what NCCL
        # cannot do is said at the start.
        device = torch.device("cuda", 0)
        torch.cuda.set_device(device)
    dist.init_process_group(
        group,
        store=dist.FileStore(store, n),  # type: ignore[attr-defined]  # public, but not re-exported by name
        rank=rank,
        world_size=n,
        timeout=GROUP_TIMEOUT,
        device_id=device,
    )
    watch.begin(record, rank, n)


def recorded(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], most_values: int) -> bytes:
    """Call a function inside a rank and record its collectives, as the lines of `recording_lines`."""
    import torch.distributed as dist

    from shardviz.ranks.listening import listening
    from shardviz.ranks.tape import Tape

    lines: list[bytes] = []
    name = getattr(function, "__name__", type(function).__name__)
    tape = Tape(lines.append, dist.get_rank(), dist.get_world_size(), name, most_values)
    with listening(tape):
        function(*args, **kwargs)
    tape.end()
    return b"".join(lines)
