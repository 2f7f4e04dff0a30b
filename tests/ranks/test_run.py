"""Specs on real ranks: what is held is what was predicted, and the recorded story is the predicted one."""

import sys

import pytest
from programs import lose_rank_one, made_where_fsdp2_has_other_labels

from shardviz.core.compare import compare, disagreements
from shardviz.core.errors import RankFailure, RequestError
from shardviz.core.files import from_json, to_json
from shardviz.core.layout import layout
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import parse
from shardviz.core.unshuffle import unshuffle

pytestmark = pytest.mark.ranks

NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
RIGHT = {
    "[5] on dp=2, tp=2: _S(0, 2), S(0)": "fsdp2-over-tp",
    "[2] on dp=2, tp=4: _S(0, 4), S(0)": "fsdp2-over-tp",
    "[0] on dp=2, tp=2: _S(0, 2), S(0)": "fsdp2-over-tp",
    "[7, 5] on dp=2, tp=3: S(0), S(1)": "fsdp2-over-tp",
    "[6, 4] on rep=2, dp=2, tp=2: R, _S(0, 2), S(0)": "fsdp2-over-tp",
    "[4, 8] on dp=2, tp=2: _S(1, 2), S(1)": "fsdp2-over-tp",
    "[17, 4] on dp=8: S(0)": "fsdp2",
    "[4, 31, 10] on tp=4: S(1)": "distribute_tensor",
    "[2, 3, 4, 5] on a=2, b=2, c=2: S(3), S(1), S(2)": "distribute_tensor",
    "[8] on tp=2: _S(0, 2)": "distribute_tensor",
    "[] on a=2: R": "distribute_tensor",
    "[9] on a=2, b=2, c=2: _S(0, 2), S(0), S(0)": "redistribute",
    "[9] on tp=4: _S(0, 2)": "from_local",
    "[3, 5] on dp=4: P(sum)": "from_local",
    "[3] on a=2, b=2: P(product), P(product)": "from_local",
    "[5, 3] on a=2, b=2 (ranks 4-7): P(avg), S(1)": "from_local",
    "[] on a=2: P": "from_local",
}


@pytest.mark.parametrize("text", RIGHT)
def test_everything_agrees(eight_ranks, text):
    trace = eight_ranks.run(text)
    assert trace.spec.made_by == RIGHT[text]
    assert trace.holds(layout(trace.spec))
    assert trace.right
    assert trace.torch.right
    assert len(trace.used) == (trace.spec.mesh.size if trace.spec.made_by in ("fsdp2", "fsdp2-over-tp") else 0)
    no_block = [held.rank for held in layout(trace.spec) if any(len(runs) > 1 for runs in held.runs)]  # a report is a block
    assert [difference.rank for difference in disagreements(trace, layout(trace.spec))] == no_block
    assert not compare(unshuffle(trace.spec), trace)
    assert [step.bytes for step in trace.steps] == [step.bytes for step in unshuffle(trace.spec).steps]
    assert from_json(to_json(trace)) == trace


def test_torch_2_13_reports_two_of_nine_wrongly(eight_ranks):
    trace = eight_ranks.run(NINE)
    assert trace.right
    assert trace.torch.right
    assert [d.rank for d in disagreements(trace, layout(trace.spec))] == [6, 7]
    assert trace.source.text == "held by 8 gloo ranks, torch 2.13.0, made by FSDP2 over TP"


def test_torch_2_13_shuffles_what_fsdp2_puts_over_a_packed_weight(eight_ranks):
    trace = eight_ranks.run("[16] on dp=2, tp=2: _S(0, 2), _S(0, 2)")
    assert (trace.spec.made_by, layout(trace.spec).reading) == ("fsdp2", "outer-last")
    assert trace.holds(layout(trace.spec))
    assert trace.right
    assert not trace.torch.right
    assert {buffer.axes for buffer in trace.torch.result} == {(((0, 4), (8, 12), (4, 8), (12, 16)),)}


