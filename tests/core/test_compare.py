"""Two answers side by side: silent when they agree, and naming rank and elements when they do not."""

from dataclasses import replace

import pytest
from hypothesis import given

from shardviz.core.compare import compare, disagreements, report_difference
from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import parse
from shardviz.core.trace import Buffer, Report, Source
from shardviz.core.unshuffle import unshuffle
from tests import oracle
from tests.core.cases import cases

NINE = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")


@given(cases())
def test_an_answer_agrees_with_itself(case):
    story, found = unshuffle(case.spec), layout(case.spec)
    assert not compare(story, story)
    assert not compare(found, found)
    assert not compare(found, story)
    assert str(compare(found, story)).endswith(": no difference")


@given(cases())
def test_readings_differ_exactly_on_the_ranks_that_hold_other_elements(case):
    auto = oracle.holdings(case.shape, case.sizes, case.placements)
    other = oracle.holdings(case.shape, case.sizes, case.placements, "left-to-right")
    ranks = [rank for rank, at in enumerate(auto) if auto[at] != other[at]]
    assert [d.rank for d in compare(layout(case.spec), layout(case.spec, "left-to-right")).differences] == ranks


def test_a_difference_names_the_step():
    story = unshuffle(NINE)
    last = story.steps[-1]
    wrong = (*last.buffers[:-1], Buffer((((0, 8), (-1, 0)),), (9,)))
    found = compare(story, replace(story, steps=(*story.steps[:-1], replace(last, buffers=wrong))))
    assert [(d.rank, d.step) for d in found.differences] == [(7, len(story.steps) - 1)]
    assert "rank 7 has 0-8 by predicted; 0-7 # by predicted after 'unshuffle'" in str(found)


def test_a_story_that_is_cut_short_differs_at_its_end():
    story = unshuffle(NINE)
    found = compare(story, replace(story, steps=story.steps[:-1]))
    assert len(found.differences) == 8
    assert found.differences[0].sentence == "rank 0 has 0-8 by predicted; 0 1 5 2 3 6 4 7 8 by predicted at the end"
    assert (found.ok, bool(found)) == (False, True)


def lead(spec, steps, *more):
    """The same start and end by the operations named: every rank's buffers after them are those of the prediction's end."""
    story = redistribute(spec, more[0])
    last = story.steps[-1]
    return replace(story, steps=(story.steps[0], *(replace(last, name=name) for name in steps)))


@pytest.mark.parametrize(
    ("spec", "to"),
    [("[4, 4] on x=2: S(0)", "S(1)"), ("[9] on a=2, b=2, c=2: P, S(0), P", "S(0), S(0), S(0)")],
)
def test_the_same_end_by_other_steps_is_no_difference_and_is_said(spec, to):
    found = compare(redistribute(spec, to), lead(spec, ["all-gather over x", "cut by x"], to))
    assert (found.ok, bool(found), found.differences) == (True, False, ())
    assert str(found).endswith(": same end, other steps")
    assert not compare(redistribute(spec, to), redistribute(spec, to)).note


def test_steps_are_paired_by_what_they_do_wherever_they_stand():
    story = unshuffle(NINE)
    detour = replace(story.steps[0], name="clone")  # one local step more shifts all numbers
    last = story.steps[-1]
    wrong = replace(last, buffers=(Buffer((((0, 8), (-1, 0)),), (9,)), *last.buffers[1:]))
    found = compare(story, replace(story, steps=(story.steps[0], detour, *story.steps[1:-1], wrong)))
    assert [(d.rank, d.step, d.other_step) for d in found.differences] == [(0, len(story.steps) - 1, len(story.steps))]


def test_notation_stands_for_its_layout():
    assert compare(str(NINE), unshuffle(NINE)).ok
    assert disagreements(unshuffle(NINE)).ok
    assert disagreements(unshuffle(NINE), str(NINE)).ok
    with pytest.raises(SpecError, match=r"a layout of \[9\] on .* was expected"):
        disagreements(unshuffle(NINE), "[5] on dp=4, tp=2: _S(0, 2), S(0)")


def test_different_questions_are_not_compared():
    with pytest.raises(SpecError, match=r"cannot be compared: \[9\] on .* and \[5\] on "):
        compare(layout(NINE), layout(parse("[5] on dp=4, tp=2: _S(0, 2), S(0)")))


def recorded(**fields):
    return replace(unshuffle(NINE), source=Source("held", 8, "gloo", "2.13.0"), **fields)


def test_the_wrong_report_of_torch_is_said_rank_by_rank():
    right = [Report(r.rank, r.shape, r.offset) for r in layout(NINE)]
    assert disagreements(recorded(reported=tuple(right)), layout(NINE)) == ()
    wrong = (*right[:6], Report(6, (1,), (8,)), Report(7, (0,), (9,)))
    assert [d.sentence for d in disagreements(recorded(reported=wrong), layout(NINE))] == [
        "rank 6 holds nothing; torch reports row 8",
        "rank 7 holds row 8; torch reports nothing",
    ]


def test_what_the_forward_pass_sees_is_compared_with_what_it_should_see():
    seen = [Buffer((((0, 5),),), (5,)), Buffer((((5, 9),),), (4,))] * 4  # tp=0 uses rows 0-4, tp=1 rows 5-8
    assert disagreements(recorded(used=tuple(seen)), layout(NINE)) == ()
    shifted = (*seen[:7], Buffer((((5, 8), (-1, 0)),), (4,)))
    found = disagreements(recorded(used=shifted), layout(NINE))
    assert [d.sentence for d in found] == ["rank 7 has 5-8 by arithmetic; 5-7 # by the forward pass"]


def test_a_wrong_reconstruction_by_torch_is_a_disagreement():
    torch = recorded()
    torch = replace(torch, steps=torch.steps[:-1], method="full_tensor")
    found = disagreements(recorded(torch=torch), layout(NINE))
    assert [d.rank for d in found] == list(range(8))
    assert found[0].sentence.startswith("rank 0 gets 0 1 5 2 3 ")
    assert found[0].sentence.endswith("from full_tensor(), not the whole tensor in order")


@pytest.mark.parametrize(
    ("held", "report", "sentence"),
    [
        (Buffer((((0, 2),),), (2,)), Report(0, (2,), (0,)), ""),
        (Buffer(((),), (0,)), Report(0, (0,), (5,)), "holds nothing, shape (0); torch reports shape (0) at offset (5)"),
        (Buffer((((0, 2), (5, 6)),), (3,)), Report(0, (3,), (0,)), "holds rows 0 1 5; torch reports rows 0-2"),
        (Buffer((((0, 2), (5, 6)),), (3,)), Report(0, (3,), (1,)), "holds rows 0 1 5; torch reports rows 1-3"),
        (Buffer((((0, 2),),), (2,)), Report(0, (2,), (2,)), "holds rows 0 1; torch reports rows 2 3"),
        (
            Buffer((((4, 5),),), (1,)),
            Report(0, error="AssertionError"),
            "holds row 4; torch reports nothing but AssertionError",
        ),
    ],
)
def test_reports_in_words(held, report, sentence):
    assert report_difference((9,), held, report) == sentence
