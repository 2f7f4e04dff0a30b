"""Every combination of the sizes people meet, layout and reconstruction, against the oracle: none may be wrong."""

import itertools

import pytest

from shardviz.core.layout import layout
from shardviz.core.unshuffle import story
from tests import oracle
from tests.core.cases import Case, listed, make_spec
from tests.core.replay import assert_story_is_right

THREE_CUTS = [(2, 2, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2), (2, 2, 4), (2, 4, 2), (4, 2, 2), (3, 3, 2), (3, 2, 3)]


def fsdp_over_tp():
    for dp, tp, n in itertools.product((1, 2, 3, 4, 8), (2, 3, 4), range(65)):
        yield Case((n,), (dp, tp), (("SS", 0, tp), ("S", 0))), "sharding-order"


def fsdp_over_ep_and_tp():
    for (a, b, c), n in itertools.product(THREE_CUTS, range(65)):
        yield Case((n,), (a, b, c), (("SS", 0, b * c), ("S", 0), ("S", 0))), "sharding-order"


def nested():
    for (a, b, c), n in itertools.product(THREE_CUTS, range(65)):
        yield Case((n,), (a, b, c), (("SS", 0, b * c), ("SS", 0, c), ("S", 0))), "sharding-order"


def fsdp_over_packed():
    for dp, tp, parts, n in itertools.product((2, 3, 4), (2, 3), (2, 3, 4), range(0, 60, 3)):
        yield Case((n,), (dp, tp), (("SS", 0, tp), ("SS", 0, parts))), "outer-last"


@pytest.mark.parametrize(
    ("what", "sweep", "least"),
    [
        ("FSDP2 over TP", fsdp_over_tp, 975),
        ("FSDP2 over EP and TP, three cuts", fsdp_over_ep_and_tp, 585),
        ("three nested cuts", nested, 585),
        ("FSDP2 over a packed weight", fsdp_over_packed, 300),
    ],
)
def test_sweep(what, sweep, least, count):
    wrong = []
    cases = list(sweep())
    for case, reading in cases:
        held = oracle.holdings(case.shape, case.sizes, case.placements, reading)
        found = layout(make_spec(case.shape, case.sizes, case.placements, made_by="fsdp2"))
        try:
            assert found.reading == reading
            assert [[listed(runs) for runs in rank.runs] for rank in found] == list(held.values())
            assert_story_is_right(story(found), case, held)
        except AssertionError as error:
            wrong.append((case, error))
    count(f"{what}: {len(cases)} layouts and reconstructions, {len(wrong)} wrong")
    assert len(cases) >= least
    assert not wrong
