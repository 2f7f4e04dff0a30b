"""The scenarios on real ranks: sharded training is training, and what is saved comes back."""

import math
from itertools import product

import pytest

from shardviz.core.errors import RankFailure
from shardviz.core.layout import layout
from shardviz.picture import draw
from shardviz.ranks.scenarios import checkpoint, full_state, one_weight, parity, training

pytestmark = pytest.mark.ranks


def equal(found):
    for one in found:
        assert one.before == ()
        assert one.after == ()
        assert all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one.losses, one.reference, strict=True)), one
        assert len(set(one.losses)) == len(one.losses)


EVERYDAY = {(3, True, False), (5, False, True), (16, True, True), (17, False, False)}
"""Every width, and both ways of both switches; all sixteen combinations are slow."""


@pytest.mark.parametrize(
    ("width", "reshard", "recompute"),
    [
        pytest.param(*one, marks=[pytest.mark.slow] * (one not in EVERYDAY))
        for one in product([3, 5, 16, 17], [False, True], [False, True])
    ],
)
def test_fsdp2_over_tp_trains_like_a_single_process(four_ranks, width, reshard, recompute):
    equal(four_ranks.apply(training, width, {"dp": 2, "tp": 2}, reshard, recompute))


@pytest.mark.parametrize(
    ("width", "reshard", "recompute"),
    [
        (5, False, True),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in [(3, True, False), (16, True, True), (17, True, False)]),
    ],
)
def test_hsdp_over_tp_trains_like_a_single_process(eight_ranks, width, reshard, recompute):
    equal(eight_ranks.apply(training, width, {"rep": 2, "dp": 2, "tp": 2}, reshard, recompute))


def test_training_that_differs_would_be_seen(four_ranks):
    found = four_ranks.apply(off_by_a_little, 5)
    assert all(one.before for one in found)
    with pytest.raises(AssertionError):
        equal(found)


def off_by_a_little(width):
    whole = parity.whole_stack

    def other(*args, **kwargs):
        other.calls += 1
        model = whole(*args, **kwargs)
        if other.calls == 1:
            model[0].in_proj.weight.data[0, 0] += 1
        return model

    other.calls = 0
    parity.whole_stack = other
    try:
        return training(width, {"dp": 2, "tp": 2})
    finally:
        parity.whole_stack = whole


@pytest.mark.parametrize("mesh", [{"dp": 2, "tp": 2}, {"dp": 4, "tp": 1}])
def test_every_parameter_of_an_uneven_stack_reconstructs(four_ranks, mesh):
    assert all(one.before == () for one in four_ranks.apply(training, 9, mesh, steps=0))


@pytest.mark.parametrize("width", [3, 5, 9])
def test_the_full_state_dict(four_ranks, width):
    assert four_ranks.apply(full_state, width, {"dp": 2, "tp": 2}) == [()] * 4


@pytest.mark.parametrize("left_out", [(), ("0", "1")], ids=["all of it", "implicit replication"])
def test_saved_under_fsdp2_over_tp_and_loaded_under_tp(four_ranks, tmp_path, left_out):
    assert four_ranks.apply(checkpoint, 5, {"dp": 2, "tp": 2}, str(tmp_path / "saved"), left_out) == [()] * 4


@pytest.mark.parametrize(
    "text",
    [
        "[6] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)",
        "[9, 2] on dp=2, ep=2, tp=2: _S(0, 4), _S(0, 2), S(0)",
        "[16] on dp=4, tp=2: _S(0, 2), _S(0, 2)",
        "[14] on dp=4, tp=2: _S(0, 2), _S(0, 2)",
    ],
)
def test_three_cuts_and_packed_weights_are_held_as_predicted(eight_ranks, text):
    for rank, (held, shape) in enumerate(eight_ranks.apply(held_of, text)):
        assert held == expected(text)[rank].tolist()
        assert shape == list(expected(text)[rank].shape)


def held_of(text):
    local = one_weight(text).weight.to_local()
    return local.tolist(), list(local.shape)


def expected(text):
    import torch

    from shardviz.core.spec import parse
    from shardviz.tensors.sharding import cut

    spec = parse(text).with_made_by("fsdp2")
    whole = torch.arange(1, spec.numel + 1, dtype=torch.float32).view(spec.shape)
    return [cut(whole, layout(spec), rank) for rank in range(spec.mesh.size)]


def test_what_fsdp2_would_not_make_is_refused(four_ranks):
    with pytest.raises(RankFailure, match="FSDP2 makes"):
        four_ranks.apply(held_of, "[8] on dp=2, tp=2: S(0), S(0)")


def test_a_scenario_can_be_recorded_and_drawn(four_ranks):
    recording = four_ranks.record(full_state, 5, {"dp": 2, "tp": 2})
    picture = draw(recording)
    assert recording.events
    assert f"{len(recording.events)} collectives" in picture.text
    assert picture.svg().startswith("<svg")
