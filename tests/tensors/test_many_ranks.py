"""The combinations that need more than eight ranks, on thirty-two real ones."""

import itertools
import time

import pytest

from shardviz.core.spec import Spec
from shardviz.ranks.cluster import Ranks
from tests.tensors import programs

pytestmark = pytest.mark.ranks

THREE_CUTS = [(2, 2, 3), (2, 3, 2), (3, 2, 2), (2, 2, 4), (2, 4, 2), (4, 2, 2), (3, 3, 2), (3, 2, 3)]


@pytest.fixture(scope="module")
def thirty_two_ranks():
    with Ranks(32, timeout=300) as ranks:
        yield ranks


def fsdp_over_tp():
    for dp, tp, n in itertools.product((1, 2, 3, 4, 8), (2, 3, 4), range(65)):
        if dp * tp > 8:
            yield Spec((n,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), S(0)", "fsdp2")


def three_cuts():
    for (a, b, c), n in itertools.product(THREE_CUTS, range(65)):
        yield Spec((n,), {"dp": a, "ep": b, "tp": c}, f"_S(0, {b * c}), S(0), S(0)", "fsdp2")


def packed():
    for dp, parts, n in itertools.product((3, 4), (2, 3, 4), range(0, 60, 3)):
        yield Spec((n,), {"dp": dp, "tp": 3}, f"_S(0, 3), _S(0, {parts})", "fsdp2")


EVERY = 11
"""In everyday runs one in so many is tried. Prime to the 65 and 20 sizes of a mesh: else every mesh gets the same few sizes."""


@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize(
    ("what", "specs", "least"),
    [("FSDP2 over TP", fsdp_over_tp, 455), ("three cuts", three_cuts, 520), ("FSDP2 over a packed weight", packed, 120)],
)
def test_cut_reconstruct_and_scatter_on_more_than_eight_ranks(thirty_two_ranks, count, what, specs, least, every):
    specs, began = list(specs())[::every], time.monotonic()
    wrong = [line for lines in thirty_two_ranks.apply(programs.sweep, specs) for line in lines]
    done = f"{len(specs)} cut, reconstructed and scattered, {len(wrong)} wrong, {time.monotonic() - began:.0f} s"
    count(f"{what} on more than eight real ranks: {done}")
    assert len(specs) >= least // every
    assert wrong == []
