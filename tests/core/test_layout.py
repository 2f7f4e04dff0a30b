"""What each rank holds, against the oracle that lists every element."""

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given

from shardviz.core.errors import ReadingError
from shardviz.core.layout import READINGS, layout
from shardviz.core.order import cutting_order
from shardviz.core.spec import Spec
from tests import oracle
from tests.core.cases import cases, decodable_cases, listed, make_spec

RIGHT_ANSWERS = json.loads((Path(__file__).parent.parent / "data" / "layouts.json").read_text())


@pytest.mark.parametrize("case", RIGHT_ANSWERS, ids=[case["why"] for case in RIGHT_ANSWERS])
def test_known_layouts(case):
    spec = Spec(case["shape"], case["mesh"], case["placements"])
    found = [
        {"rank": r.rank, "coordinate": r.coordinate, "shape": r.shape, "offset": r.offset, "runs": r.runs}
        for r in layout(spec, case["reading"])
    ]
    assert json.loads(json.dumps(found)) == case["ranks"]


@given(cases())
def test_every_reading_holds_what_its_definition_says(case):
    for reading in ("auto", *READINGS):
        try:
            right = oracle.holdings(case.shape, case.sizes, case.placements, reading)
        except oracle.DoesNotApply:
            with pytest.raises(ReadingError):
                layout(case.spec, reading)
            continue
        for held in layout(case.spec, reading):
            assert [listed(runs) for runs in held.runs] == right[held.coordinate]


@given(cases())
def test_auto_knows_what_fsdp2_makes(case):
    right = oracle.holdings(case.shape, case.sizes, case.placements, by_fsdp2=True)
    for held in layout(make_spec(case.shape, case.sizes, case.placements, made_by="fsdp2")):
        assert [listed(runs) for runs in held.runs] == right[held.coordinate]


@given(cases())
def test_shape_and_offset_say_what_the_runs_say(case):
    for held in layout(case.spec):
        lists = [listed(runs) for runs in held.runs]
        assert held.shape == tuple(map(len, lists))
        assert held.offset == tuple(items[0] if items else size for items, size in zip(lists, case.shape, strict=True))
        assert held.numel == math.prod(held.shape)


@given(cases())
def test_runs_are_as_few_as_can_be(case):
    for held in layout(case.spec):
        for runs in held.runs:
            assert all(start < stop for start, stop in runs)
            assert all(one[1] != other[0] for one, other in pairwise(runs))


@given(cases())
def test_every_element_is_held_as_often_as_it_is_replicated(case):
    for reading in ("auto", "left-to-right"):
        seen = Counter()
        for held in layout(case.spec, reading):
            seen.update(oracle.cells(case.shape, [listed(runs) for runs in held.runs]))
        assert seen == dict.fromkeys(range(math.prod(case.shape)), case.copies)


@given(cases())
def test_negative_tensor_dimensions_count_from_the_last(case):
    assert case.spec_from_the_end() == case.spec
    assert layout(case.spec_from_the_end()) == layout(case.spec)


@given(cases())
def test_the_sharding_order_explains_every_split_factor(case):
    for dim in range(len(case.shape)):
        valid = {tuple(c.mesh_dim for c in order) for order in oracle.orders(oracle.cuts_of(case.sizes, case.placements, dim))}
        order = cutting_order(case.spec, dim)
        assert (order in valid) if valid else (order is None)


@given(decodable_cases())
def test_a_written_order_of_cutting_is_read_back(case):
    found = layout(case.spec)
    assert set(found.readings) <= {"sharding-order"}
    right = oracle.holdings(case.shape, case.sizes, case.placements, "sharding-order")
    assert [[listed(runs) for runs in held.runs] for held in found] == list(right.values())


@given(decodable_cases())
def test_outer_last_is_sharding_order_where_both_apply(case):
    try:
        found = layout(case.spec, "outer-last")
    except ReadingError:
        return
    assert found.ranks == layout(case.spec, "sharding-order").ranks


@given(decodable_cases())
def test_the_readings_agree_where_everything_divides(case):
    even = tuple(size * math.prod(case.sizes) for size in case.shape)
    spec = make_spec(even, case.sizes, case.placements)
    assert layout(spec, "left-to-right").ranks == layout(spec, "sharding-order").ranks


def test_size_one_mesh_dimensions_tie_and_the_first_place_wins():
    spec = make_spec((9,), (2, 1, 2), [("SS", 0, 2), ("S", 0), ("S", 0)])
    assert cutting_order(spec, 0) == (1, 2, 0)
    tied = make_spec((9,), (1, 1, 2), [("S", 0), ("S", 0), ("S", 0)])
    assert cutting_order(tied, 0) == (0, 1, 2)


def test_a_scalar_is_held_whole_by_every_rank():
    for held in layout(make_spec((), (2, 2), [("R",), ("P", "sum")])):
        assert (held.shape, held.offset, held.runs, held.numel) == ((), (), (), 1)


def test_ranks_of_a_sub_mesh_keep_their_numbers():
    spec = Spec((5,), {"dp": 2}, "S(0)")
    stage = Spec((5,), type(spec.mesh)({"dp": 2}, ranks=[6, 4]), "S(0)")
    found = layout(stage)
    assert [held.rank for held in found] == [6, 4]
    assert found[4].runs == layout(spec)[1].runs == (((3, 5),),)


def test_one_label_stands_for_two_layouts():
    nine = make_spec((9,), (4, 2), [("SS", 0, 2), ("S", 0)])
    assert [r.runs for r in layout(nine)][6:] == [((),), (((8, 9),),)]
    assert [r.runs for r in layout(nine, "left-to-right")][6:] == [(((8, 9),),), ((),)]


def test_the_text_says_who_holds_what():
    assert layout(make_spec((3, 2), (2,), [("S", 0)])).text.splitlines() == [
        "[3, 2] on a=2: S(0) (sharding-order)",
        "rank 0 (0,): 0 1 x 0 1",
        "rank 1 (1,): 2 x 0 1",
    ]
    assert "rank 3 (3,): nothing" in layout(make_spec((2,), (4,), [("S", 0)])).text


def test_a_layout_of_two_readings_names_both():
    spec = make_spec((8, 8), (2, 2), [("SS", 0, 3), ("S", 1)])
    assert layout(spec).reading == "left-to-right, sharding-order"


def test_a_label_that_stands_for_two_layouts_says_which_one_this_is_and_which_is_the_other():
    packed = Spec((8,), "dp=2, tp=2", "_S(0, 2), _S(0, 2)")
    for made_by, elements, here, other in [
        ("fsdp2", [[0, 1], [2, 3], [4, 5], [6, 7]], "outer-last", "left-to-right"),
        ("distribute_tensor", [[0, 4], [1, 5], [2, 6], [3, 7]], "left-to-right", "outer-last"),
        (None, [[0, 4], [1, 5], [2, 6], [3, 7]], "left-to-right", "outer-last"),
    ]:
        found = layout(packed.with_made_by(made_by))
        assert [[i for start, stop in rank.runs[0] for i in range(start, stop)] for rank in found] == elements
        assert f"read as {here} (" in found.text
        assert f"also stands for {other} (" in found.text
    assert "read as outer-last (" in layout(packed, "outer-last").note
    for one in ("[5] on dp=2, tp=2: _S(0, 2), S(0)", "[6] on tp=2: _S(0, 3)", "[2] on dp=2, tp=2: S(0), R"):
        assert layout(one).note == ""
