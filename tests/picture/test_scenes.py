"""What stands on pictures: cells, labels, outlines and words, never pixels."""

import dataclasses

import pytest

from shardviz.core.layout import layout
from shardviz.core.spec import parse
from shardviz.core.trace import Buffer, Report, Source, start
from shardviz.core.unshuffle import unshuffle
from shardviz.picture import draw, draw_held, draw_layout
from shardviz.picture.scene import Box, Cell, Line, Scene, Text
from shardviz.picture.theme import text_width

SPECS = [
    "[5] on dp=2, tp=2: _S(0, 2), S(0)",
    "[9] on dp=4, tp=2: _S(0, 2), S(0)",
    "[7] on tp=2: S(0)",
    "[0] on dp=4: S(0)",
    "[50257] on dp=2, tp=4: _S(0, 4), S(0)",
    "[7, 5] on dp=2, tp=3: S(0), S(1)",
    "[15, 5] on dp=2, tp=2: _S(0, 2), S(0)",
    "[3, 5] on dp=4: P(sum)",
    "[6, 4] on rep=2, dp=2, tp=2: R, _S(0, 2), S(0)",
    "[4, 31, 10] on tp=4: S(1)",
    "[100, 100, 100] on pp=2, dp=2, tp=2: S(0), S(1), S(2)",
    "[64] on dp=8: R",
    "[9] on tp=4 (ranks 4-7): S(0)",
    "[] on dp=2: R",
    "[] on dp=2: P(sum)",
    "[0, 5] on dp=2, tp=2: S(0), S(1)",
    "[40] on a=2, b=2, c=2, d=2: R, R, _S(0, 2), S(0)",
    "[512] on dp=8, tp=8: _S(0, 8), S(0)",
    "[1000000000] on dp=128, tp=8: _S(0, 8), S(0)",
    "[1024, 1024] on dp=32, tp=32: S(0), S(1)",
]


def labels(scene: Scene, rank: int, kind: str = "element") -> list[str]:
    return [cell.label for cell in scene.cells if cell.rank == rank and cell.kind == kind and cell.span]


def inside(scene: Scene) -> None:
    """Nothing is cut off at the edges of a picture."""
    for mark in scene.marks:
        if isinstance(mark, Text):
            shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor]
            left = mark.x - shift * text_width(mark.text, mark.size, mark.bold)
            assert left >= 0, mark
            assert left + text_width(mark.text, mark.size, mark.bold) <= scene.width + 0.5, mark
            assert 0 <= mark.y <= scene.height, mark
        elif isinstance(mark, Cell | Box):
            assert mark.x >= -1, mark
            assert mark.x + mark.width <= scene.width + 1, mark
            assert mark.y >= 0, mark
            assert mark.y + mark.height <= scene.height, mark


@pytest.mark.parametrize("text", SPECS)
def test_layout_is_whole_and_inside(text: str) -> None:
    picture = draw(layout(parse(text)))
    inside(picture.scene)
    assert text in picture.scene.words
    assert "predicted" in picture.scene.words
    assert picture.text.startswith(text)


@pytest.mark.parametrize("text", SPECS)
def test_story_is_whole_and_inside(text: str) -> None:
    story = unshuffle(parse(text))
    picture = draw(story)
    inside(picture.scene)
    assert len(picture.frames) == len(story.steps)
    for place, (step, frame) in enumerate(zip(story.steps, picture.frames, strict=True), 1):
        assert step.name in picture.scene.words
        assert f"{place} · {step.name}" in frame.scene.words
        inside(frame.scene)
    assert picture.scene.width <= 1041


@pytest.mark.parametrize("text", SPECS[:-3])
def test_frames_of_a_story_have_one_size(text: str) -> None:
    story = unshuffle(parse(text))
    assert len({(p.scene.width, p.scene.height) for p in (draw(story, step=i) for i in range(len(story.steps)))}) == 1
    assert len({(f.scene.width, f.scene.height) for f in draw(story).frames}) == 1


def test_every_rank_shows_its_elements_at_their_place() -> None:
    spec = parse(SPECS[1])
    scene = draw(layout(spec)).scene
    held = {rank: labels(scene, rank) for rank in range(8)}
    assert held == {0: ["0", "1"], 1: ["5"], 2: ["2", "3"], 3: ["6"], 4: ["4"], 5: ["7"], 6: [], 7: ["8"]}
    places = sorted((int(cell.label), cell.x) for cell in scene.cells if cell.span)
    assert [x for _, x in places] == sorted({x for _, x in places})
    assert "nothing" in scene.words  # rank 6


def test_story_shows_padding_groups_and_moves() -> None:
    scene = draw(unshuffle(parse(SPECS[0])), step=5).scene
    assert labels(scene, 0) == ["0", "1", "3", "2", "4"]
    assert len(labels(scene, 0, "padding")) == 0
    assert sum(cell.kind == "padding" and cell.rank == 0 for cell in scene.cells) == 1
    assert "each rank sends 24 bytes" in scene.words
    lit = [mark for mark in scene.marks if isinstance(mark, Line) and mark.tone == "lit"]
    brackets = [mark for mark in scene.marks if isinstance(mark, Line) and mark.tone == "ink" and len(mark.points) == 4]
    assert (len(lit), len(brackets)) == (2, 3)  # two groups, and the sample in the legend

    arrows = [m for m in draw(unshuffle(parse(SPECS[0])), step=7).scene.marks if isinstance(m, Line) and m.arrow]
    assert len(arrows) == 4 * 2 + 1  # elements 2 and 3 change places on four ranks


