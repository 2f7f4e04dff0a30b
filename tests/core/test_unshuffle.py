"""Predicted reconstruction: right at the end, and at every step what lists of elements would be."""

import math

import pytest
from hypothesis import given

from shardviz.core.errors import ReadingError
from shardviz.core.layout import READINGS
from shardviz.core.spec import parse
from shardviz.core.unshuffle import unshuffle
from tests import oracle
from tests.core.cases import cases, listed, make_spec
from tests.core.replay import assert_story_is_right


@given(cases())
def test_every_step_is_what_lists_of_elements_would_be(case):
    for reading in ("auto", *READINGS):
        try:
            held = oracle.holdings(case.shape, case.sizes, case.placements, reading)
        except oracle.DoesNotApply:
            with pytest.raises(ReadingError):
                unshuffle(case.spec, reading=reading)
            continue
        assert_story_is_right(unshuffle(case.spec, reading=reading), case, held)


@given(cases())
def test_the_buffers_cell_by_cell(case):
    for step in unshuffle(case.spec).steps:
        for buffer in step.buffers:
            cells = listed(buffer.flat_runs(case.shape))
            assert cells == oracle.cells(case.shape, [listed(runs) for runs in buffer.axes])
            assert len(cells) == buffer.numel == math.prod(buffer.shape)


@given(cases())
def test_only_collectives_send(case):
    for step in unshuffle(case.spec).steps[1:]:
        assert (step.kind == "collective") == bool(step.groups)
        assert step.kind == "collective" or not any(step.bytes)
        for group in step.groups:  # the members of a group send equal amounts
            assert len({step.bytes[case.spec.mesh.position(rank)] for rank in group}) == 1


def test_the_worked_example():
    story = unshuffle(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))
    assert story.right
    assert story.text.splitlines() == [
        "[5] on dp=2, tp=2: _S(0, 2), S(0): predicted",
        "1. local shards: What each rank holds before anything is sent.",
        "   rank 0: 0 1",
        "   rank 1: 3",
        "   rank 2: 2",
        "   rank 3: 4",
        "2. pad over tp: Ranks that differ in tp alone must send equal amounts: rank 1 adds 1 slot of padding.",
        "   rank 0: 0 1",
        "   rank 1: 3 #",
        "   rank 2: 2",
        "   rank 3: 4",
        "3. all-gather over tp (48 bytes sent): The 2 ranks of each tp group exchange their buffers; "
        "each joins them in the order of the coordinates.",
        "   rank 0: 0 1 3 #",
        "   rank 1: 0 1 3 #",
        "   rank 2: 2 4",
        "   rank 3: 2 4",
        "4. unpad: Sizes are known by arithmetic, so the padding is taken out where it is, chunk by chunk.",
        "   rank 0: 0 1 3",
        "   rank 1: 0 1 3",
        "   rank 2: 2 4",
        "   rank 3: 2 4",
        "5. pad over dp: Ranks that differ in dp alone must send equal amounts: ranks 2 and 3 add 1 slot of padding.",
        "   rank 0: 0 1 3",
        "   rank 1: 0 1 3",
        "   rank 2: 2 4 #",
        "   rank 3: 2 4 #",
        "6. all-gather over dp (96 bytes sent): The 2 ranks of each dp group exchange their buffers; "
        "each joins them in the order of the coordinates.",
        *[f"   rank {rank}: 0 1 3 2 4 #" for rank in range(4)],
        "7. unpad: Sizes are known by arithmetic, so the padding is taken out where it is, chunk by chunk.",
        *[f"   rank {rank}: 0 1 3 2 4" for rank in range(4)],
        "8. unshuffle: All elements are here, in the order of the ranks, where dp stands before tp; but tp cut first: "
        "0 1 3 2 4 becomes 0-4. Nothing is sent.",
        *[f"   rank {rank}: 0-4" for rank in range(4)],
    ]


def test_a_pending_sum_is_reduced_and_is_not_right_before():
    story = unshuffle(make_spec((3,), (2, 2), [("P", "sum"), ("S", 0)]))
    assert [step.name for step in story.steps][-1] == "all-reduce over a"
    assert story.right
    assert all(buffer.pending == (0,) for step in story.steps[:-1] for buffer in step.buffers)


def test_a_replica_needs_no_step():
    story = unshuffle(make_spec((3,), (2,), [("R",)]))
    assert len(story.steps) == 1
    assert story.right
