"""One tensor in one process, cut: all shards along a placement, or one rank's shard of a layout. Nothing is sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout, layout
from shardviz.core.placements import Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.tensors.pieces import pad, take

__all__ = ["Split", "cut", "split"]


class Split(NamedTuple):
    """All shards of a tensor along one placement.

    Attributes:
        shards: one tensor per chunk. All have the sizes of the whole tensor on the other dimensions, its dtype and its device.
        pad_sizes: slots of padding at the end of every shard's cut dimension, one number per shard.
    """

    shards: list[torch.Tensor]
    pad_sizes: list[int]


def split(tensor: torch.Tensor, placement: Any, chunks: int, *, padded: bool = True, contiguous: bool = True) -> Split:
    """Cut a tensor into the shards of the ranks of one mesh dimension.

    Gradients flow back into `tensor`; what padding receives is dropped.

    Args:
        tensor: the whole tensor, of any dtype and layout in memory.
        placement: what cuts it: a `Shard` or `StridedShard`, torch's own, or a text such as `"_S(0, 2)"`. A negative tensor
            dimension counts from the last.
        chunks: number of shards, in ranks.
        padded: pad every shard to the size of the longest, so that all of them can travel in one collective.
        contiguous: make every shard contiguous; otherwise a shard that is one run of the tensor may be a view of it.

    Returns:
        The shards, `chunks` of them (those past the last element are empty), and the padding in each: all 0 where not padded.

    Raises:
        SpecError: the placement cuts nothing, or a tensor dimension that the tensor does not have.

    Example:
        >>> shards, pad_sizes = split(torch.arange(5), "S(0)", 4)  # ceil(5 / 4) = 2: 2, 2, 1, 0
        >>> [shard.tolist() for shard in shards], pad_sizes
        ([[0, 1], [2, 3], [4, 0], [0, 0]], [0, 0, 1, 2])
        >>> shards, pad_sizes = split(torch.arange(9), "_S(0, 2)", 4, padded=False)  # 0..4 | 5..8, each into 4
        >>> [shard.tolist() for shard in shards], pad_sizes
        ([[0, 1, 5], [2, 3, 6], [4, 7], [8]], [0, 0, 0, 0])
        >>> split(torch.empty(0, 3), "S(0)", 2).pad_sizes
        [0, 0]

    Source: `_split_tensor` of torch's `Shard` and `_StridedShard` (pytorch/pytorch#150490), with every shard padded and
    every pad size given in all cases.
    """
    pieces = layout(Spec(tuple(tensor.shape), (chunks,), [placement]))
    cutting = pieces.spec.placements[0]
    if not isinstance(cutting, Shard | StridedShard):
        raise SpecError(f"{cutting} cuts nothing: split along a Shard or a StridedShard")
    dim = cutting.dim
    shards = [take(tensor, dim, held.runs[dim]) for held in pieces]
    pad_sizes = [0] * chunks
    if padded:
        longest = max(shard.shape[dim] for shard in shards)
        pad_sizes = [longest - shard.shape[dim] for shard in shards]
        shards = [pad(shard, dim, longest) for shard in shards]
    return Split([shard.contiguous() for shard in shards] if contiguous else shards, pad_sizes)


def cut(tensor: torch.Tensor, layout: Layout, rank: int) -> torch.Tensor:
    """One rank's shard of a tensor that this process has whole.

    Over a mesh dimension where a reduction is pending nothing is cut: every rank of it gets the same elements. Gradients flow
    back into `tensor`.

    Args:
        tensor: the whole tensor.
        layout: which elements each rank holds.
        rank: the rank whose shard to cut.

    Returns:
        The shard, contiguous; it shares memory with `tensor` where it is one contiguous part of it.

    Raises:
        SpecError: the tensor has another shape than the layout's, or the rank is not in the mesh.

    Example:
        >>> from shardviz.core.layout import layout
        >>> from shardviz.core.spec import parse
        >>> pieces = layout(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))  # tp cuts 012 | 34, then dp cuts each
        >>> [cut(torch.arange(5), pieces, rank).tolist() for rank in range(4)]
        [[0, 1], [3], [2], [4]]
    """
    if tuple(tensor.shape) != layout.spec.shape:
        raise SpecError(f"the tensor has shape {tuple(tensor.shape)}, and {layout.spec} is of {layout.spec.shape}")
    for dim, runs in enumerate(layout[rank].runs):
        tensor = take(tensor, dim, runs)
    return tensor.contiguous()
