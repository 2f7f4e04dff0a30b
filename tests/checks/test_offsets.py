"""`corrected_offsets`: right answers inside, torch's own outside, whatever happens in between."""

import threading

import pytest
import torch
from torch.distributed.tensor import Shard
from torch.distributed.tensor import _utils as torch_utils
from torch.distributed.tensor.placement_types import _StridedShard

from shardviz.checks.checkpoints.offsets import corrected_offsets
from shardviz.core.errors import TorchError
from shardviz.core.layout import layout
from shardviz.core.spec import Spec

NINE = Spec((9,), {"dp": 4, "tp": 2}, "_S(0, 2), S(0)")
OWN = torch_utils._compute_local_shape_and_global_offset


def answers(**more):
    placements = [_StridedShard(0, split_factor=2), Shard(0)]
    compute = torch_utils._compute_local_shape_and_global_offset
    return [compute((9,), (4, 2), list(coordinate), placements, **more) for coordinate in NINE.mesh.coordinates]


def right():
    return [(held.shape, held.offset) for held in layout(NINE)]


def test_answers_are_right_inside_and_torchs_own_outside():
    wrong = answers()
    assert wrong != right()
    with corrected_offsets():
        assert answers() == right()
        assert answers(skip_offset=True) == [(shape, ()) for shape, _ in right()]
    assert answers() == wrong
    assert torch_utils._compute_local_shape_and_global_offset is OWN


def test_coordinates_may_be_asked_for_one_by_one():
    with corrected_offsets():
        compute = torch_utils._compute_local_shape_and_global_offset
        assert compute((9,), (4, 2), [3, 1].__getitem__, [_StridedShard(0, split_factor=2), Shard(0)]) == ((1,), (8,))


@pytest.mark.parametrize("placements", [[Shard(0), Shard(0)], [_StridedShard(0, split_factor=3), Shard(1)]])
def test_where_no_order_is_told_torchs_own_answer_stands(placements):
    coordinates = [[row, column] for row in range(4) for column in range(2)]
    own = [OWN((9, 4), (4, 2), coordinate, placements) for coordinate in coordinates]
    with corrected_offsets():
        compute = torch_utils._compute_local_shape_and_global_offset
        assert [compute((9, 4), (4, 2), coordinate, placements) for coordinate in coordinates] == own


def test_torchs_function_is_back_after_an_error():
    with pytest.raises(KeyError), corrected_offsets():
        raise KeyError
    assert torch_utils._compute_local_shape_and_global_offset is OWN


def test_blocks_may_be_nested_and_overlap_between_threads():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with corrected_offsets():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with corrected_offsets():
        with corrected_offsets():
            thread.start()
            assert inside.wait(10)
        assert answers() == right()
    assert answers() == right()  # the other thread is still inside
    leave.set()
    thread.join()
    assert torch_utils._compute_local_shape_and_global_offset is OWN


def test_a_torch_without_the_function_is_named(monkeypatch):
    monkeypatch.delattr(torch_utils, "_compute_local_shape_and_global_offset")
    with pytest.raises(TorchError, match=rf"torch {torch.__version__.replace('+', '.')} has no"), corrected_offsets():
        pass
    monkeypatch.undo()
    with corrected_offsets():
        assert answers() == right()
