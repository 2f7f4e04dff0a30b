"""Records the collectives of this process as they happen, whoever calls them: the program, DTensor, or FSDP2.

Every collective of torch goes through a method of `ProcessGroup` or through a functional operator, so these are wrapped, and
the waits for their results too. A dispatch mode would see the same, but it costs time on every operation of the program.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import torch
import torch.distributed as dist

from shardviz.core.recording_lines import VERSION
from shardviz.tensors.reported import group_ranks

__all__ = ["LineFile", "Tape", "listening"]

_IN_PLACE, _OUT_IN, _NOTHING = "in place", "outputs, inputs", "nothing"
_METHODS: Mapping[str, tuple[str, str]] = {
    "_allgather_base": ("all_gather", _OUT_IN),
    "_reduce_scatter_base": ("reduce_scatter", _OUT_IN),
    "all_gather_single": ("all_gather", _OUT_IN),
    "all_gather_single_coalesced": ("all_gather", _OUT_IN),
    "all_to_all_single": ("all_to_all", _OUT_IN),
    "allgather": ("all_gather", _OUT_IN),
    "allgather_coalesced": ("all_gather", _OUT_IN),
    "allgather_into_tensor_coalesced": ("all_gather", _OUT_IN),
    "allreduce": ("all_reduce", _IN_PLACE),
    "allreduce_coalesced": ("all_reduce", _IN_PLACE),
    "alltoall": ("all_to_all", _OUT_IN),
    "alltoall_base": ("all_to_all", _OUT_IN),
    "barrier": ("barrier", _NOTHING),
    "broadcast": ("broadcast", _IN_PLACE),
    "gather": ("gather", _OUT_IN),
    "monitored_barrier": ("barrier", _NOTHING),
    "reduce": ("reduce", _IN_PLACE),
    "reduce_scatter": ("reduce_scatter", _OUT_IN),
    "reduce_scatter_single": ("reduce_scatter", _OUT_IN),
    "reduce_scatter_single_coalesced": ("reduce_scatter", _OUT_IN),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", _OUT_IN),
    "scatter": ("scatter", _OUT_IN),
}
"""Methods of a process group, over all torch versions: the collective, and what its first arguments are."""

_FUNCTIONAL: Mapping[str, Mapping[str, str]] = {
    "_c10d_functional": {
        "all_gather_into_tensor": "all_gather",
        "all_gather_into_tensor_coalesced": "all_gather",
        "all_reduce": "all_reduce",
        "all_reduce_": "all_reduce",
        "all_reduce_coalesced": "all_reduce",
        "all_reduce_coalesced_": "all_reduce",
        "all_to_all_single": "all_to_all",
        "broadcast": "broadcast",
        "broadcast_": "broadcast",
        "reduce_scatter_tensor": "reduce_scatter",
        "reduce_scatter_tensor_coalesced": "reduce_scatter",
    },
    "_c10d_functional_autograd": {
        "all_gather_into_tensor": "all_gather",
        "all_to_all_single": "all_to_all",
        "reduce_scatter_tensor": "reduce_scatter",
    },
    "_dtensor": {"shard_dim_alltoall": "all_to_all"},
}
"""Functional operators by namespace: their first argument goes in, what they return comes out, the group's name is last."""

_WAIT = ("_c10d_functional", "wait_tensor")
"""The operator that waits for a tensor that one of these returned."""

_WITH_OPTIONS = frozenset({"all_reduce", "broadcast", "reduce_scatter"})
"""Those whose second argument is the reduction or the root."""

_LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, sysconfig.get_path("stdlib") + os.sep, __file__)


def _redistribution(frame: FrameType) -> str:
    try:
        specs = (frame.f_locals["current_spec"], frame.f_locals["target_spec"])
        return "redistribute " + " -> ".join(", ".join(map(str, spec.placements)) for spec in specs)
    except (KeyError, AttributeError):  # another torch names them differently
        return "redistribute"


