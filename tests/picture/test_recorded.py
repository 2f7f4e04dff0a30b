"""What stands on the picture of a recorded program: marks and words, never pixels."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from shardviz.core.recording import Call, Event, Participant, Piece, Recording
from shardviz.picture import draw
from shardviz.picture.scene import Box, Cell, Line, Scene, Text
from shardviz.picture.theme import text_width


def piece(*shape: int, values: tuple[float, ...] | None = None) -> Piece:
    return Piece(shape, "float32", 4, values)


def event(group: Sequence[int], number: int, name: str, at: float, *, missing: int | None = None, **about: object) -> Event:
    about = {"given": (piece(4),), "got": (piece(4),), "seconds": 0.004, "place": "train.py:9", **about}
    calls = [None if rank == missing else Call(name, at=at, **about) for rank in group]  # type: ignore[arg-type]
    return Event(tuple(group), str(group), number, tuple(calls))


def recording(events: Sequence[Event], ranks: int = 4, absent: tuple[int, ...] = (), **ends: str) -> Recording:
    joined = [rank for rank in range(ranks) if rank not in absent]
    people = tuple(Participant(rank, "node", "2.13.0", ends.get(f"r{rank}", "")) for rank in joined)
    return Recording("train.py", "gloo", people, tuple(events), absent)


def step() -> list[Event]:
    """FSDP2 over tensor parallelism: pairs across dp, pairs across tp, and all ranks at the end."""
    gather = {"reason": "FSDP2 gathers parameters", "given": (piece(20),), "got": (piece(40),)}
    move = {"reason": "redistribute P(sum) -> R", "reduction": "sum", "place": "train.py:31"}
    total = {"reduction": "sum", "given": (piece(1, values=(1.0,)),), "got": (piece(1, values=(4.0,)),), "place": "train.py:40"}
    return [
        event((1, 3), 0, "all_gather", 0.0, **gather),
        event((0, 2), 0, "all_gather", 0.001, **gather),
        event((0, 1), 0, "all_reduce", 0.01, **move),
        event((2, 3), 0, "all_reduce", 0.011, **move),
        event((0, 1, 2, 3), 0, "all_reduce", 0.02, **total),
    ]


def broken() -> Recording:
    """Ranks that call different things, one that never came, one that ended, and one without a record."""
    differing = event((0, 1, 2, 3), 0, "broadcast", 0.0, root=1)
    other = Call("all_reduce", (piece(5),), (), 0.0, reduction="sum")
    events = [
        replace(differing, calls=(*differing.calls[:3], other)),
        event((0, 1, 2, 3), 1, "barrier", 0.01, given=(), got=()),
        event((0, 1, 2, 3), 2, "all_reduce", 0.02, missing=2, got=(), seconds=None),
    ]
    return recording(events, 5, (4,), r1="ended with ValueError: the loss is not a number", r2="is cut short")


def long(ranks: int = 64, steps: int = 1000) -> list[Event]:
    kinds = ("all_gather", "all_reduce", "reduce_scatter", "all_reduce")
    reasons = ("FSDP2 gathers parameters", "redistribute P(sum) -> R", "FSDP2 reduces gradients", "")
    return [event(range(ranks), n, kinds[n % 4], n / 100, reason=reasons[n % 4]) for n in range(steps)]


def wide() -> list[Event]:
    """As much as is drawn one by one."""
    names = [f"redistribute S({n}), R -> R, S({n})" for n in range(24)]
    return [event(range(16), n, "reduce_scatter", n / 10, given=(piece(10**6, 4096),), reason=names[n]) for n in range(24)]


PICTURES = {
    "step": recording(step()),
    "broken": broken(),
    "wide": recording(wide(), 16),
    "wide-cut": recording(wide(), 16, r3="is cut short", r15="is cut short"),
    "one": recording([event((0,), 0, "barrier", 0.0, given=(), got=())], 1),
    "nothing": recording([]),
    "many-ranks": recording(long(64, 3), 64),
    "long": recording(long(8, 1500), 8, r2="is cut short"),
    "crowd": recording(long(300, 30), 300),
    "many-and-empty": recording([], 64),
}
SMALL = ["step", "broken", "wide", "wide-cut", "one", "nothing"]


def box_of(text: Text) -> tuple[float, float, float, float]:
    width = text_width(text.text, text.size, text.bold)
    left = text.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.anchor] * width
    return left, text.y - 0.75 * text.size, left + width, text.y + 0.2 * text.size


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_cut_off_and_no_texts_overlap(name: str) -> None:
    scene = draw(PICTURES[name]).scene
    texts = [box_of(mark) for mark in scene.marks if isinstance(mark, Text)]
    boxes = [(m.x, m.y, m.x + m.width, m.y + m.height) for m in scene.marks if isinstance(m, Cell | Box)]
    points = [(*point, *point) for mark in scene.marks if isinstance(mark, Line) for point in mark.points]
    for left, top, right, bottom in [*texts, *boxes, *points]:
        assert left >= 0
        assert top >= 0
        assert right <= scene.width + 0.5
        assert bottom <= scene.height
    for one, two in combinations(texts, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1], (one, two)
    assert all(mark.text.strip() for mark in scene.marks if isinstance(mark, Text))
    assert scene.width <= 1040.5


@pytest.mark.parametrize("name", SMALL)
def test_labels_fit_in_their_cells_and_texts_stay_off_cells(name: str) -> None:
    scene = draw(PICTURES[name]).scene
    assert all(text_width(cell.label, cell.size, True) <= cell.width for cell in scene.cells)
    lanes = [cell for cell in scene.cells if cell.rank >= 0]
    for left, top, right, bottom in (box_of(mark) for mark in scene.marks if isinstance(mark, Text)):
        assert not [c for c in lanes if left < c.x + c.width and c.x < right and top < c.y + c.height and c.y < bottom]


def labels(scene: Scene, rank: int) -> list[str]:
    return [cell.label for cell in sorted(scene.cells, key=lambda cell: (cell.y, cell.x)) if cell.rank == rank]


def test_like_collectives_of_several_groups_share_a_column() -> None:
    picture = draw(recording(step()))
    words = picture.scene.words.splitlines()
    assert words[:2] == ["5 collectives of train.py on 4 ranks", "recorded on 4 gloo ranks, torch 2.13.0"]
    assert {"1, 2", "3, 4", "5", "all_gather", "all_reduce", "float32 [20]", "sum of float32 [4]"} <= set(words)
    assert {"FSDP2 gathers parameters", "redistribute P(sum) -> R", "the program itself", "train.py:31"} <= set(words)
    assert len({cell.x for cell in picture.scene.cells if cell.rank >= 0}) == 3
    brackets = [mark for mark in picture.scene.marks if isinstance(mark, Line) and mark.tone == "ink" and len(mark.points) == 4]
    assert len(brackets) == 5 + 1  # one per group, and the sample in the legend


def test_every_rank_shows_what_went_in_and_came_out_with_bytes_and_time() -> None:
    scene = draw(recording(step())).scene
    for rank in range(4):
        assert labels(scene, rank) == ["[20] → [40]", "[4] → [4]", "1 → 4"]
    assert scene.words.splitlines().count("80 B · 4 ms") == 4


def test_a_rank_keeps_the_order_of_its_calls() -> None:
    pair = {"reason": "", "place": ""}
    ahead = [event((0, 1), n, name, n, **pair) for n, name in enumerate(("all_gather", "all_reduce", "all_gather"))]
    behind = [event((2, 3), n, name, n + 5, **pair) for n, name in enumerate(("all_reduce", "all_gather"))]
    scene = draw(recording([*ahead, *behind])).scene
    hues = {rank: [cell.hue for cell in scene.cells if cell.rank == rank] for rank in range(4)}
    assert hues == {0: [0, 2, 0], 1: [0, 2, 0], 2: [2, 0], 3: [2, 0]}
    assert {"1", "2, 4", "3, 5"} <= set(scene.words.splitlines())


def red(scene: Scene) -> list[str]:
    return [mark.text for mark in scene.marks if isinstance(mark, Text) and mark.tone == "red"]


def test_what_went_wrong_is_red_and_in_words() -> None:
    scene = draw(broken()).scene
    words = red(scene)
    assert words[:3] == [
        "rank 1 ended with ValueError: the loss is not a number",
        "rank 2 is cut short",
        "rank 4 left no record",
    ]
    assert words[3].startswith("1. different collectives on ranks 0–3: rank 3: all_reduce (sum) of float32 [5]; ranks 0, 1, 2")
    assert "3. all_reduce on ranks 0–3: no call of rank 2 was recorded" in words
    assert {"different calls", "rank 1 ended here", "rank 2's file ends here", "no call recorded"} <= set(words)
    assert labels(scene, 3)[0] == "all_reduce [5] →"
    assert [cell.rank for cell in scene.cells if cell.kind == "unknown" and cell.rank >= 0] == [3, 0, 1, 3]
    assert "no result seen" in scene.words


def test_a_right_recording_has_no_red() -> None:
    for name in ("step", "wide", "many-ranks", "crowd"):
        marks = draw(PICTURES[name]).scene.marks
        assert not [mark for mark in marks if "red" in (getattr(mark, key, "") for key in ("tone", "stroke", "fill"))]


def test_a_long_redistribution_is_parted_before_its_arrow() -> None:
    reason = "redistribute S(0), S(0), R, S(1) -> R, R, R, R"
    words = draw(recording([event((0, 1), 0, "all_gather", 0.0, reason=reason)], 2)).scene.words.splitlines()
    assert words[words.index("redistribute S(0), S(0), R, S(1)") + 1] == "-> R, R, R, R"


def test_text_and_table_say_the_same() -> None:
    picture = draw(broken())
    assert picture.text == broken().text
    assert picture.table.head == ("rank", "collectives", "sends", "time in collectives", "its record")
    assert picture.table.rows[2] == ("2", "2", "0 bytes", "8 ms", "is cut short")
    assert picture.table.rows[4][-1] == "left none"
    assert draw(PICTURES["crowd"]).table.rows[-1][:2] == ("…", "236 ranks are not listed")


def test_an_overview_counts_kinds_and_reasons_in_words() -> None:
    scene = draw(PICTURES["long"]).scene
    words = scene.words.splitlines()
    assert words[0] == "1,500 collectives of train.py on 8 ranks"
    assert words[words.index("all_reduce") + 1] == "750"
    assert words[words.index("redistribute P(sum) -> R") + 1] == "375"
    assert "rank 2 is cut short" in red(scene)
    assert len([mark for mark in scene.marks if isinstance(mark, Box) and mark.fill == "red"]) == 1
    assert "Each mark stands for 21 places" in " ".join(words)
    assert {cell.hue for cell in scene.cells if cell.rank == 5} == {0, 1, 2}


def test_an_overview_marks_what_went_wrong_where_it_did() -> None:
    events = long(20, 40)
    events[7] = event(range(20), 7, "all_reduce", 0.07, missing=3)
    scene = draw(recording(events, 20)).scene
    assert "went wrong" in red(scene)
    assert "8. all_reduce on ranks 0–19: no call of rank 3 was recorded" in red(scene)
    assert len([cell for cell in scene.cells if cell.rank == 3]) == 39


def test_ranks_that_have_no_lane_are_counted() -> None:
    assert "256 of 300 ranks are drawn, sampled evenly." in draw(PICTURES["crowd"]).scene.words.replace("\n", " ")


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_it_is_saved_as_any_picture(ending: str, tmp_path) -> None:
    for name in ("broken", "long"):
        assert draw(PICTURES[name]).save(tmp_path / f"{name}.{ending}").stat().st_size > 1000


def test_sixty_four_ranks_and_a_thousand_steps_draw_in_time() -> None:
    many = recording(long(), 64)
    began = time.process_time()  # a busy machine is no fault
    picture = draw(many)
    picture.png()
    assert time.process_time() - began < 9
    assert picture.text.endswith("… and 800 more")
