"""What an explorer refuses to draw, at once and in words, and that it draws all the rest."""

import pytest

import shardviz as sv
from shardviz.core.errors import SpecError
from shardviz.core.spec import parse
from shardviz.widgets.limits import drawable, places, quick

from .fakes import FIVE, explorer

TOO_LARGE = {
    "[50257] on dp=1048576: S(0)": "1,048,576 ranks",
    "[5] on dp=1025: S(0)": "1,025 ranks",
    f"[{'1, ' * 20000}1] on dp=2: S(0)": "60,017 characters; at most 10,000 are read",
    f"[{'1, ' * 2000}1] on dp=2: S(0)": "2,001 tensor dimensions",
    f"[5] on {', '.join(f'm{n}=1' for n in range(17))}: {', '.join(['R'] * 17)}": "17 mesh dimensions",
    f"[5] on {'a' * 100_000}=2: S(0)": "100,015 characters; at most 10,000 are read",
    f"[5] on {'a' * 9_000}=2: S(0)": "9,000 letters",
    "[1000000000] on dp=128, tp=8: _S(0, 1000), S(0)": "1,024,000 pieces",
    "[1000000] on dp=2, tp=2: S(0), _S(0, 60000)": "pieces on all ranks",
}
LARGE = (
    "[4096] on dp=1024: S(0)",
    "[4099, 4097] on dp=16, tp=16: _S(0, 16), S(0)",
    "[1000000000000000000, 1000000000000000000] on dp=2, tp=2: S(0), S(1)",
    f"[{'9' * 100}] on dp=2, tp=2: _S(0, 2), S(0)",
    "[0] on dp=3: S(0)",
    "[] on dp=2: P(sum)",
    "[7, 3, 5, 5] on a=2, b=2, c=2, d=2: _S(0, 8), _S(0, 4), _S(0, 2), S(0)",
    "[5] on 数据=2: S(0)",
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("text", "words"), TOO_LARGE.items(), ids=range(len(TOO_LARGE)))
def test_what_nobody_would_wait_for_is_refused_beside_the_line(text, words):
    ex = explorer()
    for fold in ex.folds:
        fold.unfolded = True
    before = ex.picture.value
    ex.state.notation = text
    assert words in ex.controls.errors["notation"]
    assert len(ex.controls.errors["notation"]) < 200
    assert ex.picture.value == before
    ex.history.undo()
    assert str(ex.state.spec) == FIVE
    assert ex.controls.errors == {}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", LARGE)
def test_the_rest_is_drawn(text):
    ex = explorer()
    ex.state.notation = text
    for fold in ex.folds:
        fold.unfolded = True
    assert (ex.controls.errors, ex.running.failure, ex.sweep.error) == ({}, "", "")
    assert ex.sweep.bounds[0] <= ex.sweep.now <= ex.sweep.bounds[1]


def test_where_a_story_leads_is_bounded_too():
    ex = explorer(spec="[1000000] on dp=2, tp=2: S(0), S(0)")
    ex.state.to = "S(0), _S(0, 60000)"
    assert "pieces on all ranks" in ex.controls.errors["to"]


def test_pieces_are_counted_by_rank():
    assert places(sv.layout(FIVE)) == 4
    assert places(sv.layout("[0] on dp=3: S(0)")) == 3
    assert places(sv.layout("[8] on dp=2: _S(0, 4)")) == 8
    with pytest.raises(SpecError, match="20,000 pieces on all ranks: the explorer draws up to 8,192"):
        quick(parse("[1000000] on dp=2: _S(0, 10000)"), "auto")
    drawable(parse("[4099] on dp=32, tp=32: _S(0, 32), S(0)"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("axis", range(2))
@pytest.mark.parametrize("text", ["[4096] on dp=1024: S(0)", "[64] on dp=33: S(0)", "[9] on dp=1: S(0)", "[0] on dp=2: S(0)"])
def test_a_sweep_begins_with_the_present_size_in_it_and_as_many_as_one_waits_for(text, axis):
    ex = explorer(spec=text)
    ex.sweep.unfolded = True
    ex.sweep.axis = ex.sweep.axes[axis]
    low, high = ex.sweep.bounds
    assert ex.sweep.error == ""
    assert low <= ex.sweep.now <= high
    assert low < high
    assert ex.sweep.sentence.startswith(f"Size {ex.sweep.now:,}:")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("first", "last"),
    [("32", "0"), ("-5", "5"), ("x", "y"), ("0", "9" * 5000), ("9" * 90, "9" * 90), ("1e3", "2e3"), ("0", "500")],
)
def test_a_range_that_is_none_is_said_shortly(first, last):
    ex = explorer()
    ex.sweep.unfolded = True
    before = ex.sweep.markup
    ex.sweep.first, ex.sweep.last = first, last
    assert 0 < len(ex.sweep.error) < 120
    assert ex.sweep.markup == before


def test_a_sweep_over_more_than_anybody_waits_for_asks_for_less():
    ex = explorer(spec="[4096] on dp=256: S(0)")
    ex.sweep.unfolded = True
    ex.sweep.first, ex.sweep.last = "4000", "4100"
    assert ex.sweep.error == "25,856 pieces in all these sizes: a sweep looks at 4,096; choose fewer sizes"


def test_the_range_follows_a_question_outside_it():
    ex = explorer()
    ex.sweep.unfolded = True
    ex.state.notation = "[50257] on dp=4, tp=2: _S(0, 2), S(0)"
    assert ex.sweep.bounds[0] <= 50257 <= ex.sweep.bounds[1]
