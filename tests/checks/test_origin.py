"""How a tensor was saved is told from what its ranks stored: against checkpoints played by torch's own rules of leaving out."""

import time

import pytest

from shardviz.checks.checkpoints.archive import Stored
from shardviz.checks.checkpoints.chunks import Box
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor
from shardviz.checks.checkpoints.metadata import Place
from shardviz.checks.checkpoints.origin import origins
from shardviz.core.layout import layout
from shardviz.core.spec import Spec

TWO_CUTS = [
    ((n,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), S(0)")
    for dp, tp in [(3, 2), (4, 2), (3, 3), (5, 2), (2, 4)]
    for n in range(1, 24)
]
MORE = [((n,), {"dp": 2, "ep": 2, "tp": 2}, "_S(0, 4), S(0), S(0)") for n in range(1, 20)]
MORE += [((n, 3), {"rep": 2, "dp": 4, "tp": 2}, "R, _S(0, 2), S(0)") for n in (9, 17)]
MORE += [((n, 5), {"dp": 3, "tp": 2, "cp": 2}, "_S(0, 2), S(0), S(1)") for n in (7, 13)]


def played(spec, kept):
    """What torch stores: every rank's shard under the offset that it reports, one of several at the same offset."""
    said, has = layout(spec, "left-to-right"), layout(spec, "sharding-order")
    at = {}
    for one, other in zip(said, has, strict=True):
        at.setdefault(one.offset, []).append((one, other))
    chosen = [group[kept % len(group)] for group in at.values()]
    chunks = [
        Chunk(s.offset, s.shape, Place(f"__{s.rank}_0.distcp", 0, 0), Stored("int8", h.shape, (1,) * len(h.shape), 0, 0))
        for s, h in chosen
    ]
    truth = tuple(Box(h.offset, h.shape) if h.numel else None for _, h in chosen)
    return StoredTensor("x", spec.shape, "int8", tuple(chunks)), truth


@pytest.mark.parametrize("cases", [TWO_CUTS, MORE])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_every_broken_tensor_is_explained_in_one_way_and_rightly(cases, kept):
    broken = 0
    for shape, mesh, placements in cases:
        spec = Spec(shape, mesh, placements)
        tensor, truth = played(spec, kept)
        if tensor.whole or sum(chunk.promised for chunk in tensor.chunks) != spec.numel or tensor.overlapping_elements:
            continue  # right, or torch refuses the save
        broken += 1
        ways = origins(tensor, spec.mesh.size)
        assert {way.boxes for way in ways} == {truth}, spec
    assert broken >= 5


def test_a_pipeline_stage_is_a_block_of_the_ranks():
    tensor, truth = played(Spec((9,), {"dp": 4, "tp": 2}, "_S(0, 2), S(0)"), 0)
    later = tuple(Chunk(c.offset, c.size, Place(f"__{c.rank + 8}_0.distcp", 0, 0), c.tensor) for c in tensor.chunks)
    for ranks in (16, 24, 32):
        assert {way.boxes for way in origins(StoredTensor("x", (9,), "int8", later), ranks)} == {truth}


def test_what_no_way_of_cutting_explains_is_left_alone():
    tensor, _ = played(Spec((9,), {"dp": 4, "tp": 2}, "_S(0, 2), S(0)"), 0)
    one, *rest = tensor.chunks
    wrong = Chunk(one.offset, one.size, one.place, Stored("int8", (5,), (1,), 0, 0))
    assert origins(StoredTensor("x", (9,), "int8", (wrong, *rest)), 8) == ()
    unnamed = [Chunk(c.offset, c.size, Place("data", 0, 0), c.tensor) for c in tensor.chunks]
    assert origins(StoredTensor("x", (9,), "int8", tuple(unnamed)), 8) == ()


def test_a_number_of_ranks_that_no_job_has_is_not_tried():
    tensor, _ = played(Spec((9,), {"dp": 4, "tp": 2}, "_S(0, 2), S(0)"), 0)
    assert origins(tensor, 999_999_998) == ()


@pytest.mark.parametrize(("n", "dp"), [(32_001, 128), (1345, 32)])
def test_many_ranks_are_explained_soon(n, dp):
    tensor, truth = played(Spec((n,), {"dp": dp, "tp": 2}, "_S(0, 2), S(0)"), 0)
    begin = time.perf_counter()
    assert {way.boxes for way in origins(tensor, dp * 2)} == {truth}
    assert time.perf_counter() - begin < 10  # it was 20 seconds and more


def test_different_places_would_be_seen():
    _, truth = played(Spec((17,), {"dp": 8, "tp": 2}, "_S(0, 2), S(0)"), 0)
    other, _ = played(Spec((17,), {"dp": 8, "tp": 2}, "_S(0, 2), S(0)"), 1)
    assert origins(other, 16)[0].boxes != truth
