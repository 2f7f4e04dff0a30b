"""Every explanation of what a tensor's chunks hold: where they say, where each rank's rows follow the former's, or by a cut."""

from __future__ import annotations

from itertools import accumulate

from shardviz.checks.checkpoints.chunks import Box, coverage
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor
from shardviz.checks.checkpoints.origin import Origin, origins

__all__ = ["explanations"]


def explanations(tensor: StoredTensor, ranks: int) -> tuple[Origin, ...]:
    """Every way in which a tensor's chunks can hold what they store.

    Args:
        tensor: the tensor.
        ranks: number of ranks that wrote the checkpoint.
    """
    plain = (_as_promised(tensor), _one_after_the_other(tensor))
    return (*filter(None, plain), *origins(tensor, ranks))


def _as_promised(tensor: StoredTensor) -> Origin | None:
    """That every chunk lies where it says: only its file is lost, or damaged, where it does not store what it promises."""
    if any(chunk.tensor and chunk.tensor.shape != chunk.size for chunk in tensor.chunks):
        return None
    return Origin(None, tuple(Box(c.offset, c.size) if c.right and c.promised else None for c in tensor.chunks))


def _one_after_the_other(tensor: StoredTensor) -> Origin | None:
    """That the chunks stand in the order of their offsets, each as large as it is: `from_local` of unequal parts.

    Such a tensor's offsets follow from the rule of equal chunks, and not from the parts that the ranks gave.
    """
    stored = [chunk.tensor.shape for chunk in tensor.chunks if chunk.tensor]
    if len(stored) < len(tensor.chunks) or any(len(shape) != len(tensor.shape) for shape in stored):
        return None
    begins: list[dict[int, int]] = []
    for dim, size in enumerate(tensor.shape):
        sizes: dict[int, int] = {}
        for chunk, shape in zip(tensor.chunks, stored, strict=True):
            if sizes.setdefault(chunk.offset[dim], shape[dim]) != shape[dim]:
                return None  # chunks side by side are as long as each other
        places = sorted(sizes)
        if sum(sizes.values()) != size or not (_equally_cut(tensor, dim, places) or _in_turn(tensor, dim)):
            return None
        begins.append(dict(zip(places, accumulate((sizes[at] for at in places[:-1]), initial=0), strict=True)))
    boxes = []
    for chunk, shape in zip(tensor.chunks, stored, strict=True):
        box = Box(tuple(begin[at] for begin, at in zip(begins, chunk.offset, strict=True)), shape)
        boxes.append(box if box.numel else None)
    covered = coverage(tensor.shape, [box for box in boxes if box])
    if covered.missing or covered.overlapping:
        return None
    return Origin(None, tuple(boxes), f"each rank's part follows the former's: {_sizes(tensor, stored)}")


def _equally_cut(tensor: StoredTensor, dim: int, places: list[int]) -> bool:
    """Whether the offsets along a dimension are those of equal chunks, ceil(size / ranks) each."""
    size, step = tensor.shape[dim], places[1] if len(places) > 1 else tensor.shape[dim]
    equal = all(at == min(place * step, size) for place, at in enumerate(places))
    fewest = -(-size // step) if step else 1  # ranks that chunks of this size need
    return (
        equal
        and -(-size // fewest) == step
        and all(chunk.size[dim] == min(step, size - chunk.offset[dim]) for chunk in tensor.chunks)
    )


def _in_turn(tensor: StoredTensor, dim: int) -> bool:
    """Whether, along a dimension, later ranks have later offsets."""
    lines: dict[tuple[int, ...], list[Chunk]] = {}
    for chunk in tensor.chunks:
        lines.setdefault((*chunk.offset[:dim], *chunk.offset[dim + 1 :]), []).append(chunk)
    for line in lines.values():
        ranks = [chunk.rank for chunk in sorted(line, key=lambda chunk: chunk.offset[dim])]
        known = [rank for rank in ranks if rank is not None]
        if known != ranks or known != sorted(set(known)):
            return False
    return True


def _sizes(tensor: StoredTensor, stored: list[tuple[int, ...]]) -> str:
    """The parts' sizes along the dimensions that are cut, in order."""
    dims = [dim for dim in range(len(tensor.shape)) if len({chunk.offset[dim] for chunk in tensor.chunks}) > 1]
    pairs = sorted(zip([chunk.offset for chunk in tensor.chunks], stored, strict=True))
    texts = [" x ".join(str(shape[dim]) for dim in dims) for _, shape in pairs]
    return ", ".join(texts[:12]) + (", …" if len(texts) > 12 else "")
