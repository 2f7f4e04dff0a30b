"""`corrected_offsets`: right answers inside, torch's own outside, and every element through a save and a load on real ranks."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed import _state_dict_utils
from torch.distributed.checkpoint import planner_helpers, state_dict, state_dict_saver
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import _utils as torch_utils

from shardviz.checks.checkpoints.offsets import corrected_offsets
from shardviz.core.errors import SpecError, TorchError
from tests.checks import programs

METHODS = ("__create_write_items__", "__create_chunk_list__", "__get_tensor_shard__")
EXECUTORS = ("_ThreadBasedAsyncCheckpointExecutor", "_ProcessBasedAsyncCheckpointExecutor")
REPLACED = [
    *((DTensor, name) for name in METHODS),
    *((state_dict_saver, name) for name in EXECUTORS),
    (_state_dict_utils, "_distribute_tensors"),
    (state_dict, "_distribute_state_dict"),
    (dcp.HuggingFaceStorageWriter, "write_data"),
]
OWN = [vars(owner)[name] for owner, name in REPLACED]


def undone():
    return [vars(owner)[name] is own for (owner, name), own in zip(REPLACED, OWN, strict=True)]


def test_torchs_functions_are_replaced_inside_and_its_own_outside():
    with corrected_offsets():
        assert not any(undone())
        # nothing else in torch is touched
        assert planner_helpers.compute_local_shape_and_global_offset is torch_utils.compute_local_shape_and_global_offset
    assert all(undone())


def test_torchs_functions_are_back_after_an_error():
    with pytest.raises(KeyError), corrected_offsets():
        raise KeyError
    assert all(undone())


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
        assert not any(undone())
    assert not any(undone())  # the other thread is still inside
    leave.set()
    thread.join()
    assert all(undone())


def test_a_maker_that_does_not_exist_is_refused():
    with pytest.raises(SpecError, match="one of None, 'fsdp2', 'distribute_tensor'"), corrected_offsets("fsdp1"):
        pass
    assert all(undone())


def test_a_torch_without_a_function_is_named(monkeypatch):
    monkeypatch.delattr(planner_helpers, "_create_chunk_list")
    with pytest.raises(TorchError, match=rf"torch {torch.__version__.replace('+', '.')} has no"), corrected_offsets():
        pass
    monkeypatch.undo()
    with corrected_offsets():
        assert not any(undone())


@pytest.mark.parametrize(
    ("owner", "name", "function", "why"),
    [
        (_state_dict_utils, "_distribute_tensors", lambda state: None, "takes other arguments"),
        (planner_helpers, "_create_write_items", lambda name: None, "_create_write_items takes other"),
        (DTensor, "__create_chunk_list__", lambda self, more: None, "__create_chunk_list__ is missing, or takes other"),
    ],
)
def test_a_torch_with_other_insides_is_refused(monkeypatch, owner, name, function, why):
    monkeypatch.setattr(owner, name, function)
    with pytest.raises(TorchError, match=why), corrected_offsets():
        pass
    monkeypatch.undo()
    assert all(undone())


CASES = {
    "4x2-9": (8, "[9] on dp=4, tp=2: _S(0, 2), S(0)"),
    "3x2-7": (8, "[7] on dp=3, tp=2: _S(0, 2), S(0)"),
    "4x2-32001": (8, "[32001] on dp=4, tp=2: _S(0, 2), S(0)"),
    "4x2-50257": (8, "[50257] on dp=4, tp=2: _S(0, 2), S(0)"),
    "nested-9": (8, "[9] on a=2, b=2, c=2: _S(0, 4), _S(0, 2), S(0)"),
    "three-cuts-5": (8, "[5] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)"),
    "3x3-11": (9, "[11] on dp=3, tp=3: _S(0, 3), S(0)"),
    "3x3-20": (9, "[20] on dp=3, tp=3: _S(0, 3), S(0)"),
}
OTHERS = ("on dp=2, tp=2: _S(0, 2), S(0)", "on dp=3, tp=2: _S(0, 2), S(0)", "on dp=8, tp=1: S(0), S(0)")


@pytest.fixture(scope="module")
def trips(eight_ranks, nine_ranks, tmp_path_factory):
    """Every case saved with corrected offsets and loaded in every way; its directory and what its ranks found."""
    place = tmp_path_factory.mktemp("corrected")
    found: dict[str, tuple[Path, list[dict[str, object]]]] = {}
    for name, (count, text) in CASES.items():
        ranks = nine_ranks if count == 9 else eight_ranks
        others = [f"{text.partition(' ')[0]} {other}" for other in OTHERS if other not in text]
        found[name] = place / name, ranks.apply(programs.corrected_trip, str(place / name), text, others, timeout=60)
    return found


@pytest.mark.ranks
@pytest.mark.parametrize("name", CASES)
def test_every_element_is_saved_and_loaded(trips, name):
    """Parameters and AdamW's state, into the same layout and onto other meshes, and by a broadcast."""
    done: set[str] = set()
    for found in trips[name][1]:
        done |= found.keys()
        assert {what: wrong for what, wrong in found.items() if wrong and what != "plain"} == {}
    assert ("broadcast" in done) == (name != "3x2-7")  # torch broadcasts over all ranks, and two of eight are not in the mesh
    assert all(any(other in what for what in done) for other in OTHERS)


@pytest.mark.ranks
@pytest.mark.parametrize("name", CASES)
def test_torch_alone_raises_where_it_reports_another_shape(trips, name):
    """Where it reports the right shapes at wrong offsets, as for these nested strides, it loads other rows without a word."""
    ends = [found["plain"] for found in trips[name][1]]
    assert all(end == (["model.one", "model.two"] if name == "nested-9" else "raises") for end in ends)


@pytest.mark.ranks
def test_a_program_of_plain_torch_loads_them_in_full_and_with_tensor_parallelism(trips, tmp_path):
    directories = [str(directory) for directory, _ in trips.values()]
    program = [sys.executable, str(Path(__file__).with_name("plain_load.py")), str(tmp_path / "store"), *directories]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(program, capture_output=True, text=True, timeout=100, env=environment)
    assert (run.returncode, run.stdout.split("\n")[:-1]) == (0, [f"loaded {directory}" for directory in directories]), (
        run.stderr
    )


@pytest.mark.ranks
def test_a_shard_of_another_shape_is_not_saved(eight_ranks, tmp_path):
    ends = eight_ranks.apply(programs.save_a_wrong_shard, str(tmp_path / "ck"), CASES["4x2-9"][1], timeout=60)
    assert all(
        "'t' is neither saved nor loaded" in end and "should hold the shape (1,), and it holds (0,)" in end for end in ends
    )
    assert not (tmp_path / "ck" / ".metadata").exists()
