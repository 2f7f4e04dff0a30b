"""Whole programs, recorded: under torchrun, and on ranks of ours."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardviz.core.files import load
from shardviz.core.recording import Recording
from shardviz.ranks.cluster import Ranks

pytestmark = pytest.mark.ranks

# An MLP under FSDP2 over tensor parallelism, in a script that knows nothing of shardviz.
TRAIN = """
import os
import signal
import sys

import torch
import torch.distributed as dist
from helper_of_the_script import WIDTH  # the script's own directory must be importable, as Python itself makes it
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

assert __name__ == "__main__"
how = sys.argv[1]
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
model(torch.ones(3, WIDTH)).sum().backward()
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
if how == "kill" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if how == "raise" and dist.get_rank() == 1:
    raise ValueError("the loss is not a number")
dist.barrier()
dist.destroy_process_group()
"""
TOTAL_LINE = 1 + TRAIN.splitlines().index("dist.all_reduce(total)")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The training script, and beside it what it imports."""
    directory = tmp_path / "scripts"
    directory.mkdir()
    (directory / "helper_of_the_script.py").write_text("WIDTH = 4")
    (directory / "train.py").write_text(TRAIN)
    return directory / "train.py"


def torchrun(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", "-m", "shardviz.record", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def test_a_training_script_leaves_its_collectives(tmp_path, script):
    run = torchrun(tmp_path, str(script), "well")
    assert run.returncode == 0, run.stderr
    assert sorted(path.name for path in (tmp_path / "shardviz-record").iterdir()) == [f"rank-{r}.jsonl" for r in range(4)]
    recording = load(tmp_path / "shardviz-record")
    assert isinstance(recording, Recording)
    assert recording.right
    assert (recording.program, recording.ranks, recording.backend) == ("train.py", (0, 1, 2, 3), "gloo")
    reasons = {(event.name, event.first.reason, len(event.group)) for event in recording.events}
    assert ("all_gather", "FSDP2 gathers parameters", 2) in reasons
    assert ("reduce_scatter", "FSDP2 reduces gradients", 2) in reasons
    assert ("all_reduce", "redistribute P(sum) -> R", 2) in reasons
    assert all(event.seconds is not None for event in recording.events)
    (total,) = [event for event in recording.events if event.name == "all_reduce" and len(event.group) == 4]
    assert [call.given[0].values for call in total.calls if call] == [(0.0,), (1.0,), (2.0,), (3.0,)]
    assert [call.got[0].values for call in total.calls if call] == [(6.0,)] * 4
    assert total.first.place == f"train.py:{TOTAL_LINE}"
    gathered = next(event for event in recording.events if event.first.reason.startswith("FSDP2 gathers")).calls
    for one in gathered:  # read when it was waited for: at dispatch the memory is stale
        assert one is not None
        assert one.got[0].values == tuple(value for call in gathered if call for value in call.given[0].values or ())


@pytest.mark.parametrize(
    ("how", "end"), [("kill", "is cut short"), ("raise", "ended with ValueError: the loss is not a number")]
)
def test_a_script_that_breaks_leaves_what_was_recorded(tmp_path, script, how, end):
    run = torchrun(tmp_path, "--out", "kept", "--values", "0", str(script), how)
    assert run.returncode != 0
    recording = load(tmp_path / "kept")
    assert isinstance(recording, Recording)
    assert f"rank 1 {end}" in recording.text.splitlines()
    assert not recording.right
    assert recording.ranks == (0, 1, 2, 3)
    total = [event for event in recording.events if event.name == "all_reduce" and len(event.group) == 4]
    assert len(total) == 1
    assert total[0].first.given[0].values is None


def test_no_script_is_one_clear_sentence(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "shardviz.record", "nothing.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].endswith("there is no script nothing.py")


def test_files_of_more_ranks_are_no_part_of_a_later_run(tmp_path):
    (tmp_path / "rank-7.jsonl").write_text("of another run")
    (tmp_path / "one.py").write_text("print('one rank')")
    subprocess.run([sys.executable, "-m", "shardviz.record", "--out", ".", "one.py"], cwd=tmp_path, check=True, timeout=60)
    assert load(tmp_path).ranks == (0,)


def test_a_full_disk_ends_the_record_and_not_the_program(tmp_path):
    (tmp_path / "one.py").write_text("print('to the end')")
    (tmp_path / "rank-0.jsonl").symlink_to("/dev/full")
    command = [sys.executable, "-m", "shardviz.record", "--out", ".", "one.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, "to the end\n")
    assert "rank-0.jsonl ends here: No space left on device" in run.stderr


def test_a_function_on_ranks(four_ranks: Ranks):
    scale = 2.0

    def of_a_notebook_cell(shift):
        import torch
        import torch.distributed as dist

        value = torch.tensor([scale * dist.get_rank() + shift])
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        dist.barrier()

    recording = four_ranks.record(of_a_notebook_cell, 1)
    assert recording.program == "of_a_notebook_cell"
    assert recording.right
    assert [event.name for event in recording.events] == ["all_reduce", "barrier"]
    first = recording.events[0]
    assert first.first.reduction == "max"
    assert [call.given[0].values for call in first.calls if call] == [(1.0,), (3.0,), (5.0,), (7.0,)]
    assert [call.got[0].values for call in first.calls if call] == [(7.0,)] * 4


def test_what_does_not_fit_the_limit_has_no_values(four_ranks: Ranks):
    def gather():
        import torch
        import torch.distributed as dist

        dist.all_gather_into_tensor(torch.empty(12), torch.ones(3))

    call = four_ranks.record(gather, most_values=3).events[0].first
    assert call.given[0].values == (1.0, 1.0, 1.0)
    assert (call.got[0].shape, call.got[0].values) == ((12,), None)


def test_every_collective_is_seen_once_whoever_calls_it(four_ranks: Ranks):
    names = [event.name for event in four_ranks.record(every_collective).events]
    assert names == [
        *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
        *("all_gather", "all_reduce", "all_gather", "all_reduce", "barrier"),
    ]


def every_collective():
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Partial, Shard

    me, n = dist.get_rank(), dist.get_world_size()
    one, four = torch.ones(1), torch.ones(4)
    dist.all_reduce(one)
    dist.broadcast(one, 1)
    dist.reduce(one, 2)
    dist.all_gather([torch.ones(1) for _ in range(n)], one)
    dist.all_gather_into_tensor(torch.empty(4), one)
    dist.gather(one, [torch.ones(1) for _ in range(n)] if me == 0 else None)
    dist.scatter(one, [torch.ones(1) for _ in range(n)] if me == 0 else None)
    dist.reduce_scatter_tensor(one, four)
    dist.all_to_all_single(torch.empty(4), four)
    mesh = DeviceMesh("cpu", list(range(n)))
    DTensor.from_local(one, mesh, [Shard(0)]).full_tensor()
    DTensor.from_local(one, mesh, [Partial()]).full_tensor()
    handle = dist.all_gather_into_tensor(torch.empty(4), one, async_op=True)
    assert handle is not None
    handle.wait()
    dist.all_reduce(one)
    dist.barrier()


def test_a_function_from_nowhere_is_told_by_its_name(four_ranks: Ranks):
    names: dict = {}
    exec("import torch.distributed as dist\nimport torch\ndef from_a_cell():\n    dist.all_reduce(torch.ones(2))", names)
    assert four_ranks.record(names["from_a_cell"]).events[0].first.place == "from_a_cell:4"
