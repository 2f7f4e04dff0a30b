"""Answers side by side, and sweeps as strip charts: what they show, and what they say."""

import pytest

from shardviz.core.layout import layout
from shardviz.core.spec import parse
from shardviz.core.sweeping import sweep
from shardviz.core.trace import start
from shardviz.picture.answers import LANES, Told, draw_answers
from shardviz.picture.scene import Box, Cell, Text
from shardviz.picture.scene_sweep import draw_sweep, margins

NINE = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")


def red(picture):
    return [mark for mark in picture.scene.marks if isinstance(mark, Box) and mark.stroke == "red"]


def two_answers(spec, differs=()):
    held = start(layout(spec))
    return [Told("predicted", "by arithmetic", held), Told("held", "by ranks", held, differs, "predicted")]


def test_red_stands_where_answers_part_and_is_counted():
    agreeing = draw_answers(NINE, two_answers(NINE))
    assert red(agreeing) == []
    assert "as predicted" in agreeing.scene.words
    parting = draw_answers(NINE, two_answers(NINE, ((6, "holds row 8"), (7, "holds nothing"))))
    assert len(red(parting)) == 2
    assert "differs from predicted on 2 ranks: 6 7" in " ".join(parting.scene.words.split("\n"))
    assert "rank 7 holds nothing" in parting.text


@pytest.mark.parametrize(
    "text",
    [
        "[] on dp=2: R",
        "[0] on dp=2: S(0)",
        "[4, 6] on dp=2, tp=2: S(0), S(1)",
        "[6] on dp=2, tp=2: R, P(sum)",
        "[2, 3, 4] on dp=2: S(1)",
        "[1000000000] on dp=1024: S(0)",
    ],
)
def test_every_kind_of_tensor_is_drawn_with_its_text_and_table(text):
    spec = parse(text)
    picture = draw_answers(spec, two_answers(spec))
    assert picture.text.startswith(f"{spec}\npredicted (by arithmetic)")
    assert picture.table.head == ("rank", "predicted", "held")
    assert picture.svg().startswith("<svg")


def test_of_many_ranks_those_that_part_are_shown():
    spec = parse("[4096] on dp=64: S(0)")
    picture = draw_answers(spec, two_answers(spec, ((50, "holds something else"),)))
    assert "rank 50" in picture.scene.words
    assert f"{64 - LANES} more ranks" in picture.scene.words
    assert len(red(picture)) == 1


def test_a_sweep_draws_what_it_found():
    found = sweep(NINE, ("tensor", 0), range(8, 12), lambda spec: 2 * (spec.shape == (9,)))
    picture = draw_sweep("tensor dimension 0", found, 9)
    hatched = [mark for mark in picture.scene.marks if isinstance(mark, Cell) and mark.kind == "padding"]
    assert len(hatched) == sum(one.padding > 0 for one in found)
    assert len(red(picture)) == 1
    assert picture.text.splitlines()[2] == found[1].sentence
    assert picture.table.rows[1] == ("9", "9", "1", "2", "2")
    left, right = margins(picture.scene)
    assert left > 0
    assert right > 0
    assert left + right < 50


def test_a_sweep_of_many_sizes_still_labels_its_axis():
    found = sweep(NINE, ("tensor", 0), range(100), lambda _: 0)
    assert "80" in draw_sweep("tensor dimension 0", found, 500).scene.words.split("\n")


def test_the_picture_stands_alone():
    scene = draw_answers(NINE, two_answers(NINE)).scene
    (first,) = (mark.y for mark in scene.marks if isinstance(mark, Text) and mark.text == "rank 0")
    assert str(NINE) in scene.words
    assert [cell.label for cell in scene.cells if cell.y < first - 60] == [str(rank) for rank in range(8)], "its mesh"
