"""The state of the explorer: two ways to put a question, which follow each other."""

import pytest

from shardviz.core.mesh import Mesh
from shardviz.core.spec import Spec, parse
from shardviz.widgets.fields import fields_of, new_row, read_fields, suggestions
from shardviz.widgets.state import ExplorerState, readings_note

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"


def row(name="dp", size="2", placement="S(0)"):
    return {"name": name, "size": size, "placement": placement}


@pytest.fixture
def state():
    return ExplorerState(parse(FIVE))


@pytest.mark.parametrize(
    "text", [FIVE, "[] on dp=2: R", "[0] on dp=3: S(0)", "[15, 5] on a=2, b=2: P(sum), S(1)", "[6] on dp=2 (ranks 4-5): S(0)"]
)
def test_a_spec_survives_its_fields(text):
    spec = parse(text)
    shape, rows = fields_of(spec)
    assert read_fields(shape, rows, spec.mesh.ranks).spec == spec


@pytest.mark.parametrize("shape", ["15, 5", "[15, 5]", " 15,5 ", "(15, 5)".strip("()"), "15, 5,"])
def test_a_shape_may_be_written_in_several_ways(shape):
    assert read_fields(shape, [row()]).spec.shape == (15, 5)


@pytest.mark.parametrize(
    ("shape", "rows", "field", "message"),
    [
        ("5x", [row()], "shape", "whole numbers separated by commas"),
        ("-5", [row()], "shape", "0 or more"),
        ("5", [row(name="2p")], "name:0", "letters, digits and underscores"),
        ("5", [row(), row()], "name:1", "stands twice"),
        ("5", [row(size="two")], "size:0", "a whole number of ranks"),
        ("5", [row(size="0")], "size:0", "1 or more"),
        ("5", [row(), row("tp", placement="nonsense")], "placement:1", "a placement is R"),
        ("5", [row(placement="S(3)")], "placement:0", "tensor dimension 3 does not exist"),
        ("5", [row(placement="S(0), R")], "placement:0", "each mesh dimension has one"),
        ("5", [row(placement="")], "placement:0", "a placement is R"),
        ("5", [row(size="1048577")], "size:0", "at most"),
        ("5", [row(size="2000"), row("tp", size="2000")], "mesh", "at most"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(shape, rows, field, message):
    found = read_fields(shape, rows)
    assert found.spec is None
    assert message in found.errors[field]
    assert list(found.errors) == [field]


def test_order_numbers_are_read_in_fields_too():
    found = read_fields("5", [row(placement="S(0)[1]"), row("tp", placement="S(0)[0]")])
    assert found.spec == parse(FIVE)


def test_ranks_of_a_sub_mesh_stay_while_their_number_fits():
    assert read_fields("4", [row()], (4, 5)).spec.mesh == Mesh({"dp": 2}, (4, 5))
    assert read_fields("4", [row(size="3")], (4, 5)).spec.mesh == Mesh({"dp": 3})


def test_an_added_dimension_has_a_free_name_and_changes_nothing_of_the_rest():
    rows = [row(name) for name in ("dp", "tp", "pp", "ep", "cp")]
    assert new_row(rows)["name"] == "dim0"
    assert new_row([row(), row("tp")]) == {"name": "pp", "size": "2", "placement": "R"}


def test_suggested_placements_fit_the_tensor():
    assert suggestions(Spec((4, 4), {"dp": 3, "tp": 1}, "R, R")) == ["R", "S(0)", "S(1)", "_S(0, 3)", "_S(1, 3)", "P(sum)"]


def test_fields_follow_the_notation(state):
    state.notation = "[15, 5] on a=4: Shard(dim=1)"
    assert (state.shape, state.rows) == ("15, 5", [row("a", "4", "S(1)")])
    assert state.spec == parse("[15, 5] on a=4: S(1)")
    assert state.notation == "[15, 5] on a=4: Shard(dim=1)", "what a person types is left as it is"


def test_the_notation_follows_fields(state):
    state.shape = "6"
    assert state.notation == "[6] on dp=2, tp=2: _S(0, 2), S(0)"
    state.add_dimension()
    assert state.notation == "[6] on dp=2, tp=2, pp=2: _S(0, 2), S(0), R"
    state.remove_dimension(1)
    assert state.notation == "[6] on dp=2, pp=2: _S(0, 2), R"


def test_the_last_dimension_stays(state):
    for _ in range(3):
        state.remove_dimension(0)
    assert len(state.rows) == 1


def test_errors_leave_the_last_question_and_go_away(state):
    state.notation = "nonsense"
    assert "a spec begins with the global shape" in state.errors["notation"]
    assert state.spec == parse(FIVE)
    state.shape = "7"
    assert state.errors == {}
    assert state.notation == str(state.spec) == "[7] on dp=2, tp=2: _S(0, 2), S(0)"


def test_a_program_is_told_once_per_question(state):
    seen = []
    state.observe(lambda change: seen.append(str(change["new"])), "spec")
    state.notation = "[6] on dp=2: S(0)"
    state.notation = "[6] on dp=2: Shard(0)"
    assert seen == ["[6] on dp=2: S(0)"]


def test_readings_that_do_not_apply_are_no_difference():
    assert readings_note(parse("[9] on dp=4: _S(0, 2)")) == ""


def test_a_long_difference_is_cut():
    note = readings_note(parse("[1000] on dp=2, tp=2: _S(0, 2), _S(0, 40)"))
    assert note.startswith("The readings differ on")
    assert note.endswith(" ….")
    assert len(note) < 300
