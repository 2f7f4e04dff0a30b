"""Cut, reconstruct, scatter and reshard on all ranks of a mesh, played in one process: on more ranks than can be started."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shardviz.core.layout import layout
from shardviz.core.placements import Partial, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.tensors.sharding import cut, reconstruct, reshard, scatter
from tests.core.cases import cases
from tests.tensors.played import play
from tests.tensors.programs import indices, numbered, pick, same


@given(cases(), st.integers(0, 23))
@settings(max_examples=150)
def test_any_placements(case, number):
    spec = case.spec
    assert wrong_of(spec, number) == []


def wrong_of(spec, number):
    """What is wrong with one spec, scattered from the rank that the number picks."""
    whole, pieces, held = numbered(spec.shape), layout(spec), indices(spec)
    locals_ = [pick(whole, lists) for lists in held]
    source = spec.mesh.ranks[number % spec.mesh.size]
    reducing = any(isinstance(placement, Partial) for placement in spec.placements)

    def program(rank, room):
        scattered = scatter(whole if rank == source else None, pieces, room, source, whole.dtype)
        return scattered, reconstruct(scattered, pieces, room)

    wrong = []
    for rank, local, (scattered, found) in zip(spec.mesh.ranks, locals_, play(spec.mesh, program), strict=True):
        if not same(cut(whole, pieces, rank), local):
            wrong.append(f"{spec}: cut of rank {rank}")
        if not reducing and not same(scattered, local):
            wrong.append(f"{spec}: scatter from {source} to {rank}")
        if not same(found, whole):
            wrong.append(f"{spec}: reconstruct on {rank}")
    return wrong


@st.composite
def pairs(draw):
    """Two specs of one tensor on one mesh."""
    spec = draw(cases()).spec
    dims = st.integers(0, spec.ndim - 1)
    cutting = st.one_of(st.builds(Shard, dims), st.builds(StridedShard, dims, st.integers(1, 6)))
    other = st.one_of(st.just(Replicate()), st.just(Partial()), cutting if spec.ndim else st.nothing())
    return spec, Spec(spec.shape, spec.mesh, [draw(st.one_of(st.just(p), other)) for p in spec.placements])


@given(pairs())
@settings(max_examples=150)
def test_reshard_between_any_placements(pair):
    before, after = pair
    whole = numbered(before.shape)
    source, target = layout(before), layout(after)

    def program(rank, room):
        held = scatter(whole if rank == before.mesh.ranks[0] else None, source, room, dtype=whole.dtype)
        resharded = reshard(held, source, target, room)
        return resharded, reconstruct(resharded, target, room)

    for lists, (resharded, found) in zip(indices(after), play(before.mesh, program), strict=True):
        if not any(isinstance(placement, Partial) for placement in after.placements):
            assert same(resharded, pick(whole, lists))
        assert resharded.is_contiguous()
        assert same(found, whole)
