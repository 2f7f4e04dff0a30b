"""The explorer without a browser: its state, what it renders, and runs through fake and real ranks."""

import re
import time

import anywidget
import ipywidgets
import pytest

import shardviz as sv
from shardviz.core.errors import RankFailure, SpecError
from shardviz.widgets.runner import Runner
from shardviz.widgets.state import Choice
from shardviz.widgets.view import Explorer

from .fakes import FIVE, NINE, explorer, press
from .test_runner import FakeRanks

SECONDS = 60


def words(markup):
    """The alternative text of a picture."""
    return re.search(r'<(?:svg|img)[^>]* (?:aria-label|alt)="([^"]*)"', markup).group(1)


def wait(condition):
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_it_opens_on_the_example_and_takes_specs_and_texts():
    assert repr(sv.explore()) == f"<Explorer of {FIVE}: predicted>"
    assert sv.explore(NINE).state.spec == sv.explore(sv.parse(NINE)).state.spec == sv.parse(NINE)
    with pytest.raises(sv.ShardvizError, match="a spec begins with"):
        sv.explore("nonsense")


def test_it_shows_who_holds_what_and_the_story():
    ex = explorer()
    assert "rank 3 (1, 1): 4" in words(ex.picture.value)
    assert ex.player.names[-2:] == ["unpad", "unshuffle"]
    assert [bool(frame) for frame in ex.player.frames] == [True] + 7 * [False], "drawn when it is looked at"
    ex.state.step = 6
    assert "rank 0: 0 1 3 2 4" in words(ex.player.late["frames"]["6"])
    assert ex.running.source == "predicted, read as sharding-order"
    assert ex.controls.size == "2 × 2 = 4 ranks"


def test_a_new_question_changes_the_pictures_and_keeps_the_step_where_it_can():
    ex = explorer()
    ex.state.step = 4
    ex.controls.notation = NINE
    assert ex.controls.shape == "9"
    assert "rank 6 (3, 0): nothing" in words(ex.picture.value)
    assert ex.player.step == ex.state.step == 4
    ex.controls.notation = "[4] on dp=2: S(0)"
    assert ex.player.step == ex.state.step == 0


def test_wrong_input_keeps_the_last_good_picture():
    ex = explorer()
    before = ex.picture.value, ex.player.frames
    ex.controls.notation = "[5] on dp=2"
    assert "after the mesh come a colon" in ex.controls.errors["notation"]
    ex.controls.rows = [{"name": "dp", "size": "x", "placement": "R"}]
    assert list(ex.controls.errors) == ["size:0"]
    assert (ex.picture.value, ex.player.frames) == before
    ex.controls.notation = NINE
    assert ex.controls.errors == {}


def test_a_reading_that_does_not_apply_says_so_beside_its_field():
    ex = explorer(spec="[9] on dp=4: _S(0, 3)")
    before = ex.picture.value
    ex.controls.reading = "sharding-order"
    assert "split factor" in ex.controls.errors["reading"]
    assert ex.picture.value == before
    ex.controls.reading = "auto"
    assert ex.controls.errors == {}


def test_readings_that_differ_are_pointed_out():
    ex = explorer()
    assert ex.controls.note == ""
    ex.state.notation = NINE
    assert "rank 6 has nothing by sharding-order; 8 by left-to-right" in ex.controls.note
    ex.state.reading = "left-to-right"
    assert "rank 6 (3, 0): 8" in words(ex.picture.value)
    assert ex.running.source == "predicted, read as left-to-right"


def test_a_run_shows_held_against_reported():
    ex = explorer()
    ex.run()
    assert ex.state.answer == "real"
    assert ex.running.source == "held by 4 gloo ranks, torch 2.13.0, made by FSDP2 over TP"
    assert ex.controls.verdict == "1 disagreement"
    assert ex.controls.differences == ["rank 3 holds row 4; torch reports row 0"]
    assert "torch reports row 0" in words(ex.picture.value)
    assert ex.running.stories == ["shardviz", "torch"]
    ex.state.story = "torch"
    assert ex.player.heading == "What torch's full_tensor() did"
    ex.state.answer = "predicted"
    assert ex.controls.verdict == ""
    assert ex.player.heading == "How the ranks put it together"


def test_recordings_are_kept_by_spec():
    ex = explorer()
    ex.run()
    ex.state.notation = NINE
    assert ex.running.source.startswith("predicted")
    assert "Not run yet" in ex.running.hint
    ex.state.notation = FIVE
    assert ex.running.source.startswith("held by 4")
    assert ex.running.hint == ""


def test_a_run_that_fails_is_shown_and_can_be_dismissed():
    ex = explorer(lambda spec: RankFailure("Rank 2 died.", 2))
    before = ex.picture.value
    ex.controls.runs += 1  # as the browser sets it
    assert ex.running.failure == "Rank 2 died."
    assert ex.picture.value == before
    assert not ex.state.busy
    ex.running._handle_custom_msg({"do": "dismiss"}, [])
    assert ex.running.failure == ""


def test_too_many_ranks_are_refused_in_place():
    ex = sv.explore("[64] on dp=8, tp=4: S(0), R")
    ex.run()
    assert "needs 32 ranks" in ex.running.failure
    assert not ex.state.busy


def test_exceptions_never_vanish(monkeypatch):
    ex = explorer()
    monkeypatch.setattr("shardviz.widgets.view.draw", lambda *_: 1 / 0)
    ex.state.notation = NINE
    assert "ZeroDivisionError" in ex.running.failure


