"""The mesh: coordinates, groups and ranks."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shardviz.core.mesh import Mesh
from tests import oracle

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(SIZES)
def test_ranks_count_through_the_coordinates_row_by_row(sizes):
    mesh = Mesh(sizes)
    assert mesh.coordinates == tuple(itertools.product(*map(range, sizes)))
    assert [mesh.coordinate(rank) for rank in mesh.ranks] == list(mesh.coordinates)
    assert mesh.ranks == tuple(range(mesh.size))


@given(SIZES, st.integers(0, 3), st.integers(0, 9))
def test_a_group_differs_in_one_mesh_dimension_alone(sizes, mesh_dim, first):
    mesh_dim %= len(sizes)
    size = Mesh(sizes).size
    mesh = Mesh(sizes, ranks=range(first + size - 1, first - 1, -1))
    groups = mesh.groups(mesh_dim)
    assert sorted(rank for group in groups for rank in group) == sorted(mesh.ranks)
    for group in groups:
        members = oracle.group_of(sizes, mesh.coordinate(group[0]), mesh_dim)
        assert [mesh.coordinate(rank) for rank in group] == members


def test_sizes_alone_get_names():
    assert Mesh([2, 3]).names == ("dim0", "dim1")
    assert Mesh([2, 3]) == Mesh({"dim0": 2, "dim1": 3})


def test_ranks_in_words():
    assert Mesh([3]).ranks_text() == "0-2"
    assert Mesh([4], ranks=[4, 5, 6, 9]).ranks_text() == "4-6, 9"
    assert Mesh([3], ranks=[2, 1, 0]).ranks_text() == "2, 1, 0"
