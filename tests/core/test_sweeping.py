"""A sweep says at every size what a single question says."""

import pytest

from shardviz.core.compare import compare
from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.readings import readings
from shardviz.core.runs import is_padding
from shardviz.core.spec import parse
from shardviz.core.sweeping import axes, resized, size_of, sweep
from shardviz.core.unshuffle import unshuffle

NINE = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")


def nobody(spec):
    return 0


def test_every_dimension_can_be_varied():
    spec = parse("[15, 5] on dp=2, tp=3: S(0), R")
    assert {name: size_of(spec, axis) for name, axis in axes(spec).items()} == {
        "tensor dimension 0": 15,
        "tensor dimension 1": 5,
        "mesh dimension dp": 2,
        "mesh dimension tp": 3,
    }


@pytest.mark.parametrize("axis", [("tensor", 0), ("mesh", 0), ("mesh", 1)])
def test_it_says_what_each_question_says(axis):
    for found in sweep(NINE, axis, range(1, 12), nobody):
        spec = resized(NINE, axis, found.size)
        assert found.spec == spec
        assert found.empty == sum(not held.numel for held in layout(spec))
        ranks = {d.rank for other in readings(spec).values() for d in compare(layout(spec), other).differences}
        assert found.ambiguous == len(ranks)
        pads = [step for step in unshuffle(spec).steps if step.name.startswith("pad")]
        assert found.padding == sum(_new_padding(spec, step) for step in pads)


def _new_padding(spec, step):
    """A padded buffer has its new padding at the end; what was there before was taken away by then."""
    return sum(
        stop - start for buffer in step.buffers for run in buffer.axes[:1] for start, stop in run if is_padding((start, stop))
    )


def test_a_split_factor_follows_the_mesh_and_nothing_else_does():
    assert str(resized(NINE, ("mesh", 1), 3)) == "[9] on dp=4, tp=3: _S(0, 3), S(0)"
    assert str(resized(NINE, ("mesh", 0), 2)) == "[9] on dp=2, tp=2: _S(0, 2), S(0)"
    odd = parse("[9] on dp=4, tp=2: _S(0, 3), S(0)")
    assert str(resized(odd, ("mesh", 1), 5)) == "[9] on dp=4, tp=5: _S(0, 3), S(0)"
    shifted = parse("[4] on dp=2 (ranks 4-5): S(0)")
    assert resized(shifted, ("tensor", 0), 7).mesh == shifted.mesh
    assert resized(shifted, ("mesh", 0), 3).mesh.ranks == (0, 1, 2)


def test_what_torch_reports_is_asked_for():
    found = sweep(NINE, ("tensor", 0), (8, 9), lambda spec: spec.numel - 8)
    assert [one.misreported for one in found] == [0, 1]
    assert found[1].sentence == (
        "Size 9: 9 slots of padding, 1 empty rank, the readings differ on 2 ranks, torch reports 1 rank wrongly."
    )


def test_there_is_no_negative_size():
    with pytest.raises(SpecError):
        sweep(NINE, ("tensor", 0), (-1,), nobody)
