"""Arithmetic of boxes against counting every element, and the picture of it."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardviz.checks.checkpoints.chunks import Box, box_text, coverage, intersection
from shardviz.core.errors import FileError
from shardviz.picture.scene import Box as Outline
from shardviz.picture.scene_chunks import ChunkMap, MappedChunk, draw_chunks


@st.composite
def boxes_in_a_shape(draw):
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=3)))
    corner = st.tuples(*(st.integers(0, size) for size in shape))
    pairs = draw(st.lists(st.tuples(corner, corner), max_size=7))
    boxes = []
    for one, other in pairs:
        low, high = tuple(map(min, one, other)), tuple(map(max, one, other))
        boxes.append(Box(low, tuple(b - a for a, b in zip(low, high, strict=True))))
    return shape, boxes


def counted(shape, boxes):
    count = np.zeros(shape, int)
    for box in boxes:
        count[tuple(slice(low, low + size) for low, size in zip(box.offset, box.size, strict=True))] += 1
    return count


@given(boxes_in_a_shape())
def test_coverage_is_what_counting_gives(case):
    shape, boxes = case
    count, found = counted(shape, boxes), coverage(shape, boxes)
    assert (found.missing, found.overlapping) == ((count == 0).sum(), (count > 1).sum())
    assert (counted(shape, found.gaps) == (count == 0)).all()
    assert (counted(shape, found.overlaps) == (count > 1)).all()


@given(boxes_in_a_shape())
def test_intersections_are_what_counting_gives(case):
    shape, boxes = case
    for one in boxes:
        for other in boxes:
            shared = intersection(one, other) if one.numel and other.numel else None
            expected = (counted(shape, [one]) * counted(shape, [other])).sum()
            assert (shared.numel if shared else 0) == expected


def test_a_grid_of_many_chunks_is_covered_fast():
    side, step = 200, 1 << 20
    grid = [Box((row * step, column * step), (step, step)) for row in range(side) for column in range(side)]
    begin = time.perf_counter()
    found = coverage((side * step, side * step), grid[1:])
    assert (found.missing, found.overlapping, found.gaps) == (step * step, 0, (Box((0, 0), (step, step)),))
    assert time.perf_counter() - begin < 5


def test_chunks_that_take_for_ever_are_refused():
    shape = (10_000,) * 4
    boxes = [Box((n, n, n, n), (9_000 - n,) * 4) for n in range(500)]
    with pytest.raises(FileError, match="too irregularly"):
        coverage(shape, boxes)


def test_a_box_in_words():
    assert box_text(Box((3, 0, 2), (1, 2, 3))) == "(3, 0-1, 2-4)"


def flagship(holds=None):
    """The facts of the map of nine elements saved on (4, 2); `holds`: what the last chunk holds."""
    sizes = [(0, 2, 0), (2, 2, 2), (4, 1, 4), (5, 1, 1), (6, 1, 3), (7, 1, 5)]
    chunks = [MappedChunk((low,), (size,), size, True, rank, f"__{rank}_0.distcp") for low, size, rank in sizes]
    chunks += [
        MappedChunk((8,), (1,), 0, False, 6, "__6_0.distcp"),
        MappedChunk((9,), (0,), 1, False, 7, "__7_0.distcp", holds),
    ]
    return ChunkMap("weight", (9,), "float32", tuple(chunks), (((8,), (1,)),), (), 1, 0)


def test_the_map_shows_what_is_missing_and_says_it():
    picture = draw_chunks([flagship()])
    spans = {cell.span: cell for cell in picture.scene.cells}
    assert sorted(spans) == [(0, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)]
    assert [spans[8, 9].kind, spans[7, 8].kind] == ["unknown", "element"]
    red = [mark for mark in picture.scene.marks if isinstance(mark, Outline) and mark.stroke == "red"]
    assert [(mark.x, mark.width) for mark in red] == [(spans[8, 9].x - 0.5, spans[8, 9].width + 1)]
    assert "1 of 9 elements missing; 2 of 8 chunks hold other than they promise" in picture.scene.words
    assert "chunk at 9: promises 0, stores 1 in __7_0.distcp" in picture.scene.words
    assert "at 8 size 1: promises 1, stores 0" in picture.text


def test_the_map_shows_where_a_lost_row_really_lies():
    picture = draw_chunks([flagship(holds=((8,), (1,)))])
    promised, real = (cell for cell in picture.scene.cells if cell.span == (8, 9))
    assert [(cell.kind, cell.rank) for cell in (promised, real)] == [("unknown", -1), ("element", 7)]
    assert promised.y + promised.height <= real.y
    assert "rank 7" in real.label
    assert "chunk at 9: promises 0, stores 1 in __7_0.distcp, which is 8" in picture.scene.words
    assert "rank 7 at 9 size 0: promises 0, stores 1 in __7_0.distcp, which is 8" in picture.text
    assert [row[5] for row in picture.table.rows] == [*[""] * 7, "8"]


def test_one_chunk_is_one_chunk():
    picture = draw_chunks([ChunkMap("x", (1,), "int8", (MappedChunk((0,), (1,), 1, True, 0, ""),), (), (), 0, 0)])
    assert "[1] int8, 1 chunk" in picture.scene.words.splitlines()


def test_a_whole_map_has_no_red():
    chunk = MappedChunk((0, 0), (4, 4), 16, True, 0, "")
    picture = draw_chunks([ChunkMap("x", (4, 4), "int8", (chunk,), (), (), 0, 0)])
    assert not [mark for mark in picture.scene.marks if "red" in (getattr(mark, "tone", ""), getattr(mark, "stroke", ""))]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 4), (50_257, 4096), (1, 1, 1, 1)])
def test_every_shape_can_be_drawn(shape):
    half = (math.ceil(shape[0] / 2), *shape[1:]) if shape else ()
    chunk = MappedChunk((0,) * len(shape), half, math.prod(half), True, 3, "f")
    picture = draw_chunks([ChunkMap("<b>", shape, "int8", (chunk,), (), (), 0, 0)])
    assert "&lt;b&gt;" in picture.svg()
    assert all(cell.width > 0 and cell.height > 0 for cell in picture.scene.cells)


def test_one_row_among_many_can_be_seen():
    rows = 50_257
    chunks = tuple(MappedChunk((low, 0), (size, 64), size * 64, True, 0, "") for low, size in ((0, 30_000), (30_001, 20_256)))
    picture = draw_chunks([ChunkMap("x", (rows, 64), "int8", chunks, (((30_000, 0), (1, 64)),), (), 64, 0)])
    gap = next(mark for mark in picture.scene.marks if isinstance(mark, Outline) and mark.stroke == "red")
    assert gap.height >= 5
