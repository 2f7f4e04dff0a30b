"""Writes what a process communicates, line by line as it happens, in the form that `recording_lines` reads."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import msgspec
import torch
import torch.distributed as dist

from shardviz.core.recording_lines import VERSION
from shardviz.ranks.callers import Caller
from shardviz.ranks.operators import Heard
from shardviz.tensors.seams import unobserved

__all__ = ["Pending", "Tape"]


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """A call that a tape has written down, and that is not done.

    Attributes:
        tape: the tape.
        page: the tape's record that it belongs to.
        group: the group's label there.
        number: of the call.
        message: whether it is a message.
    """

    tape: Tape
    page: object
    group: str
    number: int
    message: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """A process group that was introduced: how the record calls it, and its ranks."""

    group: ref[Any]
    label: str
    ranks: tuple[int, ...]


class Tape:
    """Writes one line before and one after every collective and message of this process.

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
        self._page = object()
        self._groups: dict[str, _Group] = {}
        self._numbers: dict[tuple[str, bool], int] = {}
        self._gaps: set[str] = set()
        self._start = time.perf_counter()
        self._line(begin={**self._about, "started": time.time()})

    def end(self, error: str = "") -> None:
        """Note that the program has ended, and by which exception."""
        self._line(end={"error": error})

    def gap(self, what: str) -> None:
        """Note, once, what could not be seen."""
        if what not in self._gaps:
            self._gaps.add(what)
            self._line(gap={"what": what})

    def call(self, heard: Heard, caller: Caller) -> Pending | None:
        """Note that a call begins; None where its group is not known."""
        group = self._group(heard.group)
        if group is None:
            self.gap(f"{heard.name} in a process group that torch does not know by name")
            return None
        key = (group.label, heard.is_message)
        # One thread at a time, so that the numbers are in the order of the calls.
        with self._lock:
            number = self._numbers.get(key, 0)
            self._numbers[key] = number + 1
        line: dict[str, Any] = {"group": group.label, "number": number, "name": heard.name}
        line["given"] = [self._piece(tensor, heard.name != "recv") for tensor in heard.given]
        if heard.reduction:
            line["reduction"] = heard.reduction
        if heard.is_message:
            line |= {"message": True, "tag": heard.tag, "peer": None if heard.root is None else group.ranks[heard.root]}
        elif heard.root is not None:
            line["root"] = group.ranks[heard.root]
        if heard.splits:
            tensor = heard.given[0]
            row = tensor.element_size() * math.prod(tensor.shape[1:])
            line["parts"] = [rows * row for rows in heard.splits]
        line["reason"], line["place"] = caller.reason, caller.place
        if caller.module:
            line["module"] = caller.module
        if caller.padding is not None:
            line["padding"] = caller.padding
        line["at"] = self._now()
        self._line(call=line)
        return Pending(self, self._page, group.label, number, heard.is_message)

    def done(self, pending: Pending, got: Sequence[torch.Tensor], source: int | None = None, late: bool = False) -> None:
        """Note that a call is done, and what came out.

        Args:
            pending: the call.
            got: what came out.
            source: the rank of the group that sent it, where the call did not say.
            late: it may have been done for long.
        """
        if pending.page is not self._page:
            return
        line: dict[str, Any] = {"group": pending.group, "number": pending.number, "at": self._now()}
        line["got"] = [self._piece(tensor, not late) for tensor in got]
        if pending.message:
            line["message"] = True
        if source is not None:
            line["peer"] = self._groups[pending.group].ranks[source]
        if late:
            line["late"] = True
        self._line(done=line)

    def _now(self) -> float:
        return round(time.perf_counter() - self._start, 6)

    def _line(self, **line: Any) -> None:
        self._write(self._encode(line) + b"\n")

    def _group(self, group: Any) -> _Group | None:
        name = group.group_name
        known = self._groups.get(name)
        if known is not None and known.group() is group:
            return known
        try:
            ranks = tuple(dist.get_process_group_ranks(group))
            backend = dist.get_backend(group)
        except (KeyError, ValueError, RuntimeError):  # a group that the program made by itself
            return None
        label = name
        while (other := self._groups.get(label)) is not None and other.ranks != ranks:
            label += "'"  # a group of this name was destroyed, and the name given to another one
        found = _Group(ref(group), label, ranks)
        if other is None:
            self._line(group={"label": label, "ranks": ranks, "backend": backend})
        self._groups[label] = self._groups[name] = found
        return found

    def _piece(self, tensor: torch.Tensor, with_values: bool) -> dict[str, Any]:
        dtype = tensor.dtype
        known = self._dtypes.get(dtype)
        if known is None:
            known = self._dtypes[dtype] = (str(dtype).removeprefix("torch."), dtype.itemsize)
        piece: dict[str, Any] = {"shape": tuple(tensor.shape), "dtype": known[0], "itemsize": known[1]}
        if self._most_values and with_values:
            piece["values"] = self._values(tensor)
        return piece

    def _values(self, tensor: torch.Tensor) -> list[Any] | None:
        if tensor.numel() > self._most_values or type(tensor).__name__ not in _PLAIN or tensor.layout != torch.strided:
            return None
        with unobserved():
            plain = tensor.detach().reshape(-1)
            values = (torch.view_as_real(plain).reshape(-1) if plain.is_complex() else plain).tolist()
        return [str(value) if isinstance(value, float) and not math.isfinite(value) else value for value in values]


_PLAIN = frozenset({"Tensor", "Parameter", "Buffer"})
