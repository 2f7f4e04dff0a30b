"""What a rank answers, as plain facts, and the two questions it is asked. No torch: the asking process needs none."""

from __future__ import annotations

from dataclasses import dataclass

from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report

__all__ = ["Answers", "TorchOperation", "TorchRun", "answer", "full_tensor"]


@dataclass(frozen=True)
class Answers:
    """What one rank found.

    Attributes:
        made_by: how the tensor came to be.
        held: this rank's shard.
        report: what torch reports of it.
        buffers: after every operation of shardviz's reconstruction.
    """

    made_by: str
    held: Buffer
    report: Report
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class TorchOperation:
    """One recorded operation of torch.

    Attributes:
        name: torch's name of it.
        group: the ranks of a collective; empty for a local operation.
        given: number of elements that went into a collective.
        reduction: the reduction that a collective applies, or "".
        after: what came out.
    """

    name: str
    group: tuple[int, ...]
    given: int
    reduction: str
    after: Buffer


@dataclass(frozen=True)
class TorchRun:
    """One rank's record of `full_tensor()`: the shard, the operations, and the result."""

    held: Buffer
    operations: tuple[TorchOperation, ...]
    result: Buffer


def answer(spec: Spec, device: str) -> Answers | None:
    """Called in a rank: see `worker.answer`."""
    from shardviz.ranks import worker

    return worker.answer(spec, device)


def full_tensor(spec: Spec, device: str) -> TorchRun | None:
    """Called in a rank: see `worker.full_tensor`."""
    from shardviz.ranks import worker

    return worker.full_tensor(spec, device)
