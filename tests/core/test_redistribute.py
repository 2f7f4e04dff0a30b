"""The predicted story of a redistribution: it ends where it should, with the collectives that people expect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import Spec, parse
from shardviz.core.trace import start
from tests.core.cases import cases

OTHERS = ("R", "P", "P(max)", "S(0)", "S(1)", "S(2)", "_S(0, 2)", "_S(1, 2)", "_S(0, 3)", "_S(0, 4)")


@st.composite
def moves(draw):
    """A spec, and other placements for it."""
    case = draw(cases())
    possible = [
        text for text in OTHERS if not text.endswith(")") or "P" in text or int(text[text.index("(") + 1]) < len(case.shape)
    ]
    return case.spec, [draw(st.sampled_from(possible)) for _ in case.sizes]


@given(moves())
def test_a_redistribution_ends_in_the_layout_of_its_target(move):
    spec, placements = move
    story = redistribute(spec, placements)
    target = Spec(spec.shape, spec.mesh, placements)
    assert story.steps[0].buffers == start(layout(spec))
    assert story.result == start(layout(target))
    assert story.target == target
    assert story.right


@given(cases())
def test_to_the_same_placements_nothing_is_done(case):
    assert len(redistribute(case.spec, case.spec.placements).steps) == 1


@given(moves())
def test_bytes_are_sent_in_collectives_alone(move):
    for step in redistribute(*move).steps:
        assert step.kind == "collective" or not sum(step.bytes)
        assert (step.kind == "collective") == bool(step.groups)


@pytest.mark.parametrize(
    ("text", "placements", "names"),
    [
        ("[8, 8] on dp=2, tp=2: _S(0, 2), S(0)", "R, R", ["all-gather over dp", "all-gather over tp"]),
        ("[8, 8] on dp=2, tp=2: _S(0, 2), S(0)", "R, S(0)", ["all-gather over dp"]),
        ("[8, 8] on dp=2, tp=2: S(0), S(0)", "S(0), R", ["all-gather over tp"]),
        ("[8, 8] on dp=2, tp=2: S(0), S(0)", "R, S(0)", ["all-gather over tp", "all-gather over dp", "cut by tp"]),
        ("[8, 8] on tp=2: S(0)", "S(1)", ["all-to-all over tp"]),
        ("[8] on tp=2: R", "S(0)", ["cut by tp"]),
        ("[8] on tp=2: R", "P", ["addends over tp"]),
        ("[8] on tp=2: P", "R", ["all-reduce over tp"]),
        ("[8] on tp=2: P", "S(0)", ["reduce-scatter over tp"]),
        ("[8] on tp=2: P", "_S(0, 2)", ["all-reduce over tp", "cut by tp"]),
        ("[8, 8] on dp=2, tp=2: S(0), P", "S(0), S(1)", ["reduce-scatter over tp"]),
    ],
)
def test_the_collectives_are_those_that_people_expect(text, placements, names):
    assert [step.name for step in redistribute(parse(text), placements).steps[1:]] == names


def test_bytes_of_an_all_to_all_and_a_reduce_scatter():
    exchange = redistribute(parse("[4, 4] on tp=2: S(0)"), "S(1)").steps[-1]
    assert exchange.bytes == (4 * 8, 4 * 8)  # each rank has 2 x 4 elements and sends one of two halves
    scatter = redistribute(parse("[5] on tp=2: P"), "S(0)").steps[-1]
    assert scatter.bytes == (3 * 8, 3 * 8)  # the larger chunk, ceil(5 / 2), goes to the one other rank


def test_placements_for_another_mesh_are_refused():
    with pytest.raises(SpecError, match="1 placements for 2 mesh dimensions"):
        redistribute(parse("[8] on dp=2, tp=2: R, R"), "S(0)")
