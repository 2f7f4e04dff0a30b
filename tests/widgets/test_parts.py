"""The folded parts of the explorer and the element that is followed, without a browser."""

import re

import pytest
from traitlets import HasTraits

import shardviz as sv
from shardviz.widgets.examples import CLASSICS, examples

from .fakes import FIVE, NINE, explorer, press


def test_an_element_is_followed_through_layout_and_story():
    ex = explorer()
    ex.follow.follow = "2"  # as the browser sets it
    assert ex.state.follow == "2"
    assert ex.follow.sentence.startswith("Element 2: rank 2 holds it at local index 0. After step 1 (local shards)")
    ex.state.step = 6
    assert "After step 7 (unpad) it lies at index 3 on ranks 0-3" in ex.follow.sentence
    ex.state.follow = "rank 3: 0"
    assert ex.follow.lit == "4"
    ex.state.follow = "77"
    assert (ex.follow.error, ex.follow.lit, ex.follow.sentence) == ("no element 77: the elements are 0 to 4", "", "")
    ex.state.notation = "[100] on dp=2, tp=2: _S(0, 2), S(0)"
    assert (ex.follow.error, ex.follow.lit) == ("", "77")
    ex.state.follow = ""
    assert ex.follow.sentence == ex.follow.lit == ""


def test_the_next_element_is_one_key_away():
    ex = explorer()
    press(ex.follow, do="beside", by=1)
    assert ex.state.follow == "0"
    press(ex.follow, do="beside", by=1)
    assert ex.state.follow == "1"
    press(ex.follow, do="beside", by=-5)
    assert ex.state.follow == "0"


def test_pictures_say_where_their_elements_are():
    ex = explorer(spec="[4, 6] on dp=2, tp=2: S(0), S(1)")
    for markup in (ex.picture.value, ex.player.frames[0]):
        assert 'data-dims="0 1"' in markup
        assert 'data-span="3 4 5 6"' in markup
    plain = sv.draw(sv.layout(FIVE))
    assert "data-span" not in plain.markup()
    assert "data-span" not in plain.svg()


def test_a_large_picture_is_followed_in_words():
    ex = explorer(spec="[4096] on dp=64: S(0)")
    ex.state.follow = "4095"
    assert "rank 63 holds it at local index 63" in ex.follow.sentence


def test_folded_parts_cost_nothing_and_are_filled_when_unfolded():
    ex = explorer()
    assert [fold.unfolded for fold in ex.folds] == [False] * 5
    assert ex.compared.markup == ex.sweep.markup == ex.audited.lead == ""
    ex.compared.unfolded = True
    assert "side by side" not in ex.compared.lead
    assert "predicted" in ex.compared.markup
    before = ex.compared.markup
    ex.state.notation = NINE
    assert ex.compared.markup != before


def test_answers_stand_side_by_side_with_what_differs_counted():
    ex = explorer(spec=NINE)
    ex.compared.unfolded = True
    assert ex.compared.lead == "Reported differs from predicted on 2 ranks: 6 7."
    assert ex.compared.note.startswith("What the ranks hold, and what the forward pass uses, is known after a run")
    ex.run()
    assert ex.compared.lead == "Reported differs from held on 1 rank: 7."
    assert ex.compared.entries == [["reported", "rank 7 holds row 8; torch reports row 0"]]
    assert re.search(r"held.*used", ex.compared.markup, re.DOTALL)
    assert ex.compared.note == ""


def test_the_audit_follows_the_question():
    ex = explorer(spec="[8] on dp=4, tp=2: _S(0, 2), S(0)")
    ex.audited.unfolded = True
    assert ex.audited.lead.startswith("No errors on torch")
    ex.state.notation = NINE
    assert ex.audited.lead.startswith("5 errors on torch")
    assert ex.audited.entries[0][0] == "error"
    assert "pad dimension 0 from 9 to 10" in ex.audited.note


def test_a_guess_hides_the_layout_until_it_is_revealed():
    ex = explorer()
    ex.guess.unfolded = True
    assert "sv-guessing" in ex._dom_classes
    ex.guess.rank = 0
    press(ex.guess, do="reveal", chosen=[0, 4])
    assert ex.guess.sentence == "Rank 0 holds 0 1. Right: 0. Missed: 1. Extra: 4."
    assert ex.guess.outcome == {"right": [0], "missed": [1], "extra": [4]}
    assert "sv-guessing" not in ex._dom_classes
    press(ex.guess, do="again")
    assert (ex.guess.chosen, ex.guess.sentence) == ([], "")
    assert "sv-guessing" in ex._dom_classes
    ex.guess.unfolded = False
    assert "sv-guessing" not in ex._dom_classes


