"""What an operator of a process group was asked for, read off its arguments by the names of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shardviz.tensors.seams import COLLECTIVES, group_of, parameters, reduction

__all__ = ["Heard", "Reader"]


@dataclass(frozen=True, slots=True)
class Heard:
    """One call, before it runs.

    Attributes:
        name: which collective, or "send" or "recv".
        group: the process group.
        given: the tensors that go in; of a receive, the buffer.
        got: the tensors that hold what comes out, once it is done.
        reduction: the reduction, or "".
        root: the root's or the peer's place in the group, or None.
        tag: of a message.
        splits: rows for each member of the group, where they are uneven.
    """

    name: str
    group: Any
    given: list[torch.Tensor]
    got: list[torch.Tensor]
    reduction: str = ""
    root: int | None = None
    tag: int = 0
    splits: tuple[int, ...] = ()

    @property
    def is_message(self) -> bool:
        """Whether it is one side of a point-to-point message."""
        return self.name in ("send", "recv")


class Reader:
    """Reads the calls of one operator.

    Args:
        operator: its name in torch's namespace of process groups; one of `COLLECTIVES`.
    """

    def __init__(self, operator: str) -> None:
        names = parameters("c10d", operator)
        place = {name: index for index, name in enumerate(names)}
        self.name = COLLECTIVES[operator]
        self._group = place["process_group"]
        self._got = next((place[name] for name in names if name.startswith("output")), 0)
        self._given = next((place[name] for name in names if name.startswith("input")), 0)
        self._reduction = place.get("reduce_op")
        self._root = next((place[name] for name in ("root_rank", "dst", "src") if name in place), None)
        self._tag = place.get("tag")
        self._splits = place.get("input_split_sizes")

    def __call__(self, args: Sequence[Any]) -> Heard:
        """What a call with these arguments is."""

        def at(place: int | None) -> Any:
            return args[place] if place is not None and place < len(args) else None

        empty = self.name == "barrier"
        scripted = at(self._reduction)
        return Heard(
            name=self.name,
            group=group_of(args[self._group]),
            given=[] if empty else _flat(args[self._given]),
            got=[] if empty or self.name == "send" else _flat(args[self._got]),
            reduction="" if scripted is None else reduction(scripted),
            root=at(self._root),
            tag=at(self._tag) or 0,
            splits=tuple(at(self._splits) or ()),
        )


def _flat(tensors: Any) -> list[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for part in tensors for tensor in _flat(part)]
