"""Specs may be given in the notation, and what is shown is short."""

import pytest

import shardviz as sv
from shardviz.core.errors import NotationError, SpecError

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"


@pytest.mark.parametrize("ask", [sv.layout, sv.unshuffle, sv.split, sv.explicit_order, sv.readings, sv.differing_readings])
def test_a_spec_may_be_given_in_its_notation(ask):
    assert ask(FIVE) == ask(sv.parse(FIVE))
    with pytest.raises(SpecError, match="a spec, or its notation, was expected; got int"):
        ask(5)


def test_placements_are_read_as_python_prints_them():
    assert sv.parse("[5] on dp=2, tp=2: (_StridedShard(dim=0, sf=2), Shard(dim=0))") == sv.parse(FIVE)
    assert sv.parse("[5] on dp=2: (Shard(dim=0),)") == sv.parse("[5] on dp=2: [S(0)]")
    with pytest.raises(NotationError, match="the placements end as they begin"):
        sv.parse("[5] on dp=2: (S(0)")


def test_an_index_has_one_number_per_dimension():
    with pytest.raises(SpecError, match=r"such as \(0,\) in one; got 4"):
        sv.layout(FIVE).owners(4)


def test_what_is_shown_is_short():
    assert repr(sv.layout(FIVE)) == f"<layout of {FIVE}, read as sharding-order: print or draw it>"
    assert repr(sv.unshuffle(FIVE)) == f"<story of {FIVE} in 8 steps, predicted: print or draw it>"
    assert repr(sv.compare(sv.layout(FIVE), sv.layout(FIVE))).endswith("no difference")