def test_colour_stays_with_the_rank_that_held_an_element_first() -> None:
    picture = draw(unshuffle(parse(SPECS[0])))
    hues = {cell.span: cell.hue for cell in picture.scene.cells if cell.span}
    assert hues == {(0, 1): 0, (1, 2): 0, (3, 4): 1, (2, 3): 2, (4, 5): 3}
    assert all(hues[cell.span] == cell.hue for frame in picture.frames for cell in frame.scene.cells if cell.span)


def test_past_eight_hues_the_rank_is_printed() -> None:
    story = unshuffle(parse("[18] on dp=9: S(0)"))
    scene = draw(story, step=len(story.steps) - 1).scene
    assert {cell.note for cell in scene.cells if cell.rank == 0 and cell.span} == {"", *(f"r{rank}" for rank in range(1, 9))}


def test_replicas_say_so_and_share_a_hue() -> None:
    scene = draw(layout(parse(SPECS[8]))).scene
    assert [f"same as rank {rank}" in scene.words for rank in range(5)] == [True, True, True, True, False]
    assert {cell.hue for cell in scene.cells if cell.rank in (0, 4) and cell.span} == {0}


def test_a_pending_sum_is_a_stack_and_no_replica() -> None:
    scene = draw(layout(parse(SPECS[7]))).scene
    cells = [cell for cell in scene.cells if cell.span and cell.rank >= 0]
    assert {cell.kind for cell in cells} == {"addend"}
    assert len({cell.hue for cell in cells}) == 4
    assert "addend 2 of 4 over dp (sum)" in scene.words
    assert "same as" not in scene.words
    sheets = [mark for mark in scene.marks if isinstance(mark, Box) and mark.fill == "surface"]
    assert len(sheets) >= 4 * 4


def test_many_elements_are_runs_and_one_row_is_still_seen() -> None:
    picture = draw(layout(parse(SPECS[4])))
    assert labels(picture.scene, 0) == ["0-6282"]
    pads = [c for c in draw(unshuffle(parse(SPECS[4])), step=1).scene.cells if c.kind == "padding" and c.rank >= 0]
    assert [pad.rank for pad in pads] == [3, 7]
    assert min(pad.width for pad in pads) >= 3


def disagreeing() -> tuple[list[Buffer], list[Report]]:
    spec = parse(SPECS[1])
    held = list(start(layout(spec)))
    reports = [
        Report(rank, buffer.shape, tuple(runs[0][0] if runs else 9 for runs in buffer.axes)) for rank, buffer in enumerate(held)
    ]
    reports[6], reports[7] = Report(6, (1,), (8,)), Report(7, (0,), (9,))
    return held, reports


def test_disagreement_is_red_and_in_words() -> None:
    held, reports = disagreeing()
    source = Source("held", 8, "gloo", "2.13.0", ("cpu",) * 8, "fsdp2-over-tp")
    picture = draw_layout(parse(SPECS[1]), held, source, reports)
    red = [mark for mark in picture.scene.marks if getattr(mark, "tone", "") == "red" or getattr(mark, "stroke", "") == "red"]
    assert [mark.text for mark in red if isinstance(mark, Text)] == [
        "holds nothing; torch reports row 8",
        "holds row 8; torch reports nothing",
    ]
    assert "held by 8 gloo ranks, torch 2.13.0, made by FSDP2 over TP" in picture.scene.words
    assert "rank 6 holds nothing; torch reports row 8" in picture.text
    assert len([mark for mark in picture.scene.marks if isinstance(mark, Box) and mark.stroke == "ink"]) == 6 + 1


def test_agreement_has_no_red() -> None:
    story = unshuffle(parse(SPECS[0]))
    reports = tuple(
        Report(rank, buffer.shape, tuple(runs[0][0] for runs in buffer.axes))
        for rank, buffer in zip(story.ranks, story.held, strict=True)
    )
    picture = draw_held(dataclasses.replace(story, reported=reports))
    assert not [m for m in picture.scene.marks if getattr(m, "tone", "") == "red" or getattr(m, "stroke", "") == "red"]
    assert "the same" in {row[-1] for row in picture.table.rows}


def test_disagreement_among_many_ranks_is_marked_and_counted() -> None:
    spec = parse("[512] on dp=8, tp=8: _S(0, 8), S(0)")
    held = start(layout(spec))
    reports = [Report(rank, (8,), (0,)) for rank in range(64)]
    picture = draw_layout(spec, held, Source("held", 64, "gloo", "2.13.0"), reports)
    inside(picture.scene)
    assert "rank 1 holds rows 64-71; torch reports rows 0-7" in picture.scene.words
    assert "and 51 ranks more on which report and reality part" in picture.scene.words


def test_a_wrong_result_is_marked() -> None:
    story = unshuffle(parse(SPECS[0]))
    scene = draw(dataclasses.replace(story, steps=story.steps[:-1])).scene  # it stops before the unshuffle
    assert "wrong on 4 ranks: outlined slots hold other elements" in scene.words
    assert "What 4 ranks make of 5 elements" in scene.words


def test_unknown_slots_are_drawn_as_such() -> None:
    spec = parse("[4] on dp=1: S(0)")
    buffer = Buffer((), (4,), cells=((0, 1), (-2, -1), (3, 4), (1, 2)))
    scene = draw_layout(spec, [buffer], Source("held", 1, "gloo", "2.13.0")).scene
    assert "?" in [cell.label for cell in scene.cells if cell.kind == "unknown" and cell.rank == 0]
    inside(scene)


def test_many_ranks_are_represented_and_the_rest_counted() -> None:
    picture = draw(unshuffle(parse(SPECS[18])))
    assert "1,008 more ranks" in picture.scene.words
    assert "8 have 976,499 each" in picture.scene.words
    assert len(picture.text) < 50_000
    assert "ranks are not listed" in picture.text
