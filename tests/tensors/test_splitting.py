"""`split` and `cut` against the lists of the oracle, and against torch's own splitting."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.tensor import Shard as TorchShard

from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.placements import Shard, StridedShard
from shardviz.core.spec import parse
from shardviz.tensors.reported import torch_placement
from shardviz.tensors.sharding import cut, split
from tests import oracle
from tests.tensors.programs import bits, indices, numbered, pick, same

DTYPES = [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.uint16, torch.bool, torch.complex64]


@st.composite
def splits(draw):
    """A tensor, contiguous or not, a placement on one of its dimensions, and a number of chunks."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    tensor = numbered(shape, draw(st.sampled_from(DTYPES)))
    turned = draw(st.permutations(range(len(shape))))
    tensor = tensor.permute(turned)
    dim = draw(st.integers(0, len(shape) - 1))
    placement = draw(st.one_of(st.just(Shard(dim)), st.builds(StridedShard, st.just(dim), st.integers(1, 12))))
    return tensor, placement, draw(st.integers(1, 12))


def expected_of(tensor, placement, chunks):
    size, dim = tensor.shape[placement.dim], placement.dim
    lists = oracle.strided_chunks(list(range(size)), getattr(placement, "split_factor", 1), chunks)
    return [torch.cat([tensor.narrow(dim, i, 1) for i in items], dim) if items else tensor.narrow(dim, 0, 0) for items in lists]


@given(splits())
def test_split_without_padding(case):
    tensor, placement, chunks = case
    shards, pad_sizes = split(tensor, placement, chunks, padded=False)
    assert pad_sizes == [0] * chunks
    expected = expected_of(*case)
    assert len(shards) == chunks
    assert all(same(shard, right.contiguous()) for shard, right in zip(shards, expected, strict=True))
    views, _ = split(tensor, placement, chunks, padded=False, contiguous=False)
    assert all(same(view.contiguous(), shard) for view, shard in zip(views, shards, strict=True))


@given(splits())
def test_split_with_padding(case):
    tensor, placement, chunks = case
    shards, pad_sizes = split(tensor, placement, chunks)
    assert len(shards) == len(pad_sizes) == chunks
    expected = expected_of(*case)
    longest = max(right.shape[placement.dim] for right in expected)
    for shard, added, right in zip(shards, pad_sizes, expected, strict=True):
        data = shard.narrow(placement.dim, 0, shard.shape[placement.dim] - added)
        filling = shard.narrow(placement.dim, shard.shape[placement.dim] - added, added)
        assert shard.shape[placement.dim] == longest
        assert shard.is_contiguous()
        assert same(data.contiguous(), right.contiguous())
        assert not bits(filling.contiguous()).any()


@given(splits())
def test_split_is_torchs_own(case):
    tensor, placement, chunks = case
    theirs, their_pads = torch_placement(placement)._split_tensor(tensor, chunks, with_padding=True)
    shards, pad_sizes = split(tensor, placement, chunks, padded=type(placement) is Shard)
    assert all(same(shard, other.contiguous()) for shard, other in zip(shards, theirs, strict=True))
    assert split(tensor, placement, chunks).pad_sizes == their_pads
    assert pad_sizes in (their_pads, [0] * chunks)


def test_an_empty_tensor_has_a_pad_size_for_every_shard():
    for placement in ("S(0)", "_S(0, 2)", "S(1)"):
        shards, pad_sizes = split(torch.empty(0, 3), placement, 4)
        assert pad_sizes == ([0, 0, 0, 1] if placement == "S(1)" else [0] * 4)
        assert [tuple(shard.shape) for shard in shards] == [(0, 1) if placement == "S(1)" else (0, 3)] * 4


def test_a_placement_may_be_torchs_or_text_and_count_from_the_end():
    tensor = torch.arange(6).view(2, 3)
    for placement in ("S(-1)", TorchShard(1), Shard(-1), "Shard(dim=1)"):
        assert [shard.tolist() for shard in split(tensor, placement, 2).shards] == [[[0, 1], [3, 4]], [[2, 0], [5, 0]]]


def test_shards_are_views_where_they_can_be():
    tensor = torch.arange(6).view(2, 3)
    shards = split(tensor, "S(1)", 3, contiguous=False).shards
    assert [shard.data_ptr() - tensor.data_ptr() for shard in shards] == [0, 8, 16]
    assert all(shard.is_contiguous() for shard in split(tensor, "S(1)", 3).shards)


@pytest.mark.parametrize(
    ("placement", "chunks", "message"),
    [
        ("R", 2, "R cuts nothing: split along a Shard or a StridedShard"),
        ("P(sum)", 2, r"P\(sum\) cuts nothing"),
        ("S(1)", 2, "tensor dimension 1 does not exist; right would be 0 \\(or -1\\)"),
        ("S(0)", 0, "its size is a whole number of ranks, 1 or more"),
    ],
)
def test_what_cannot_be_split(placement, chunks, message):
    with pytest.raises(SpecError, match=message):
        split(torch.arange(3), placement, chunks)


@pytest.mark.parametrize("placement", ["S(0)", "_S(0, 2)", "S(1)"])
def test_gradients_of_split(placement):
    tensor = torch.arange(15, dtype=torch.float64).view(5, 3).requires_grad_()

    def joined(tensor):
        return torch.stack(split(tensor, placement, 4).shards).pow(2)

    joined(tensor).sum().backward()
    assert torch.equal(tensor.grad, 2 * tensor.detach())
    assert torch.autograd.gradcheck(joined, tensor)


def test_gradients_of_cut():
    pieces = layout(parse("[5, 3] on dp=2, tp=2: _S(0, 2), S(0)"))
    tensor = torch.ones(5, 3, requires_grad=True)
    sum(cut(tensor, pieces, rank).sum() * (rank + 1) for rank in range(4)).backward()
    assert tensor.grad[:, 0].tolist() == [1.0, 1.0, 3.0, 2.0, 4.0]  # 0 1 | 3 | 2 | 4


def test_cut_of_any_layout_in_memory():
    spec = parse("[5, 4] on a=2, b=2, c=2: _S(0, 2), S(0), S(1)")
    whole = numbered((4, 5)).mT
    for rank, lists in enumerate(indices(spec)):
        assert same(cut(whole, layout(spec), rank), pick(whole, lists))


def test_cut_refuses_another_shape_and_another_rank():
    pieces = layout(parse("[5] on dp=2: S(0)"))
    with pytest.raises(SpecError, match=r"the tensor has shape \(4,\), and \[5\] on dp=2: S\(0\) is of \(5,\)"):
        cut(torch.arange(4), pieces, 0)
    with pytest.raises(SpecError, match="rank 2 is not in the mesh"):
        cut(torch.arange(5), pieces, 2)
