"""What a rank answers, as plain facts, and the questions it is asked. No torch: the asking process needs none."""

from __future__ import annotations

from dataclasses import dataclass

from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report

__all__ = ["Answers", "TorchOperation", "TorchRun", "answer", "torch_run", "used"]


@dataclass(frozen=True)
class Answers:
    """What one rank found.

    Attributes:
        made_by: how the tensor came to be.
        held: this rank's shard.
        report: what torch reports of it.
        buffers: after every operation of shardviz's reconstruction; empty where a rank's shard has another shape than the
            layout gives it, so that there is nothing to begin with.
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
    """One rank's record of what torch did: the shard, the operations, and the result."""

    held: Buffer
    operations: tuple[TorchOperation, ...]
    result: Buffer


def answer(spec: Spec, device: str) -> Answers | None:
    """Called in a rank: see `worker.answer`."""
    from shardviz.ranks import worker

    return worker.answer(spec, device)


def used(spec: Spec, device: str) -> Buffer | None:
    """Called in a rank: see `worker.used`."""
    from shardviz.ranks import worker

    return worker.used(spec, device)


def torch_run(spec: Spec, device: str, target: Spec | None = None) -> TorchRun | None:
    """Called in a rank: see `worker.torch_run`."""
    from shardviz.ranks import worker

    return worker.torch_run(spec, device, target)
