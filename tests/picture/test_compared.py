"""Two answers drawn side by side: red on the ranks where they part, the count in words."""

from dataclasses import replace

from shardviz.core.compare import compare
from shardviz.core.layout import layout
from shardviz.core.unshuffle import unshuffle
from shardviz.picture import draw
from shardviz.picture.scene import Box, Text

NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
SIX = "[6] on dp=2, tp=2: _S(0, 2), S(0)"


def red(picture):
    return [mark for mark in picture.scene.marks if isinstance(mark, Box) and mark.stroke == "red"]


def words(picture):
    return " ".join(mark.text for mark in picture.scene.marks if isinstance(mark, Text))


def test_two_layouts_part_on_two_ranks():
    picture = draw(compare(layout(NINE), layout(NINE, "left-to-right")))
    assert len(red(picture)) == 2
    assert "differs from sharding-order on 2 ranks: 6 7" in picture.text
    assert "differs from sharding-order" in words(picture)
    assert "rank 6 has nothing by sharding-order; 8 by left-to-right" in picture.text


def test_where_nothing_differs_nothing_is_red():
    picture = draw(compare(layout(SIX), layout(SIX)))
    assert red(picture) == []
    assert "as sharding-order" in words(picture)


def test_two_stories_are_shown_at_the_step_at_which_they_part():
    found = compare(unshuffle(SIX), unshuffle(SIX, "torch-2.8"))
    picture = draw(found)
    assert "step 2, all-gather over tp" in picture.text
    assert len(red(picture)) == len([one for one in found.differences if one.step == found.differences[0].step])


def test_a_story_that_is_shorter_is_shown_at_its_end():
    longer = unshuffle(NINE)
    picture = draw(compare(longer, replace(longer, steps=longer.steps[:-1])))
    assert "step 7, unpad" in picture.text
    assert "rank 0 has 0-8 by predicted; 0 1 5 2 3 6 4 7 8 by predicted at the end" in picture.text