_REASONS: Mapping[str, Callable[[FrameType], str]] = {
    "redistribute_local_tensor": _redistribution,
    "foreach_all_gather": lambda _: "FSDP2 gathers parameters",
    "foreach_reduce": lambda _: "FSDP2 reduces gradients",
    "distribute_tensor": lambda _: "distribute_tensor",
}
"""Functions of torch that tell why a collective is called, when it is called from them."""


def _nothing(_frame: FrameType) -> str:
    """What a function of a library tells that is not in the table."""
    return ""


def _the_program(_frame: FrameType) -> str:
    """What a function of the program itself tells; its line is told instead."""
    return ""


_telling: dict[int, tuple[Callable[[FrameType], str], CodeType]] = {}
"""What each function met so far tells, by the address of its code, which stays alive here: to hash a code object would touch
all that it refers to, and looking this up must cost next to nothing."""


@dataclass(eq=False, slots=True)
class _Pending:
    """A call whose result has not been waited for."""

    group: str
    number: int
    pieces: list[dict[str, Any] | None] = field(default_factory=list)


class LineFile:
    """A file that only its owner can read, to which lines are written so that each survives the end of the process.

    Args:
        path: where it is.
        on_failure: called once with the error when it cannot be written to; no line is written after it.
    """

    def __init__(self, path: str, on_failure: Callable[[OSError], object]) -> None:
        self._on_failure = on_failure
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._failed = False

    def __call__(self, line: bytes) -> None:
        """Write a line."""
        if not self._failed:
            try:
                os.write(self._file, line)
            except OSError as error:
                self._failed = True
                self._on_failure(error)

    def clear(self) -> None:
        """Remove every line."""
        os.ftruncate(self._file, 0)
        self._failed = False


