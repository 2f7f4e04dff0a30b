"""Readings side by side, and what a story costs."""

from hypothesis import given

from shardviz.core.costs import costs
from shardviz.core.layout import layout
from shardviz.core.readings import differing_readings, readings
from shardviz.core.spec import parse
from shardviz.core.unshuffle import unshuffle
from tests.core.cases import cases


@given(cases())
def test_readings_differ_exactly_where_their_layouts_do(case):
    chosen, found = layout(case.spec), readings(case.spec)
    assert chosen.ranks in [each.ranks for each in found.values()] or len(set(chosen.readings)) > 1
    assert len(differing_readings(case.spec)) == sum(each.ranks != chosen.ranks for each in found.values())


@given(cases())
def test_padding_is_a_part_of_what_is_sent(case):
    spent = costs(unshuffle(case.spec))
    assert all(0 <= padding <= sent for padding, sent in zip(spent.padding, spent.sent, strict=True))
    assert 0 <= spent.waste < 1


def test_nothing_is_wasted_where_everything_divides():
    assert costs(unshuffle(parse("[8] on dp=2, tp=2: _S(0, 2), S(0)"))).waste == 0
