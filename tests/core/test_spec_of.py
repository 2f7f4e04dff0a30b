"""A live DTensor as a spec: attributes are read, torch is not needed (the stand-ins here have its attributes alone)."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from shardviz.core.errors import SpecError
from shardviz.core.spec import Spec, parse


class Shard:
    def __init__(self, dim):
        self.dim = dim


class _StridedShard(Shard):
    def __init__(self, dim, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor


class Replicate:
    pass


class Partial:
    reduce_op = "avg"


class ShardOrderEntry(NamedTuple):
    tensor_dim: int
    mesh_dims: tuple


def dtensor(shape, ranks, names, placements, order=None):
    mesh = SimpleNamespace(mesh=np.array(ranks), mesh_dim_names=names)
    spec = SimpleNamespace(shard_order=order)
    return SimpleNamespace(shape=shape, device_mesh=mesh, placements=placements, _spec=spec)


def test_placements_and_names_are_read():
    found = Spec.of(dtensor((5, 3), [[0, 1], [2, 3]], ("dp", "tp"), (_StridedShard(0, 2), Shard(0))))
    assert found == parse("[5, 3] on dp=2, tp=2: _S(0, 2), S(0)")
    found = Spec.of(dtensor((5, 3), [[0, 1], [2, 3]], ("dp", "tp"), (Replicate(), Partial())))
    assert found == parse("[5, 3] on dp=2, tp=2: R, P(avg)")


def test_a_sub_mesh_keeps_its_ranks_and_an_unnamed_one_gets_names():
    found = Spec.of(dtensor((5,), [4, 6], None, (Shard(0),)))
    assert str(found) == "[5] on dim0=2 (ranks 4, 6): S(0)"


def test_the_order_that_torch_keeps_beside_the_placements_is_read():
    order = (ShardOrderEntry(0, (1, 0)),)  # tp cuts first, which plain placements alone do not say
    found = Spec.of(dtensor((5,), [[0, 1], [2, 3]], ("dp", "tp"), (Shard(0), Shard(0)), order))
    assert found == parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")


def test_the_usual_order_changes_nothing():
    order = (ShardOrderEntry(0, (0, 1)),)
    found = Spec.of(dtensor((5,), [[0, 1], [2, 3]], ("dp", "tp"), (Shard(0), Shard(0)), order))
    assert found == parse("[5] on dp=2, tp=2: S(0), S(0)")


def test_what_is_no_dtensor_is_refused():
    with pytest.raises(SpecError, match="a DTensor was expected"):
        Spec.of(np.zeros(3))
