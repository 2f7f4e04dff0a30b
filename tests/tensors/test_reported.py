"""The arithmetic against the installed torch: the same where torch is right, and a count of where it is not, by release."""

import itertools
from importlib.metadata import version

import pytest

from shardviz.core.layout import layout
from shardviz.core.spec import Spec
from shardviz.tensors.reported import shape_and_offset_at

RELEASE = version("torch").partition("+")[0]
THREE_CUTS = [(2, 2, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2), (2, 2, 4), (2, 4, 2), (4, 2, 2), (3, 3, 2), (3, 2, 3)]
# Combinations in which torch reports a wrong shape or offset on some rank. A release that mends them changes the count, and
# this test says so.
WRONG = {
    "FSDP2 over TP": {"2.11.0": 65, "2.13.0": 65, "2.14.1": 65, "2.15.0": 65},
    "FSDP2 over EP and TP": {"2.13.0": 342},
}


def fsdp_over_tp():
    for dp, tp, n in itertools.product((1, 2, 3, 4, 8), (2, 3, 4), range(65)):
        yield Spec((n,), (dp, tp), f"_S(0, {tp}), S(0)")


def three_cuts():
    for (a, b, c), n in itertools.product(THREE_CUTS, range(65)):
        yield Spec((n,), (a, b, c), f"_S(0, {b * c}), S(0), S(0)")


def even():
    for dp, tp, parts in itertools.product((1, 2, 3, 4, 8), (2, 3, 4), range(5)):
        yield Spec((dp * tp * parts, 4), (dp, tp), f"_S(0, {tp}), S(0)")


def plain():
    for ranks, n in itertools.product(range(1, 9), range(20)):
        yield Spec((n, 3), (ranks,), "S(0)")
        yield Spec((4, n), (ranks,), "S(1)")


def reports(spec):
    """Whether torch's shape and offset are those of the layout, on every rank."""
    ask = shape_and_offset_at(spec)
    return all((tuple(s), tuple(o)) == (r.shape, r.offset) for r in layout(spec) for s, o in [ask(r.coordinate)])


@pytest.mark.parametrize(
    ("what", "specs", "total"), [("FSDP2 over TP", fsdp_over_tp, 975), ("FSDP2 over EP and TP", three_cuts, 585)]
)
def test_torch_reports_wrongly_as_often_as_its_release_was_seen_to(what, specs, total, count):
    if RELEASE not in WRONG[what]:
        pytest.skip(f"nobody has counted the wrong reports of torch {RELEASE} for {what} yet")
    found = [reports(spec) for spec in specs()]
    count(f"{what}: torch {RELEASE} reports {found.count(False)} of {len(found)} combinations wrongly")
    assert len(found) == total
    assert found.count(False) == WRONG[what][RELEASE]


@pytest.mark.parametrize("specs", [even, plain])
def test_where_torch_is_right_the_two_agree(specs):
    assert all(map(reports, specs()))
