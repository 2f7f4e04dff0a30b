"""Reconstruction by other methods, the story of a split, and the explicit order."""

import itertools
from collections import Counter

import pytest
from hypothesis import given

from shardviz.core.errors import ReadingError, SpecError
from shardviz.core.layout import layout, local_shape_and_offset
from shardviz.core.order import explicit_order
from shardviz.core.spec import Spec, parse
from shardviz.core.split import split
from shardviz.core.trace import start, whole_buffer
from shardviz.core.unshuffle import unshuffle
from tests import oracle
from tests.core.cases import cases, decodable_cases, listed


def fsdp_over_tp(n, dp, tp):
    return parse(f"[{n}] on dp={dp}, tp={tp}: _S(0, {tp}), S(0)")


def with_holes(runs):
    """A list of indices with None for padding."""
    return [item for run in runs for item in (range(*run) if run[0] >= 0 else [None] * (run[1] - run[0]))]


def test_torch_28_does_what_its_description_says(count):
    outcomes = Counter()
    for dp, tp, n in itertools.product((1, 2, 3, 4, 8), (2, 3, 4), range(1, 65)):
        told, right = unshuffle(fsdp_over_tp(n, dp, tp), "torch-2.8"), oracle.torch_28(n, dp, tp)
        if right is None:
            assert "different amounts" in told.end
            outcomes["unequal"] += 1
            continue
        assert not told.end
        assert all(with_holes(buffer.axes[0]) == right for buffer in told.result), told.spec
        assert told.right == (right == list(range(n)))
        outcomes["right" if told.right else "wrong"] += 1
    count(f"torch 2.8 replayed: {outcomes.total()} cases, {dict(outcomes)}")
    assert outcomes == {"right": 507, "wrong": 384, "unequal": 69}


@pytest.mark.parametrize(
    ("n", "returned"),
    [(2, [0, None]), (6, [0, 1, 2, None, 3, 5]), (10, [0, 1, 2, 3, 4, None, 5, 6, 8, 9]), (9, list(range(9)))],
)
def test_torch_28_as_the_release_itself_was_seen_to_do(n, returned):
    story = unshuffle(fsdp_over_tp(n, 2, 2), "torch-2.8")
    assert with_holes(story.result[0].axes[0]) == returned
    first_wrong = story.wrong_from
    assert (first_wrong is None) == story.right
    assert first_wrong is None or story.steps[first_wrong].name == "keep the believed row"


def test_torch_28_is_told_for_other_dimensions_and_beside_replicas():
    story = unshuffle(parse("[4, 6] on rep=2, dp=2, tp=2: R, _S(1, 2), S(1)"), "torch-2.8")
    assert with_holes(story.result[0].axes[1]) == [0, 1, 2, None, 3, 5]
    assert with_holes(story.result[0].axes[0]) == [0, 1, 2, 3]


@pytest.mark.parametrize("placements", ["S(0), S(0)", "_S(0, 3), S(0)", "S(0), R", "S(0), S(1)", "P, S(0)"])
def test_torch_28_is_refused_where_it_is_not_defined(placements):
    with pytest.raises(SpecError, match=r"such as \[6\] on dp=2, tp=2: _S\(0, 2\), S\(0\)"):
        unshuffle(Spec((6, 6), {"dp": 2, "tp": 2}, placements), "torch-2.8")


def test_an_unknown_method_names_the_known():
    with pytest.raises(SpecError, match=r"exact, reverse-order, torch-2\.8"):
        unshuffle(fsdp_over_tp(5, 2, 2), "magic")


@given(decodable_cases())
def test_reverse_order_needs_no_unshuffle_and_ends_right(case):
    story = unshuffle(case.spec, "reverse-order")
    assert story.right
    assert story.wrong_from is None
    assert "unshuffle" not in [step.name for step in story.steps]


def test_reverse_order_needs_an_order():
    with pytest.raises(ReadingError, match="factors that would fit: 1"):
        unshuffle(parse("[8] on tp=2: _S(0, 2)"), "reverse-order")


@given(cases())
def test_a_split_goes_from_the_whole_to_the_layout(case):
    story = split(case.spec)
    assert all(buffer == whole_buffer(case.spec.shape) for buffer in story.steps[0].buffers)
    assert story.result == start(layout(case.spec))
    assert not any(sum(step.bytes) for step in story.steps)


@given(decodable_cases())
def test_the_explicit_order_carried_out_from_left_to_right_gives_the_layout(case):
    order = explicit_order(case.spec)
    assert sorted(mesh_dim for mesh_dim, _ in order.flat) == list(range(case.spec.mesh.ndim))
    held = [[list(range(size)) for size in case.shape] for _ in case.spec.mesh.ranks]
    for mesh_dim, placement in order.flat:
        for coordinate, lists in zip(case.spec.mesh.coordinates, held, strict=True):
            if hasattr(placement, "dim"):
                lists[placement.dim] = oracle.chunks(lists[placement.dim], case.sizes[mesh_dim])[coordinate[mesh_dim]]
    assert held == [[listed(runs) for runs in rank.runs] for rank in layout(case.spec)]


@pytest.mark.parametrize(
    ("placements", "flat"),
    [
        ("S(0), _S(0, 2), S(0)", [0, 2, 1]),
        ("_S(0, 2), S(0), S(0)", [1, 0, 2]),
        ("_S(0, 4), _S(0, 2), S(0)", [2, 1, 0]),
        ("R, _S(0, 2), S(0)", [0, 2, 1]),
        ("_S(0, 2), S(1), S(0)", [1, 2, 0]),
        ("S(0), S(1), S(0)", [0, 1, 2]),
    ],
)
def test_the_explicit_order_as_a_flat_list(placements, flat):
    order = explicit_order(Spec((8, 8), {"a": 2, "b": 2, "c": 2}, placements))
    assert [mesh_dim for mesh_dim, _ in order.flat] == flat
    assert not any("_S" in str(placement) for _, placement in order.flat)


@given(cases())
def test_shape_and_offset_of_one_rank_are_those_of_the_layout(case):
    for rank in layout(case.spec):
        assert local_shape_and_offset(case.spec, rank.coordinate) == (rank.shape, rank.offset)


def test_a_coordinate_outside_the_mesh_is_refused():
    with pytest.raises(SpecError, match=r"no coordinate \(2, 0\)"):
        local_shape_and_offset(fsdp_over_tp(5, 2, 2), (2, 0))