def test_shardviz_places_what_another_torch_labels_otherwise_unless_fsdp2_was_asked_for(four_ranks):
    packed = parse("[16] on dp=2, tp=2: _S(0, 2), _S(0, 2)")
    assert four_ranks.apply(made_where_fsdp2_has_other_labels, packed) == ["from_local"] * 4
    with pytest.raises(RankFailure, match="made other placements"):
        four_ranks.apply(made_where_fsdp2_has_other_labels, packed.with_made_by("fsdp2"))


def test_that_torch_does_not_come_back_is_an_answer_too(eight_ranks, monkeypatch):
    monkeypatch.setattr("shardviz.ranks.answers.torch_run", lose_rank_one)
    trace = eight_ranks.run("[5] on dp=2, tp=2: _S(0, 2), S(0)")
    assert trace.right
    assert not trace.torch.right
    assert "rank 1 of 8 (dp=0, tp=1) raised" in trace.torch.end
    assert eight_ranks.run("[5] on dp=2, tp=2: _S(0, 2), S(0)").right


def test_ranks_that_do_other_things_between_two_collectives_are_lined_up(eight_ranks):
    trace = eight_ranks.run("[7, 3] on a=2, b=2, c=2: S(0), S(1), S(0)")
    assert trace.right
    assert trace.torch.right


def test_torch_2_13_numbers_ranks_in_ascending_order_whatever_the_mesh_does(eight_ranks):
    trace = eight_ranks.run("[5] on tp=2 (ranks 1, 0): S(0)")
    assert not trace.holds(layout(trace.spec))
    assert not trace.right
    assert "rank 1 has 0-2 by arithmetic; 3 4 by the recorded run" in [
        difference.sentence for difference in disagreements(trace, layout(trace.spec))
    ]


@pytest.mark.parametrize("placements", ["P(sum), P(max)", "P(nosuch), R"])
def test_pending_reductions_that_cannot_be_run_are_refused_before_anything_starts(four_ranks, placements):
    with pytest.raises(RequestError, match="one kind of pending reduction, one of sum, avg, max, min, product"):
        four_ranks.run(f"[5] on a=2, b=2: {placements}")


def test_a_mesh_of_ranks_that_do_not_run_is_refused(four_ranks):
    with pytest.raises(RequestError, match="needs 8 ranks, and these are 4"):
        four_ranks.run(NINE)
    with pytest.raises(RequestError, match="needs 6 ranks"):
        four_ranks.run("[5] on tp=2 (ranks 4-5): S(0)")


def test_a_tensor_too_large_to_mark_is_refused_with_what_would_do(four_ranks):
    with pytest.raises(RequestError, match=r"131,076,096 elements.*nothing cuts dimension 1: a size of 1 there"):
        four_ranks.run("[32001, 4096] on dp=2, tp=2: _S(0, 2), S(0)")


def test_asking_needs_no_torch(four_ranks):
    before = "torch" in sys.modules
    four_ranks.run(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))
    assert ("torch" in sys.modules) == before


@pytest.mark.parametrize(
    ("text", "placements", "collective"),
    [
        ("[9, 4] on dp=2, tp=2: _S(0, 2), S(0)", "R, R", "all_gather_into_tensor"),
        ("[9, 6] on tp=4: S(0)", "S(1)", "all_gather_into_tensor"),  # torch has no all-to-all for it on the CPU
        ("[9] on tp=4: P", "S(0)", "reduce_scatter_tensor"),
        ("[9] on tp=4: P", "R", "all_reduce"),
        ("[9] on dp=4, tp=2: R, R", "_S(0, 2), S(0)", None),
    ],
)
def test_torch_redistributes_to_where_it_should(eight_ranks, text, placements, collective):
    recorded, predicted = eight_ranks.redistribute(text, placements), redistribute(parse(text), placements)
    assert recorded.right
    assert recorded.result == predicted.result
    assert collective in [None, *(step.name for step in recorded.steps if step.kind == "collective")]