def test_what_is_too_large_to_guess_says_so_and_hides_nothing():
    ex = explorer(spec="[65] on dp=2: S(0)")
    ex.guess.unfolded = True
    assert ex.guess.words == "Guessing is for tensors of 1 to 64 elements; this one has 65."
    assert "sv-guessing" not in ex._dom_classes
    ex.state.notation = FIVE
    assert ex.guess.elements == 5
    assert "sv-guessing" in ex._dom_classes


def test_a_sweep_shows_what_comes_and_goes_and_asks_about_a_size():
    ex = explorer(spec=NINE)
    ex.sweep.unfolded = True
    assert (ex.sweep.axis, ex.sweep.first, ex.sweep.last) == ("tensor dimension 0", "0", "32")
    assert ex.sweep.sentence.endswith("the readings differ on 2 ranks, torch reports 2 ranks wrongly.")
    answered = ex.sweep.answered
    press(ex.sweep, do="size", size=10)
    assert str(ex.state.spec) == "[10] on dp=4, tp=2: _S(0, 2), S(0)"
    assert ex.sweep.sentence.startswith("Size 10:")
    assert ex.sweep.answered > answered
    ex.sweep.axis = "mesh dimension tp"
    press(ex.sweep, do="size", size=3)
    assert str(ex.state.spec) == "[10] on dp=4, tp=3: _S(0, 3), S(0)"
    press(ex.running, do="undo")
    assert str(ex.state.spec) == "[10] on dp=4, tp=2: _S(0, 2), S(0)"


@pytest.mark.parametrize(("first", "last"), [("x", "9"), ("9", "3"), ("-1", "3"), ("0", "500")])
def test_a_range_that_is_none_says_so(first, last):
    ex = explorer()
    ex.sweep.unfolded = True
    before = ex.sweep.markup
    with ex.sweep.hold_trait_notifications():
        ex.sweep.first, ex.sweep.last = first, last
    assert "range" in ex.sweep.error
    assert ex.sweep.markup == before


def test_the_way_of_the_unshuffle_is_chosen_and_judged():
    ex = explorer(spec="[6] on dp=2, tp=2: _S(0, 2), S(0)")
    ex.controls.method = "torch-2.8"
    assert ex.controls.wrong
    assert ex.controls.verdict.startswith("Wrong on 4 of 4 ranks: 2 of the 6 slots of rank 0")
    assert "wrong on 4 ranks" in ex.player.frame(len(ex.player.names) - 1)
    ex.controls.method = "reverse-order"
    assert not ex.controls.wrong
    assert ex.controls.verdict == "Every rank ends with the whole tensor, in order."
    ex.controls.method = "exact"
    assert ex.controls.verdict == ""


def test_a_method_that_does_not_apply_says_so_beside_its_field():
    ex = explorer(spec="[9] on dp=4: _S(0, 3)")
    ex.controls.method = "reverse-order"
    assert "method" in ex.controls.errors
    ex.controls.method = "exact"
    assert ex.controls.errors == {}


def test_a_redistribution_is_told_and_run():
    ex = explorer()
    ex.controls.to = "R, S(0)"
    assert ex.player.heading == "How the ranks come to R, S(0)"
    assert not ex.controls.predicting
    ex.run()
    assert ex.player.heading == "How torch comes to R, S(0)"
    assert ex.controls.verdict == "Every rank ends with its part of the target."
    ex.controls.to = ""
    assert "Not run yet" in ex.running.hint
    ex.controls.to = "S(7), R"
    assert "tensor dimension 7 does not exist" in ex.controls.errors["to"]
    ex.run()
    assert ex.state.failure.startswith("Not run: S(7)")


def test_examples_are_the_classics_and_the_museum():
    found = examples()
    groups = [one.group for one in found]
    assert groups.count("Classics") == len(CLASSICS)
    assert groups.count("The museum") >= 10
    assert len({one.key for one in found}) == len(found)
    ex = sv.explore()
    key = found[1].key
    press(ex.controls, do="example", key=key)
    assert str(ex.state.spec) == NINE
    assert ex.controls.example == key
    ex.state.shape = "10"
    assert ex.controls.example == ""


def test_a_model_brings_its_parameters_the_faulty_ones_first(tmp_path):
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 129, "vocab_size": 9, "num_attention_heads": 4}
    path = tmp_path / "config.json"
    path.write_text(str({**config, "num_hidden_layers": 1}).replace("'", '"'))
    ex = sv.explore(model=path, mesh="dp=4, tp=2")
    group, options = ex.controls.examples[0]
    assert group == "Your model"
    assert options[0][1].startswith("✗ ")
    marked = [label.startswith("✗ ") for _, label in options]
    assert marked == sorted(marked, reverse=True)
    assert not all(marked)
    assert ex.state.spec == sv.parse("[9, 64] on dp=4, tp=2: _S(0, 2), S(0)")


def test_views_keep_no_tensors():
    assert all(isinstance(part, HasTraits) for part in explorer().folds)
