"""Nothing costs time or memory that grows with the number of elements."""

import time
import tracemalloc

import pytest

from shardviz.core.compare import compare
from shardviz.core.errors import SpecError
from shardviz.core.files import from_json, to_json
from shardviz.core.layout import READINGS, layout
from shardviz.core.spec import Spec, parse
from shardviz.core.unshuffle import unshuffle

HUGE = 10**12


@pytest.mark.parametrize("reading", ["auto", *READINGS])
def test_a_layout_of_a_million_million_elements_is_a_few_runs(reading):
    tracemalloc.start()
    began = time.perf_counter()
    found = layout(parse(f"[{HUGE + 7}] on dp=4, tp=3: _S(0, 3), S(0)"), reading)
    seconds = time.perf_counter() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(held.numel for held in found) == HUGE + 7
    assert seconds < 1
    assert peak < 1_000_000


def test_the_lens_finds_an_element_among_a_million_million():
    found = layout(parse(f"[{HUGE}, 3] on dp=4, tp=3: _S(0, 3), S(0)"))
    (owner,) = found.owners((HUGE - 1, 2))
    assert found.global_index(owner.rank, owner.local_index) == (HUGE - 1, 2)
    assert owner.flat == found[owner.rank].numel - 1


def test_a_story_of_a_million_million_elements_is_a_few_runs():
    story = unshuffle(parse(f"[{HUGE + 1}] on dp=4, tp=3: _S(0, 3), S(0)"))
    assert story.right
    assert len(to_json(story)) < 100_000
    assert from_json(to_json(story)) == story
    assert not compare(story, story)


def test_a_factor_larger_than_the_tensor_makes_no_empty_pieces():
    found = layout(Spec((3,), {"tp": 2}, f"_S(0, {HUGE})"))
    assert [held.runs for held in found] == [(((0, 3),),), ((),)]


def test_more_ranks_than_elements():
    found = layout(parse("[9] on dp=1024: S(0)"))
    assert [held.rank for held in found if held.numel] == list(range(9))
    assert {held.offset for held in found.ranks[9:]} == {(9,)}


def test_a_strided_cut_into_more_pieces_than_can_be_described_is_refused():
    with pytest.raises(SpecError, match="at most 65536 can be described"):
        layout(parse("[1000000000] on tp=4: _S(0, 20000000)"))
