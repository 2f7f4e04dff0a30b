"""The index lens: from a global element to the ranks that hold it, and back."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardviz.core.errors import SpecError
from shardviz.core.layout import layout
from tests import oracle
from tests.core.cases import cases, listed, make_spec


@given(cases())
@settings(max_examples=60)
def test_owners_are_the_places_where_an_element_lies(case):
    found = layout(case.spec)
    places = {}
    for held in found:
        lists = [listed(runs) for runs in held.runs]
        local = itertools.product(*(range(len(items)) for items in lists))
        for flat, (local_index, index) in enumerate(zip(local, itertools.product(*lists), strict=True)):
            places.setdefault(index, []).append((held.rank, held.coordinate, local_index, flat))
    elements = list(itertools.product(*map(range, case.shape)))
    for index in elements[:: max(1, len(elements) // 20)]:
        assert [(o.rank, o.coordinate, o.local_index, o.flat) for o in found.owners(index)] == places[index]


@given(cases(), st.data())
def test_owners_and_global_index_are_inverse(case, data):
    found = layout(case.spec)
    for held in found:
        if held.numel:
            local = tuple(data.draw(st.integers(0, size - 1)) for size in held.shape)
            index = found.global_index(held.rank, local)
            assert [o.local_index for o in found.owners(index) if o.rank == held.rank] == [local]


@given(cases())
@settings(max_examples=30)
def test_flat_positions_count_up_through_a_local_tensor(case):
    found = layout(case.spec)
    held = found.ranks[-1]
    flat = [
        next(o.flat for o in found.owners(found.global_index(held.rank, local)) if o.rank == held.rank)
        for local in itertools.islice(itertools.product(*map(range, held.shape)), 50)
    ]
    assert flat == list(range(len(flat)))
    assert len(oracle.cells(case.shape, [listed(runs) for runs in held.runs])) == held.numel


def test_elements_that_do_not_exist_are_refused_with_the_shape():
    found = layout(make_spec((5,), (2, 2), [("SS", 0, 2), ("S", 0)]))
    with pytest.raises(SpecError, match=r"the global tensor has shape \(5,\), so there is no element \(5,\)"):
        found.owners((5,))
    with pytest.raises(SpecError, match=r"no element \(-1,\)"):
        found.owners((-1,))
    with pytest.raises(SpecError, match=r"no element \(0, 0\)"):
        found.owners((0, 0))
    with pytest.raises(SpecError, match=r"the local tensor of rank 3 has shape \(1,\), so there is no element \(1,\)"):
        found.global_index(3, (1,))
    with pytest.raises(SpecError, match="rank 4 is not in the mesh, whose ranks are 0-3"):
        found.global_index(4, (0,))
