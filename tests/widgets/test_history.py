"""Undo and redo, and lines and links that restore a view."""

import pytest

import shardviz as sv
from shardviz.core.errors import SpecError
from shardviz.core.spec import parse
from shardviz.widgets.history import MOST, History
from shardviz.widgets.snippets import query
from shardviz.widgets.state import CHOICES, ExplorerState

from .fakes import FIVE, NINE, explorer, press


@pytest.fixture
def state():
    return ExplorerState(parse(FIVE))


def test_every_change_is_undone_and_redone_one_by_one(state):
    history = History(state)
    was = [state.choice]
    changes = {"notation": NINE, "reading": "left-to-right", "method": "reverse-order", "to": "R, R", "follow": "3"}
    for name, value in changes.items():
        setattr(state, name, value)
        was.append(state.choice)
    state.add_dimension()
    was.append(state.choice)
    assert len({str(choice) for choice in was}) == len(was)
    for choice in reversed(was[:-1]):
        history.undo()
        assert state.choice == choice
    assert not history.can_undo
    history.undo()
    for choice in was[1:]:
        history.redo()
        assert state.choice == choice
    assert not history.can_redo


def test_the_fields_follow_an_undo(state):
    history = History(state)
    state.notation = NINE
    history.undo()
    assert (state.notation, state.shape, [row["size"] for row in state.rows]) == (FIVE, "5", ["2", "2"])


def test_a_change_after_an_undo_forgets_what_was_undone(state):
    history = History(state)
    state.notation = NINE
    history.undo()
    state.follow = "2"
    assert not history.can_redo
    history.undo()
    assert (str(state.spec), state.follow) == (FIVE, "")


def test_walking_through_the_story_and_nonsense_are_no_changes(state):
    history = History(state)
    state.step = 3
    state.notation = "nonsense"
    history.undo()
    assert (state.notation, state.errors) == (FIVE, {})
    assert not history.can_undo


@pytest.mark.parametrize("wrong", [("notation", "nonsense"), ("shape", "5x"), ("rows", [])])
def test_an_undo_of_what_cannot_be_read_goes_back_to_what_was_understood(state, wrong):
    history = History(state)
    state.notation = NINE
    setattr(state, *wrong)
    assert history.can_undo
    history.undo()
    assert (state.notation, state.shape, len(state.rows), state.errors) == (NINE, "9", 2, {})
    history.undo()
    assert str(state.spec) == FIVE


def test_the_history_is_bounded(state):
    history = History(state)
    for size in range(MOST + 50):
        state.shape = str(size + 10)
    for _ in range(MOST + 50):
        history.undo()
    assert state.shape == str(10 + 49)


def test_an_undo_draws_once(monkeypatch):
    drawn = []
    ex = explorer()
    ex.state.notation = NINE
    ex.state.reading = "left-to-right"
    monkeypatch.setattr(ex.player, "show", lambda *told: drawn.append(told))
    press(ex.running, do="undo")
    press(ex.running, do="undo")
    assert len(drawn) == 2
    assert ex.running.can_redo
    assert not ex.running.can_undo
    press(ex.running, do="redo")
    assert str(ex.state.spec) == NINE


@pytest.mark.parametrize("text", [FIVE, "[] on dp=2: R", "[6] on dp=2 (ranks 4-5): S(0)", "[4, 6] on a=2, b=2: P(sum), S(1)"])
def test_a_line_of_python_opens_the_same_view(text):
    first = sv.explore(text)
    first.state.method = "reverse-order"
    first.state.follow = ", ".join(["0"] * first.state.spec.ndim)
    first.state.step = len(first.player.names) - 1
    again = eval(first.state.link(), {"sv": sv})
    assert again.state.choice == first.state.choice
    assert again.state.step == first.state.step
    assert not again.history.can_undo


def test_a_query_opens_the_same_view():
    first = sv.explore(NINE, to="R, S(0)", follow="8", step=1, reading="sharding-order")
    again = sv.explore(query=query(first.state))
    assert again.state.choice == first.state.choice
    assert again.state.step == 1
    assert sv.explore(NINE, query="").state.choice == sv.explore(NINE).state.choice


@pytest.mark.parametrize("wrong", ["?spec=nonsense", "?method=x", "?reading=x", "?step=x"])
def test_a_wrong_link_still_opens_an_explorer_and_says_what_is_wrong(wrong):
    ex = sv.explore(query=wrong)
    assert "the link cannot be followed" in ex.running.failure
    assert str(ex.state.spec) == FIVE


@pytest.mark.parametrize("wrong", [{"method": "x"}, {"reading": "x"}])
def test_a_wrong_argument_is_refused_with_the_right_ones(wrong):
    with pytest.raises(SpecError, match=r"there is no .* 'x'; there are"):
        sv.explore(**wrong)


def test_what_a_choice_has_the_state_has_too(state):
    assert all(hasattr(state, name) and hasattr(state.choice, name) for name in CHOICES)


def test_an_example_has_its_name_again_after_an_undo():
    ex = sv.explore()
    first = ex.controls.example
    press(ex.controls, do="example", key="Classics: A matrix cut both ways")
    press(ex.running, do="undo")
    assert ex.controls.example == first == "Classics: Five elements, FSDP2 over TP"
    press(ex.running, do="redo")
    assert ex.controls.example == "Classics: A matrix cut both ways"


def test_a_link_with_a_step_that_is_no_number_says_so_in_words():
    assert (
        sv.explore(query="?step=x").running.failure == "the link cannot be followed: step 'x': a step is a whole number, from 0"
    )
