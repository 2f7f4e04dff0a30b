"""One element in words, what a rank was guessed to hold, and how a story ends: against the definitions."""

from itertools import product

import pytest

from shardviz.core.errors import ReadingError, SpecError
from shardviz.core.following import beside, index_text, read_element, whereabouts
from shardviz.core.guessing import judge
from shardviz.core.layout import layout
from shardviz.core.outcome import outcome
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import parse
from shardviz.core.unshuffle import METHODS, unshuffle

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
MATRIX = "[3, 4] on dp=2, tp=2: S(0), S(1)"


@pytest.mark.parametrize("text", [FIVE, MATRIX, "[6] on dp=2, tp=2: R, P(sum)", "[2, 2, 3] on dp=2: S(2)"])
def test_what_is_typed_is_the_element_and_a_place_on_a_rank_is_too(text):
    held = layout(text)
    for index in product(*map(range, held.spec.shape)):
        assert read_element(index_text(index), held) == index
        for owner in held.owners(index):
            assert read_element(f"rank {owner.rank}: {index_text(owner.local_index)}", held) == index


@pytest.mark.parametrize(
    ("text", "typed", "message"),
    [
        (FIVE, "77", "no element 77: the elements are 0 to 4"),
        (FIVE, "x", "'x': an element is 1 number, such as 0"),
        (FIVE, "1 2", "an element is 1 number"),
        (MATRIX, "3", "an element is 2 numbers, such as 0, 0"),
        (MATRIX, "1 2", "an element is 2 numbers"),
        (MATRIX, "3, 0", "no element 3, 0: its 2 indices are 0 to 2, 0 to 3"),
        (FIVE, "rank 9: 0", "rank 9 is not in the mesh"),
        (FIVE, "rank 3: 4", "the local tensor of rank 3 has shape"),
        ("[0] on dp=2: S(0)", "0", "the tensor has no elements"),
    ],
)
def test_what_is_no_element_says_why(text, typed, message):
    with pytest.raises(SpecError, match=message.replace("(", "\\(")):
        read_element(typed, layout(text))


def test_the_next_element_is_the_next_in_memory_and_stops_at_the_ends():
    assert [beside((i,), (3,), 1) for i in range(3)] == [(1,), (2,), (2,)]
    assert beside((1, 0), (3, 4), -1) == (0, 3)
    assert beside((0, 0), (3, 4), -1) == (0, 0)


def test_the_sentence_says_where_it_lies_at_the_start_and_now():
    told = unshuffle(FIVE)
    said = [whereabouts((2,), layout(FIVE), step, number) for number, step in enumerate(told.steps)]
    assert said[0] == "Element 2: rank 2 holds it at local index 0. After step 1 (local shards) it lies at index 0 on rank 2."
    assert said[6].endswith("After step 7 (unpad) it lies at index 3 on ranks 0-3.")
    assert said[7].endswith("After step 8 (unshuffle) it lies at index 2 on ranks 0-3.")


def test_an_element_that_is_lost_is_said_to_be():
    told = unshuffle("[6] on dp=2, tp=2: _S(0, 2), S(0)", "torch-2.8")
    said = whereabouts((4,), layout(told.spec), told.steps[-1], len(told.steps) - 1)
    assert said.endswith("it lies nowhere: it is lost.")


def test_replicas_and_addends_are_all_named():
    matrix = layout("[4, 2] on rep=2, dp=2: R, S(0)")
    told = unshuffle(matrix.spec)
    assert "ranks 1 3 hold it at local index (1, 1)" in whereabouts((3, 1), matrix, told.steps[0], 0)
    pending = "[6] on tp=2: P(sum)"
    assert "addends of it lie at index 5 on ranks 0 1" in whereabouts((5,), layout(pending), unshuffle(pending).steps[0], 0)


@pytest.mark.parametrize("text", [FIVE, MATRIX, "[9] on dp=4, tp=2: _S(0, 2), S(0)"])
def test_only_the_right_guess_is_all_right(text):
    spec = parse(text)
    held = layout(spec)
    for rank in spec.mesh.ranks:
        true = {_flat(index, spec.shape) for index in product(*(listed(runs) for runs in held[rank].runs))}
        assert judge(held, rank, true).sentence.startswith("All right.") or not true
        found = judge(held, rank, {0})
        assert set(found.right) == true & {0}
        assert set(found.missed) == true - {0}
        assert set(found.extra) == {0} - true


def test_large_tensors_are_not_guessed():
    with pytest.raises(SpecError, match="guessing goes up to 64"):
        judge(layout("[65] on dp=2: S(0)"), 0, ())


@pytest.mark.parametrize("size", range(1, 14))
@pytest.mark.parametrize("method", METHODS)
def test_the_outcome_counts_the_slots_that_are_wrong(size, method):
    try:
        told = unshuffle(f"[{size}] on dp=3, tp=2: _S(0, 2), S(0)", method)
    except ReadingError:
        return
    said = outcome(told)
    if told.end:
        assert said.startswith("It ended early")
        return
    wrong = [r for r, b in zip(told.ranks, told.result, strict=True) if _slots(b) != list(range(size))]
    if not wrong:
        assert said == "Every rank ends with the whole tensor, in order."
        return
    assert said.startswith(f"Wrong on {len(wrong)} of 6 ranks")
    got = _slots(told.result[told.ranks.index(wrong[0])])
    if len(got) == size:
        count = sum(a != b for a, b in zip(got, range(size), strict=True))
        assert f": {count} of the {size} slots of rank {wrong[0]}" in said


def test_a_redistribution_ends_where_it_should():
    assert outcome(redistribute(MATRIX, "R, S(1)")) == "Every rank ends with its part of the target."


def listed(runs):
    return [i for run in runs for i in range(*run)]


def _slots(buffer):
    return [i if start >= 0 else -1 for start, stop in buffer.flat_runs((0,)) for i in range(start, stop)]


def _flat(index, shape):
    flat = 0
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return flat
