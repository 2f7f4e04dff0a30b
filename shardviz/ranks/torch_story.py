"""The story of torch's own `full_tensor()` or `redistribute()`, from what every rank recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from shardviz.core.play import ITEMSIZE, first_step
from shardviz.core.recipe import payload, reduce_payload
from shardviz.core.spec import Spec
from shardviz.core.trace import Source, Step, Trace
from shardviz.ranks.answers import TorchOperation, TorchRun

__all__ = ["torch_story"]

_SENTENCES = {
    "all_gather_into_tensor": "torch gathers the shards of every group, joined along the first dimension.",
    "all_reduce": "torch reduces the addends of every group.",
    "constant_pad_nd": "torch fills shards up with zeros, so that every member of a group sends the same amount.",
    "slice": "torch cuts the padding off.",
    "cat": "torch joins the pieces along the tensor dimension.",
    "reduce_scatter_tensor": "torch reduces the addends of every group; each rank gets its own part.",
    "all_to_all_single": "every rank of a group sends each of the others its part.",
    "index_select": "torch puts the elements into another order.",
}


def torch_story(spec: Spec, source: Source, runs: Sequence[TorchRun], target: Spec | None = None) -> Trace:
    """Put the operations of all ranks side by side.

    Ranks may run different local operations (only those with short shards pad): a rank that skips one keeps its buffer.
    Local operations that change no rank's buffer are left out.

    Args:
        spec: the tensor's spec.
        source: where the story comes from.
        runs: what each rank recorded, in the mesh's order.
        target: where a redistribution went; None for `full_tensor()`.
    """
    call = "full_tensor()" if target is None else "redistribute()"
    buffers = tuple(run.held for run in runs)
    steps = [first_step(f"What each rank holds before {call}.", buffers)]
    for done in _side_by_side([run.operations for run in runs]):
        name = next(one.name for one in done if one)
        after = tuple(one.after if one else before for one, before in zip(done, buffers, strict=True))
        groups = tuple(sorted({one.group for one in done if one and one.group}))
        if groups or after != buffers:
            sent = tuple(_sent(one) for one in done)
            sentence = _SENTENCES.get(name, f"torch runs {name}.")
            steps.append(Step(name, "collective" if groups else "local", sentence, after, groups, sent))
        buffers = after
    result = tuple(run.result for run in runs)
    if result != buffers:
        steps.append(Step("result", "local", f"What {call} returns.", result, (), (0,) * len(runs)))
    return Trace(spec, source, call.removesuffix("()"), tuple(steps), target=target)


def _sent(operation: TorchOperation | None) -> int:
    if operation is None or not operation.group:
        return 0
    members = len(operation.group)
    if operation.name in ("reduce_scatter_tensor", "all_to_all_single"):  # a rank keeps one of its parts
        return payload((operation.given // members,), ITEMSIZE, members)
    count = reduce_payload if operation.reduction else payload
    return count((operation.given,), ITEMSIZE, members)


def _side_by_side(runs: Sequence[Sequence[TorchOperation]]) -> Iterator[list[TorchOperation | None]]:
    """The operations of all ranks, step by step; None for a rank that does nothing in a step.

    Collectives are met by all ranks in the same order, so they line the ranks up; between two of them names do.
    """
    for parts in zip_longest(*map(_parts, runs), fillvalue=()):
        waiting = [[operation for operation in part if not operation.group] for part in parts]
        for name in _merged([[operation.name for operation in queue] for queue in waiting]):
            if any(queue and queue[0].name == name for queue in waiting):
                yield _taken(waiting, name)
        while any(waiting):  # ranks that run the same operations in another order
            yield _taken(waiting, next(queue[0].name for queue in waiting if queue))
        collective = [part[-1] if part and part[-1].group else None for part in parts]
        if any(collective):
            yield collective


def _taken(waiting: Sequence[list[TorchOperation]], name: str) -> list[TorchOperation | None]:
    """The next operation of every rank whose next one has this name."""
    return [queue.pop(0) if queue and queue[0].name == name else None for queue in waiting]


def _parts(operations: Sequence[TorchOperation]) -> list[tuple[TorchOperation, ...]]:
    """Cut after every collective."""
    parts: list[tuple[TorchOperation, ...]] = []
    begin = 0
    for end, operation in enumerate(operations, 1):
        if operation.group or end == len(operations):
            parts.append(tuple(operations[begin:end]))
            begin = end
    return parts


def _merged(sequences: Sequence[Sequence[str]]) -> list[str]:
    """One order that holds every sequence.

    Example:
        >>> _merged([["gather", "slice"], ["pad", "gather"], ["gather"]])
        ['pad', 'gather', 'slice']
    """
    merged: list[str] = []
    for sequence in sequences:
        merged = list(_woven(merged, sequence))
    return merged


def _woven(first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for _, first_from, first_to, second_from, second_to in matcher.get_opcodes():
        yield from first[first_from:first_to]
        if first[first_from:first_to] != second[second_from:second_to]:
            yield from second[second_from:second_to]