def test_what_a_part_does_wrong_never_vanishes_either():
    ex = explorer()
    ex.sweep.unfolded = True
    press(ex.sweep, do="size", size="elephant")
    assert "ValueError" in ex.running.failure
    press(ex.running, do="dismiss")
    press(ex.sweep, do="size", size="elephant")
    assert "ValueError" in ex.running.failure
    press(ex.sweep, do="size", size=6)
    assert ex.running.failure == ""


@pytest.mark.parametrize("name", ["follow", "guess", "sweep", "share"])
def test_every_part_that_handles_messages_is_heard(name, monkeypatch):
    ex = explorer()
    part = getattr(ex, name)
    monkeypatch.setattr(part, "act", lambda message: 1 / 0)
    press(part, do="anything")
    assert "ZeroDivisionError" in ex.running.failure


@pytest.mark.parametrize("wrong", [("notation", "nonsense"), ("to", "S(9), R"), ("shape", "5x")])
def test_pictures_of_another_question_say_so_and_nothing_runs(wrong):
    ex = explorer()
    ex.state.notation = NINE
    setattr(ex.state, *wrong)
    assert ex.running.hint == f"Still shown: {NINE}."
    ex.controls.runs += 1
    assert ex.running.failure.startswith("Not run: ")
    assert ex.recordings == {}
    ex.history.undo()
    assert ex.running.hint == ""
    ex.controls.runs += 1
    assert ex.recordings


def test_a_method_that_does_not_apply_to_the_next_example_says_what_is_still_shown():
    ex = explorer()
    ex.state.method = "torch-2.8"
    ex.state.notation = "[4, 6] on dp=2, tp=2: S(0), S(1)"
    assert ex.running.hint == f"Still shown: {FIVE}."
    assert "torch 2.8 is replayed for" in ex.controls.errors["method"]


def test_buttons_send_what_they_do():
    ex = explorer()
    ex.controls._handle_custom_msg({"do": "add"}, [])
    assert ex.state.rows[-1]["name"] == "pp"
    ex.controls._handle_custom_msg({"do": "remove", "row": 0}, [])
    assert [row["name"] for row in ex.state.rows] == ["tp", "pp"]


def parts(widget):
    """A widget and everything in it."""
    return [widget, *(part for child in getattr(widget, "children", ()) for part in parts(child))]


def test_no_stock_slider_or_player_is_used():
    found = parts(explorer())
    assert len(found) == 13
    assert all(isinstance(part, anywidget.AnyWidget | ipywidgets.Box | ipywidgets.HTML) for part in found)


def test_a_large_story_is_drawn_where_it_is_looked_at():
    ex = explorer(spec="[50257] on dp=8, tp=8: _S(0, 8), S(0)")
    last = len(ex.player.names) - 1
    ex.state.step = last
    frames = {**dict(enumerate(ex.player.frames)), **{int(k): v for k, v in ex.player.late.get("frames", {}).items()}}
    assert "unshuffle" in words(frames[last])


def test_a_step_costs_little():
    ex = explorer()
    begun = time.perf_counter()
    for step in range(len(ex.player.names)):
        ex.state.step = step
    assert time.perf_counter() - begun < 0.1 * len(ex.player.names)


def test_a_run_begun_when_the_answer_is_there_can_be_stopped():
    made, begun = [], []

    def make(n, progress):
        made.append(FakeRanks(n, progress))
        return made[-1]

    def go_on(change):
        made[0].hold.clear()
        made[0].running.clear()
        ex.run()
        begun.append(change["new"])

    ex = Explorer(Choice(sv.parse(FIVE)), Runner(16, make))
    try:
        ex.state.observe(go_on, "answer")
        ex.run()
        wait(lambda: begun == ["real"] and made[0].running.is_set())  # it waits for the thread of the first run to end
        assert ex.state.busy
        assert ex.state.progress == f"running {FIVE}"
        made[0].hold.set()
        wait(lambda: not ex.state.busy)
        assert not ex.runner.busy
    finally:
        ex.close()


@pytest.mark.ranks
def test_real_ranks_run_warm_and_end():
    ex = sv.explore(FIVE)
    try:
        ex.run()
        wait(lambda: not ex.state.busy)
        assert ex.state.failure == ""
        assert ex.running.source.startswith("held by 4 gloo ranks")
        assert ex.controls.differences == []
        assert ex.controls.verdict.startswith("All answers agree")
        ex.state.notation = "[6] on dp=3: S(0)"
        ex.run()
        wait(lambda: not ex.state.busy)
        assert ex.running.source.startswith("held by 3 gloo ranks"), ex.state.failure
        warm = ex.runner._ranks
        assert warm.n == 4
    finally:
        ex.close()
    assert not warm.running


def test_who_made_the_tensor_is_chosen_and_carried():
    ex = explorer(spec="[8] on dp=2, tp=2: _S(0, 2), _S(0, 2)")
    assert ex.running.source.startswith("predicted, read as left-to-right (distribute_tensor); the label also")
    before = [rank.runs for rank in ex._answer.layout]
    ex.state.made_by = "fsdp2"
    assert ex.running.source.startswith("predicted, read as outer-last (FSDP2 over a packed weight); the label also stands for")
    assert [rank.runs for rank in ex._answer.layout] != before
    assert 'made_by="fsdp2"' in ex.state.link()
    assert '.with_made_by("fsdp2")' in ex.share.text("python")
    assert " --made-by fsdp2 " in ex.share.text("command")
    ex.history.undo()
    assert ex.state.made_by == "auto"
    with pytest.raises(SpecError, match="there is no made_by 'nobody'"):
        sv.explore("[8] on dp=2: S(0)", made_by="nobody")
