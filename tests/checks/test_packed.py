"""Inside `corrected_offsets` every layout is saved whole: packed, lone strided and expert weights, in every way of saving."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.core.spec import Spec
from shardviz.ranks.cluster import Ranks
from shardviz.tensors.described import blocks
from tests import oracle
from tests.checks import trips


@st.composite
def any_cuts(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    shape = draw(st.lists(st.integers(0, 12), min_size=1, max_size=2))
    dims = st.integers(0, len(shape) - 1)
    one = st.one_of(st.tuples(st.just("S"), dims), st.tuples(st.just("SS"), dims, st.integers(2, 4)), st.just(("R",)))
    return tuple(shape), tuple(sizes), [draw(one) for _ in sizes]


def written(placements):
    return ", ".join({"S": "S({})", "SS": "_S({}, {})", "R": "R"}[name].format(*rest) for name, *rest in placements)


@given(any_cuts(), st.booleans())
def test_blocks_are_what_a_rank_holds(cuts, by_fsdp2):
    """Every element of the local tensor lies in one block, at the place where the definitions put it."""
    shape, sizes, placements = cuts
    spec = Spec(shape, sizes, written(placements), "fsdp2" if by_fsdp2 else None)
    for coordinate, held in oracle.holdings(shape, sizes, placements, by_fsdp2=by_fsdp2).items():
        found = {}
        for block in blocks(spec, coordinate):
            for step in oracle.itertools.product(*map(range, block.size)):
                local = tuple(a + b for a, b in zip(block.local, step, strict=True))
                assert local not in found
                found[local] = tuple(a + b for a, b in zip(block.offset, step, strict=True))
        right = {
            local: tuple(indices[i] for indices, i in zip(held, local, strict=True))
            for local in oracle.itertools.product(*(range(len(indices)) for indices in held))
        }
        assert found == right


FEW = {
    (2,): [("lone-8", (8,), (("SS", 0, 2),), "left")],
    (4,): [("lone-8", (8,), (("SS", 0, 2),), "left"), ("lone-13", (13, 2), (("SS", 0, 3),), "left")],
    (2, 2): [
        ("experts", (4, 8), (("S", 0), ("SS", 1, 2)), "left"),
        ("fsdp-5", (5,), (("SS", 0, 2), ("S", 0)), "left"),
        ("both", (7, 5), (("SS", 0, 2), ("SS", 1, 2)), "left"),
        ("none", (0, 3), (("SS", 0, 2), ("S", 0)), "left"),
        ("scalar", (), (("R",), ("R",)), "left"),
        ("one-row", (1, 2), (("SS", 0, 2), ("S", 0)), "left"),
    ],
}


@pytest.mark.ranks
@pytest.mark.parametrize("sizes", FEW)
def test_lone_strided_and_expert_weights_come_back(four_ranks, tmp_path, sizes):
    assert four_ranks.apply(trips.sweep, str(tmp_path), sizes, FEW[sizes], timeout=60) == [[]] * 4
    found = checkpoint(tmp_path)
    assert found.whole
    assert any(len(tensor.chunks) > len({chunk.place.file for chunk in tensor.chunks}) for tensor in found)


@pytest.mark.ranks
@pytest.mark.parametrize("made_by", ["fsdp2", "distribute_tensor"])
def test_one_label_is_saved_as_what_it_is_said_to_be(four_ranks, tmp_path, made_by):
    kind = "fsdp2" if made_by == "fsdp2" else "left"
    cases = [(f"n{n}", (n,), (("SS", 0, 2), ("SS", 0, 2)), kind) for n in range(10)]
    assert four_ranks.apply(trips.sweep, str(tmp_path), (2, 2), cases, made_by, timeout=60) == [[]] * 4


@pytest.mark.ranks
@pytest.mark.parametrize("how", ["save", "hugging", "staged", "THREAD", "PROCESS"])
def test_packed_weights_of_fsdp2_come_back_whichever_way_they_are_saved(four_ranks, tmp_path, how):
    ends = four_ranks.apply(trips.packed_trip, str(tmp_path / "ck"), how, timeout=90)
    assert [wrong for wrong, _ in ends] == [[]] * 4
    assert checkpoint(tmp_path / "ck").whole
    if how == "save":  # the loss that the block mends is real, and silent
        assert "packed" in {name for _, silent in ends for name in silent}


@pytest.mark.ranks
def test_what_would_lose_something_is_refused_in_a_sentence(four_ranks, tmp_path):
    for found in four_ranks.apply(trips.refusals, str(tmp_path), timeout=60):
        assert "'w' is neither saved nor loaded" in found["two layouts"]
        assert 'corrected_offsets(made_by="fsdp2")' in found["two layouts"]
        assert "stands for two layouts" in found["later"]
        assert "give it save_distributed=True" in found["one file"]
        assert "'step' is not saved: torch" in found["no dimension"]


def swept():
    """(sizes, made by, cases) of every sweep: 975 of FSDP2 over tensor parallelism, 585 with three cuts, and packed ones."""
    for dp in (1, 2, 3, 4, 8):
        for tp in (2, 3, 4):
            cuts = (("SS", 0, tp), ("S", 0))
            yield (dp, tp), None, [(f"n{n}", (n,), cuts, "left") for n in range(65)]
    for sizes in [(2, 2, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2), (4, 2, 2), (2, 4, 2), (2, 2, 4), (3, 3, 2), (3, 2, 3)]:
        cuts = (("SS", 0, sizes[1] * sizes[2]), ("S", 0), ("S", 0))
        nested = (("SS", 0, sizes[1] * sizes[2]), ("SS", 0, sizes[2]), ("S", 0))
        yield sizes, None, [(f"n{n}", (n,), cuts, "left") for n in range(65)]
        yield sizes, None, [(f"n{n}", (n,), nested, "left") for n in range(65)]
    for size in (2, 3, 4, 8):
        yield (size,), None, [(f"n{n}x{sf}", (n,), (("SS", 0, sf),), "left") for n in range(65) for sf in (2, 3, 4)]
    for sizes in [(2, 2), (3, 2), (4, 2), (2, 3), (2, 4)]:
        cuts = {sf: (("SS", 0, sizes[1]), ("SS", 0, sf)) for sf in (2, 3)}
        for made_by, kind in (("fsdp2", "fsdp2"), ("distribute_tensor", "left")):
            yield sizes, made_by, [(f"n{n}x{sf}", (n,), cuts[sf], kind) for n in range(65) for sf in cuts]
        experts = (("S", 0), ("SS", 1, 2))
        yield sizes, None, [(f"n{n}", (n % 9, n), experts, "left") for n in range(65)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.ranks
def test_every_layout_of_the_sweeps_comes_back(tmp_path, count):
    total = 0
    with Ranks(32, timeout=300) as ranks:
        for place, (sizes, made_by, cases) in enumerate(swept()):
            wrong = ranks.apply(trips.sweep, str(tmp_path / str(place)), sizes, cases, made_by, timeout=300)
            assert not any(wrong), (sizes, made_by, [one for one in wrong if one][:1])
            assert checkpoint(tmp_path / str(place)).whole
            assert math.prod(sizes) <= 32
            total += len(cases)
    count(f"layouts saved and loaded inside corrected_offsets: {total}, 0 wrong")