class Tape:
    """Writes one line before and one after every collective of this process.

    Args:
        write: takes each line.
        rank: of this process.
        world: number of ranks of the program.
        program: its name.
        most_values: the values of a tensor are recorded if it has at most so many elements.
    """

    def __init__(
        self, write: Callable[[bytes], object], rank: int, world: int, program: str = "", most_values: int = 0
    ) -> None:
        self._write = write
        self._most_values = most_values
        self._lock = threading.Lock()
        self._inside = threading.local()
        self._encode = msgspec.json.Encoder().encode
        self._dtypes: dict[torch.dtype, tuple[str, int]] = {}
        self._about = {
            "shardviz": VERSION,
            "rank": rank,
            "world": world,
            "program": program,
            "host": socket.gethostname(),
            "torch": torch.__version__.partition("+")[0],
        }
        self.begin()

    def begin(self) -> None:
        """Begin a record: every group is at its first collective."""
        self._groups: dict[str, tuple[int, ...]] = {}
        self._numbers: dict[str, int] = {}
        self._works: WeakKeyDictionary[Any, tuple[_Pending, list[torch.Tensor]]] = WeakKeyDictionary()
        self._outputs: dict[int, tuple[_Pending, int]] = {}  # by address: on its way a tensor is wrapped and aliased
        self._start = time.perf_counter()
        self._line(begin={**self._about, "started": time.time()})

    def end(self, error: str = "") -> None:
        """Note that the program has ended, and by which exception."""
        self._line(end={"error": error})

    def call(self, name: str, group: Any, given: list[torch.Tensor], options: Any) -> _Pending | None:
        """Note that a collective begins; None when it is not one of real tensors in a known group.

        Args:
            name: which collective.
            group: the process group, or its name.
            given: what goes in.
            options: where the root or the reduction is told: torch's options, or the name of a reduction.
        """
        if not all(map(_is_real, given)):
            return None
        label = group if isinstance(group, str) else group.group_name
        ranks = self._groups.get(label) or self._introduce(label, group)
        if not ranks:
            return None
        # One thread at a time, so that the numbers are in the order of the calls.
        with self._lock:
            number = self._numbers.get(label, 0)
            self._numbers[label] = number + 1
        line: dict[str, Any] = {
            "group": label,
            "number": number,
            "name": name,
            "given": [self._piece(tensor) for tensor in given],
        }
        if isinstance(options, str):
            line["reduction"] = options
        elif name in ("all_reduce", "reduce", "reduce_scatter"):
            line["reduction"] = _reduction(options)
        root = options if isinstance(options, int) else getattr(options, "rootRank", None)
        if root is not None:
            line["root"] = ranks[root]
        line["reason"], line["place"] = _why(sys._getframe(2))
        line["at"] = self._now()
        self._line(call=line)
        return _Pending(label, number)

    def waits_for_work(self, pending: _Pending, work: Any, got: list[torch.Tensor]) -> None:
        """Take the call for done as soon as `work` is waited for."""
        self._works[work] = (pending, got)

    def waits_for_tensors(self, pending: _Pending, got: list[torch.Tensor]) -> None:
        """Take the call for done as soon as every tensor that it returned is waited for."""
        pending.pieces = [None] * len(got)
        for index, tensor in enumerate(got):
            self._outputs[tensor.data_ptr()] = (pending, index)

    def waited_for_work(self, work: Any) -> None:
        """Note that `work` was waited for."""
        pending, got = self._works.pop(work, (None, ()))
        if pending is not None:
            self.done(pending, got)

    def waited_for_tensor(self, tensor: torch.Tensor) -> None:
        """Note that a tensor was waited for."""
        pending, index = self._outputs.pop(tensor.data_ptr(), (None, 0))
        if pending is not None:
            pending.pieces[index] = self._piece(tensor)
            if all(pending.pieces):
                self._done(pending, pending.pieces)

    def done(self, pending: _Pending, got: Sequence[torch.Tensor]) -> None:
        """Note that a call is done, and what came out."""
        self._done(pending, [self._piece(tensor) for tensor in got])

    def _done(self, pending: _Pending, got: Sequence[dict[str, Any] | None]) -> None:
        self._line(done={"group": pending.group, "number": pending.number, "got": got, "at": self._now()})

    def enter(self) -> bool:
        """Before a collective: False if it is called by another one, and so is part of that."""
        if getattr(self._inside, "held", False):
            return False
        self._inside.held = True
        return True

    def leave(self) -> None:
        """After a collective that `enter` let in."""
        self._inside.held = False

    def _now(self) -> float:
        return round(time.perf_counter() - self._start, 6)

    def _line(self, **line: Any) -> None:
        self._write(self._encode(line) + b"\n")

    def _introduce(self, label: str, group: Any) -> tuple[int, ...]:
        try:
            ranks = group_ranks(label)
            backend = dist.get_backend(None if isinstance(group, str) else group)
        except (KeyError, ValueError, RuntimeError):  # a group that torch itself does not know by name
            return ()
        self._groups[label] = ranks
        self._line(group={"label": label, "ranks": ranks, "backend": backend})
        return ranks

    def _piece(self, tensor: torch.Tensor) -> dict[str, Any]:
        dtype = tensor.dtype
        known = self._dtypes.get(dtype)
        if known is None:
            known = self._dtypes[dtype] = (str(dtype).removeprefix("torch."), dtype.itemsize)
        piece: dict[str, Any] = {"shape": tuple(tensor.shape), "dtype": known[0], "itemsize": known[1]}
        if self._most_values:
            piece["values"] = self._values(tensor)
        return piece

    def _values(self, tensor: torch.Tensor) -> list[Any] | None:
        if tensor.numel() > self._most_values or type(tensor).__name__ not in _PLAIN:
            return None
        with torch.no_grad():
            plain = tensor.detach().reshape(-1)
            values = (torch.view_as_real(plain).reshape(-1) if plain.is_complex() else plain).tolist()
        return [str(value) if isinstance(value, float) and not math.isfinite(value) else value for value in values]


