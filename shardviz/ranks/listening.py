"""Hears every communication of this process, whoever asks torch for it, and has tapes write it down; changes none of it.

Whatever goes wrong in here, the program's call goes through once, as it is, and the tapes note what they could not see.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from shardviz.ranks.callers import caller, is_program
from shardviz.ranks.operators import Heard, Reader
from shardviz.ranks.tape import Pending, Tape
from shardviz.tensors import seams

__all__ = ["listening"]

ORPHANS = 64
"""The most works that are looked at again and again because nobody in Python waits for them."""

_UNHELD = 2
"""References to a work that only we hold: ours, and that of whoever counts."""


@dataclass(frozen=True, eq=False, slots=True)
class _Outstanding:
    """A call that is under way, as every tape wrote it down, and where what comes out will be."""

    pending: tuple[Pending, ...]
    got: list[torch.Tensor]
    from_any: bool = False
    on_host: bool = False


class _Ears:
    """What this process hears: one for all tapes, because torch has one dispatcher."""

    def __init__(self) -> None:
        self.tapes: tuple[Tape, ...] = ()
        self.lock = threading.Lock()
        self.undo: list[Callable[[], None]] = []
        self.forget()

    def forget(self) -> None:
        """Forget all calls that are under way."""
        self.works: WeakKeyDictionary[Any, _Outstanding] = WeakKeyDictionary()
        self.futures: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.outputs: dict[int, _Returned] = {}
        self.orphans: deque[Any] = deque(maxlen=ORPHANS)
        self.thread = threading.local()


@dataclass(frozen=True, eq=False, slots=True)
class _Returned:
    """What a functional operator returned: the calls that it made are done when all of it was waited for."""

    calls: tuple[_Outstanding, ...]
    tensors: list[torch.Tensor]
    left: set[int]


_ears = _Ears()


@contextmanager
def listening(tape: Tape) -> Iterator[None]:
    """Have a tape record every collective and message of this process."""
    with _ears.lock:
        if not _ears.tapes:
            _ears.forget()
            _begin_to_hear(tape)
        _ears.tapes = (*_ears.tapes, tape)
    try:
        yield
    finally:
        _guarded(_let_go)
        _guarded(_look_at_orphans)
        with _ears.lock:
            _ears.tapes = tuple(other for other in _ears.tapes if other is not tape)
            if not _ears.tapes:
                while _ears.undo:
                    _ears.undo.pop()()
                _ears.forget()


def _begin_to_hear(tape: Tape) -> None:
    try:
        _ears.undo.append(seams.intercept(_kernels()))
        _ears.undo.extend(_patches())
    except (AttributeError, KeyError, RuntimeError, ImportError, ValueError) as error:
        tape.gap(f"anything: torch {torch.__version__} is built in a way that shardviz does not know ({error})")


def _kernels() -> Mapping[tuple[str, str], Callable[..., Any]]:
    kernels: dict[tuple[str, str], Callable[..., Any]] = {}
    for namespace, name in seams.operators():
        if namespace == "c10d" and name in seams.COLLECTIVES:
            kernels[namespace, name] = partial(_communication, Reader(name))
        elif namespace == seams.ONE_SIDED or (namespace == "c10d" and "process_group" in seams.parameters(namespace, name)):
            kernels[namespace, name] = partial(_unseen, f"what {namespace}::{name} moved")
        elif (namespace, name) == seams.FUNCTIONAL:
            kernels[namespace, name] = _wait_for_tensor
        elif namespace == seams.FUNCTIONAL[0]:
            kernels[namespace, name] = _functional
    return MappingProxyType(kernels)


def _communication(read: Reader, run: Callable[..., Any], keys: Any, args: Any, kwargs: Any) -> Any:
    begun = _guarded(_begin, read, args)
    try:
        result = run(keys, *args, **kwargs)
    except BaseException:
        if begun is not None:
            _guarded(_done, _Outstanding(begun[1], []), None, True)
        raise
    if begun is not None:
        _guarded(_began, begun, result)
    return result


def _functional(run: Callable[..., Any], keys: Any, args: Any, kwargs: Any) -> Any:
    thread = _ears.thread
    outer = getattr(thread, "calls", None)
    calls: list[_Outstanding] = []
    thread.calls = calls
    try:
        result = run(keys, *args, **kwargs)
    finally:
        thread.calls = outer
    if calls:
        _guarded(_returned, tuple(calls), result)
    return result


def _wait_for_tensor(run: Callable[..., Any], keys: Any, args: Any, kwargs: Any) -> Any:
    result = run(keys, *args, **kwargs)
    if _ears.outputs:
        _guarded(_waited_for_tensor, args[0])
    return result


def _unseen(what: str, run: Callable[..., Any], keys: Any, args: Any, kwargs: Any) -> Any:
    for tape in _ears.tapes:
        _guarded(tape.gap, what)
    return run(keys, *args, **kwargs)


def _begin(read: Reader, args: Any) -> tuple[Heard, tuple[Pending, ...]] | None:
    heard = read(args)
    if not all(map(seams.is_real, heard.given)) or not all(map(seams.is_real, heard.got)):
        return None
    _let_go()
    if _ears.orphans:
        _look_at_orphans()
    who = caller(sys._getframe(4), heard.group.size())
    pending = [tape.call(heard, who) for tape in _ears.tapes]
    return heard, tuple(one for one in pending if one is not None)


def _began(begun: tuple[Heard, tuple[Pending, ...]], result: Any) -> None:
    heard, pending = begun
    tensors = [*heard.given, *heard.got]
    on_host = bool(tensors) and all(tensor.is_cpu for tensor in tensors)
    outstanding = _Outstanding(pending, heard.got, heard.name == "recv" and heard.root is None, on_host)
    thread = _ears.thread
    calls = getattr(thread, "calls", None)
    if calls is not None:
        calls.append(outstanding)
        return
    work = seams.scripted_work(result)
    if work is None:
        _done(outstanding)
        return
    _ears.works[work] = outstanding
    # Python makes a new object of a work as often as torch hands it over, unless there is one: so this one is held until the
    # caller has it, or lets go of it.
    thread.work = work


def _let_go() -> None:
    """Look whether anybody has taken the last work of this thread, and hold it no longer."""
    thread = _ears.thread
    work = getattr(thread, "work", None)
    if work is None:
        return
    thread.work = None
    outstanding = _ears.works.get(work)
    # An accelerator may not be asked at all times, as while it captures a graph.
    if outstanding is not None and sys.getrefcount(work) <= _UNHELD and outstanding.on_host:
        _ears.orphans.append(work)


def _look_at_orphans() -> None:
    """Note which works are over that only C++ waits for."""
    for _ in range(len(_ears.orphans)):
        work = _ears.orphans.popleft()
        if work in _ears.works:
            if work.is_completed():  # by way of ours, which notes it
                continue
            _ears.orphans.append(work)


def _returned(calls: tuple[_Outstanding, ...], result: Any) -> None:
    tensors = [result] if isinstance(result, torch.Tensor) else list(result)
    several = len(calls) > 1 and len(calls) == len(tensors)
    groups = [((call,), [tensor]) for call, tensor in zip(calls, tensors, strict=True)] if several else [(calls, tensors)]
    for mine, parts in groups:
        found = _Returned(mine, parts, set(map(seams.storage, parts)))
        for key in found.left:
            _ears.outputs[key] = found


def _waited_for_tensor(tensor: torch.Tensor) -> None:
    key = seams.storage(tensor)
    returned = _ears.outputs.pop(key, None)
    if returned is None:
        return
    returned.left.discard(key)
    if not returned.left:
        for call in returned.calls:
            _done(call if len(returned.calls) > 1 else _Outstanding(call.pending, returned.tensors))


def _waited_for_work(work: Any, late: bool = False) -> None:
    thread = _ears.thread
    if getattr(thread, "work", None) is work:
        thread.work = None
    outstanding = _ears.works.pop(work, None)
    if outstanding is not None:
        _done(outstanding, seams.source_rank(work) if outstanding.from_any else None, late)


def _done(outstanding: _Outstanding, source: int | None = None, late: bool = False) -> None:
    for pending in outstanding.pending:
        if pending.tape in _ears.tapes:
            pending.tape.done(pending, outstanding.got, source, late)


# Works and futures: how the program learns that a call is over.


def _patches() -> Iterator[Callable[[], None]]:
    yield _patch(dist.Work, "wait", lambda work, _: _waited_for_work(work))
    yield _patch(dist.Work, "synchronize", lambda work, _: _waited_for_work(work))
    yield _patch(dist.Work, "is_completed", _polled)
    yield _patch(dist.Work, "get_future", _took_future)
    yield _patch(seams.future(), "wait", lambda future, _: _waited_for_future(future))
    yield _patch(seams.future(), "value", lambda future, _: _waited_for_future(future))
    yield _patch(seams.future(), "done", lambda future, over: _waited_for_future(future) if over else None)
    yield _patch(seams.future(), "then", _chained)


def _patch(owner: Any, name: str, note: Callable[[Any, Any], None]) -> Callable[[], None]:
    """Have a method of torch followed by a note of its object and its result; what comes back takes that away."""
    before = vars(owner)[name]  # of torch's C++ classes this is what binds the method
    original = getattr(owner, name)

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if _ears.tapes:
            _guarded(note, self, result)
        return result

    noting.__name__, noting.__doc__ = name, original.__doc__
    noting._torchdynamo_disable = True  # type: ignore[attr-defined]  # a compiler stops here as it does at torch's own
    setattr(owner, name, noting)
    return lambda: setattr(owner, name, before)


def _polled(work: Any, over: bool) -> None:
    if over and work in _ears.works:
        _waited_for_work(work, late=not _asked_by_program())


def _asked_by_program() -> bool:
    return sys._getframe(4).f_code is not _look_at_orphans.__code__


def _took_future(work: Any, future: Any) -> None:
    if work in _ears.works:
        _ears.futures[future] = work
        if _ears.works[work].on_host:
            _ears.orphans.append(work)  # what is chained to the future may run in C++


def _chained(future: Any, follower: Any) -> None:
    work = _ears.futures.get(future)
    if work is not None:
        _ears.futures[follower] = work


def _waited_for_future(future: Any) -> None:
    work = _ears.futures.pop(future, None)
    if work is not None:
        _waited_for_work(work)


def _guarded(step: Callable[..., Any], *args: Any) -> Any:
    """Take a step of ours; what goes wrong in it is noted, and is no matter of the program's.

    An exception that the program's own signal handler raised in the meantime is the program's.
    """
    try:
        return step(*args)
    except Exception as error:
        trace = error.__traceback__
        while trace is not None:
            if is_program(trace.tb_frame.f_code):
                raise
            trace = trace.tb_next
        first = f"{type(error).__name__}: {error}".strip(": ").partition("\n")[0]
        for tape in _ears.tapes:
            try:
                tape.gap(f"a call ({first})")
            except Exception:  # nothing is left to be done
                continue
        return None
