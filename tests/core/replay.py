"""A predicted story beside the oracle's: the same operations, buffers, groups and bytes."""

import math

from shardviz.core.unshuffle import ITEMSIZE
from tests import oracle
from tests.core.cases import listed

NAMES = {"start": "local", "pad": "pad", "gather": "all-gather", "unpad": "unpad", "unshuffle": "unshuffle"}


def assert_story_is_right(story, case, held):
    """Every step agrees with the simulation on lists, and every rank ends with the whole tensor in order."""
    events = list(oracle.reconstruction(case.shape, case.sizes, case.placements, held))
    assert [step.name.split()[0] for step in story.steps] == [NAMES.get(e.what, "all-reduce") for e in events]
    for step, event in zip(story.steps, events, strict=True):
        for buffer, (at, right) in zip(step.buffers, event.buffers.items(), strict=True):
            assert [listed(runs) for runs in buffer.axes] == right, (step.name, at)
            assert buffer.shape == tuple(map(len, right))
        if event.what == "gather":
            assert step.bytes == tuple(ITEMSIZE * elements for elements in event.sent.values())
            groups = {tuple(oracle.group_of(case.sizes, at, step.mesh_dim)) for at in event.buffers}
            coordinates = story.spec.mesh.coordinate
            assert {tuple(coordinates(rank) for rank in group) for group in step.groups} == groups
    assert [listed(runs) for runs in story.result[-1].axes] == [list(range(size)) for size in case.shape]
    assert not any(buffer.pending for buffer in story.result)
    assert story.right
    assert math.prod(story.result[0].shape) == math.prod(case.shape)