_PLAIN = frozenset({"Tensor", "Parameter"})
_REAL = _PLAIN | {"AsyncCollectiveTensor"}


def _is_real(tensor: Any) -> bool:
    """Whether it has elements: a compiler calls collectives on tensors without any."""
    return type(tensor).__name__ in _REAL and not tensor.is_meta


def _reduction(options: Any) -> str:
    try:
        operation = options.reduceOp.op
    except AttributeError:
        return ""
    number = int(operation)
    return _reductions.get(number) or _reductions.setdefault(number, str(operation.name).lower())


_reductions: dict[int, str] = {}
"""Their names, which torch takes long to tell."""


def _why(frame: FrameType | None) -> tuple[str, str]:
    """Why a collective was called, where torch's functions tell, and the line of the program that led to it."""
    reason = ""
    while frame is not None:
        code = frame.f_code
        telling, _ = _telling.get(id(code)) or _remember(code)
        if telling is _the_program:
            file = os.path.basename(code.co_filename)
            # A function that came from a notebook's cell has no file here, but it has a name.
            return reason, f"{code.co_name if file.startswith('<') else file}:{frame.f_lineno}"
        if telling is not _nothing and not reason:
            reason = telling(frame)
        frame = frame.f_back
    return reason, ""


def _remember(code: CodeType) -> tuple[Callable[[FrameType], str], CodeType]:
    inside = code.co_filename.startswith(_LIBRARIES)
    known = _telling[id(code)] = (_REASONS.get(code.co_name, _nothing) if inside else _the_program, code)
    return known


def _flat(tensors: Any) -> list[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for part in tensors for tensor in _flat(part)]


@contextmanager
def listening(tape: Tape) -> Iterator[None]:
    """Have a tape record every collective of this process."""
    with ExitStack() as undo:

        def wrap(owner: Any, attribute: str, wrapped: Callable[[Any], Any]) -> None:
            original = getattr(owner, attribute)
            before = vars(owner)[attribute]  # of a method of torch's C++ classes this is what binds it
            setattr(owner, attribute, wrapped(original))
            undo.callback(setattr, owner, attribute, before)

        for method, (name, form) in _METHODS.items():
            if hasattr(dist.ProcessGroup, method):
                wrap(dist.ProcessGroup, method, partial(_method, tape, name, form))
        wrap(dist.Work, "wait", partial(_wait_of_work, tape))
        for namespace, operators in _FUNCTIONAL.items():
            packets = getattr(torch.ops, namespace)
            for operator, name in operators.items():
                if hasattr(packets, operator):
                    wrap(getattr(packets, operator), "_op", partial(_operator, tape, name))
        namespace, wait = _WAIT
        wrap(getattr(getattr(torch.ops, namespace), wait), "_op", partial(_wait_for_tensor, tape))
        yield


def _method(tape: Tape, name: str, form: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        if not tape.enter():
            return original(group, *args, **kwargs)
        try:
            got = [] if form is _NOTHING else _flat(args[0])
            pending = tape.call(name, group, _flat(args[1]) if form is _OUT_IN else got, args[-1] if args else None)
            work = original(group, *args, **kwargs)
            if pending is not None:
                if work is None:
                    tape.done(pending, got)
                else:
                    tape.waits_for_work(pending, work, got)
            return work
        finally:
            tape.leave()

    return call


def _operator(tape: Tape, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not tape.enter():
            return original(*args, **kwargs)
        try:
            pending = tape.call(name, args[-1], _flat(args[0]), args[1] if name in _WITH_OPTIONS else None)
            result = original(*args, **kwargs)
            if pending is not None:
                tape.waits_for_tensors(pending, _flat(result))
            return result
        finally:
            tape.leave()

    return call


def _wait_of_work(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(work, *args, **kwargs)
        tape.waited_for_work(work)
        return result

    return wait


def _wait_for_tensor(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(tensor, *args, **kwargs)
        tape.waited_for_tensor(tensor)
        return result

    return wait
