"""The guard inside a job: it stops what would go wrong, names it on every rank, and lets everything else pass."""

import subprocess
import sys
import textwrap

import pytest

from shardviz.ranks.scenarios import one_weight, stack

pytestmark = pytest.mark.ranks


def guarded(build, *args, change=None, warn=False):
    """On a rank: what the guard says, and whether it left the model as it was."""
    import torch

    from shardviz.checks.guard import guard

    model = build(*args)
    if change is not None:
        change(model)
    before = [parameter.to_local().clone() for parameter in model.parameters()]
    try:
        said = list(guard(model, warn=warn))
    except Exception as error:
        said = [f"{type(error).__name__}: {error}"]
    after = [parameter.to_local() for parameter in model.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    return said


@pytest.mark.parametrize(
    "text",
    [
        "[8] on dp=4, tp=2: _S(0, 2), S(0)",
        "[13, 3] on dp=4, tp=2: _S(0, 2), S(0)",
        "[8, 8] on dp=4, tp=2: S(0), S(1)",
        "[8] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)",
        "[9] on rep=2, dp=2, tp=2: R, _S(0, 2), S(0)",
        "[3] on dp=8: S(0)",
    ],
)
def test_what_is_well_passes(eight_ranks, text):
    assert eight_ranks.apply(guarded, one_weight, text) == [[]] * 8


def test_a_stack_of_modules_passes(eight_ranks):
    assert eight_ranks.apply(guarded, stack, 5, {"dp": 4, "tp": 2}, 2) == [[]] * 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[9] on dp=4, tp=2: _S(0, 2), S(0)",
            "rank 6 holds (0,) and is reported (1,) (and 1 more rank); what follows: checkpoint-lo",
        ),
        (
            "[33, 2] on dp=4, tp=2: _S(0, 2), S(0)",
            "rank 6 holds (2, 2) and is reported (3, 2) (and 1 more rank); what follows: check",
        ),
        ("[16] on dp=4, tp=2: _S(0, 2), _S(0, 2)", "what follows: checkpoint-refused, load-shifts-rows, full-tensor-wrong"),
    ],
)
def test_every_rank_is_stopped_and_told(eight_ranks, text, said):
    found = eight_ranks.apply(guarded, one_weight, text)
    assert len({tuple(one) for one in found}) == 1
    (message,) = found[0]
    assert message.startswith("ShardvizError: torch 2.")
    assert f"weight {text}: " in message
    assert said in message


def test_every_bad_parameter_of_a_model_is_named(eight_ranks):
    (message,) = eight_ranks.apply(guarded, stack, 3, {"dp": 4, "tp": 2})[0]
    assert "6 parameters" in message
    assert all(f"{layer}.in_proj.{kind} [9" in message for layer in range(3) for kind in ("weight", "bias"))
    assert "out_proj" not in message


def test_shifted_rows_are_seen_after_loading(eight_ranks):
    found = eight_ranks.apply(loaded_from_meta, 33)
    assert all("rank 6 holds (3,) where (2,) belong: rows were shifted" in one for one in found)


def loaded_from_meta(rows):
    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    from shardviz.checks.guard import guard

    with torch.device("meta"):
        model = one_weight(f"[{rows}] on dp=4, tp=2: _S(0, 2), S(0)")
    state = {"weight": torch.arange(float(rows))} if dist.get_rank() == 0 else {}
    set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    try:
        guard(model)
    except Exception as error:
        return str(error)


def test_the_unshard_probe_sees_rows_in_other_places(eight_ranks):
    (message,) = eight_ranks.apply(unlike_its_report)[0]
    assert "does not use its shard where it is reported to stand" in message


def unlike_its_report():
    """On a rank: the sizes are right, the rows are not where they are said to be."""
    from shardviz.checks import guard as guard_module
    from shardviz.core.trace import Report

    own = guard_module.report

    def moved(spec, mesh, rank):
        said = own(spec, mesh, rank)
        return Report(rank, said.shape, (said.offset[0] ^ 1,) if rank == 0 else said.offset)

    shapes, guard_module._shapes = guard_module._shapes, lambda model: ()
    guard_module.report = moved
    try:
        return guarded(one_weight, "[8] on dp=8: S(0)")
    finally:
        guard_module.report, guard_module._shapes = own, shapes


def test_rows_of_several_places_are_seen(eight_ranks):
    (message,) = eight_ranks.apply(guarded, lone_strided_shard)[0]
    assert "rank 0 holds rows of several places and is reported to hold (2,) from (0,) on" in message


def lone_strided_shard():
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    from shardviz.core.spec import parse
    from shardviz.ranks.scenarios.models import Weight, device_mesh
    from shardviz.tensors.reported import torch_placements

    spec, rank = parse("[16] on tp=8: _S(0, 2)"), dist.get_rank()
    held = torch.tensor([float(rank), 8.0 + rank])
    return Weight(
        DTensor.from_local(
            held, device_mesh(spec.mesh), torch_placements(spec), run_check=False, shape=torch.Size([16]), stride=(1,)
        )
    )


def test_a_warning_instead(eight_ranks):
    found = eight_ranks.apply(warned)
    assert all("1 parameter for what the ranks do not hold" in one for one in found)


def warned():
    import warnings

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert guarded(one_weight, "[9] on dp=4, tp=2: _S(0, 2), S(0)", warn=True)
    return "".join(str(one.message) for one in seen if "shardviz" not in str(one.category) and "torch" in str(one.message))


JOB = """
import sys
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from shardviz.checks.guard import guard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (int(sys.argv[2]), 2), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(nn.Linear(4, int(sys.argv[1])))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
guard(model)
assert "ipyparallel" not in sys.modules
print("saving", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("rows", "dp", "passes"), [(7, 3, False), (7, 1, True)])
def test_inside_a_torchrun_job(tmp_path, rows, dp, passes):
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB))
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={2 * dp}",
        str(script),
        str(rows),
        str(dp),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (ended.returncode == 0) == passes
    assert ended.stdout.count("saving") == (2 if passes else 0)
    if not passes:
        assert "0.weight [7, 4] on dp=3, tp=2: _S(0, 2), S(0): rank 4 holds (0, 4) and is reported (1, 4)" in ended.stderr
