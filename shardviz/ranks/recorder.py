"""Records what torch does on one rank: every operation that moves elements under a DTensor call, as torch names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from shardviz.tensors.reported import TorchDispatchMode, group_ranks

__all__ = ["Operation", "Recorder"]

_UNMOVED = frozenset({"_wrap_tensor_autograd", "wait_tensor", "view", "detach", "alias", "split"})
"""Operations after which every element is where it was; `split` makes pieces that a later `cat` joins."""


@dataclass(frozen=True)
class Operation:
    """One operation as torch ran it on this rank.

    Attributes:
        name: torch's name of it, such as "all_gather_into_tensor" or "constant_pad_nd".
        output: what it returned. That of an asynchronous collective is whole only once it was waited for, so it is read
            after the recording.
        group: the ranks of a collective; empty for a local operation.
        given: number of elements that went into a collective.
        reduction: the reduction that a collective applies, or "".
    """

    name: str
    output: torch.Tensor
    group: tuple[int, ...] = ()
    given: int = 0
    reduction: str = ""


class Recorder(TorchDispatchMode):
    """A context that records the operations on plain tensors of one dtype; a DTensor's are seen as what they run.

    Operations that return several pieces are left out: the one that joins the pieces shows what became of them.

    Args:
        dtype: index arithmetic and other bookkeeping is done in other dtypes, and is not recorded.

    Attributes:
        operations: what ran, in order.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and note it."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if isinstance(result, torch.Tensor) and result.dtype == self.dtype and name not in _UNMOVED:
            if func.namespace == "_c10d_functional":
                *_, group_name = args
                reduction = next((argument for argument in args[1:-1] if isinstance(argument, str)), "")
                self.operations.append(Operation(name, result, group_ranks(group_name), args[0].numel(), reduction))
            else:
                self.operations.append(Operation(name, result))
        return result
