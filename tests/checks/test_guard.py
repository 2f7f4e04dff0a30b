"""The guard inside a job: it stops what would go wrong, names it on every rank, and lets everything else pass."""

import json
import subprocess
import sys
import textwrap

import pytest

import shardviz as sv
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
    assert "6 of 12 parameters on 8 ranks" in message
    assert all(f"{layer}.in_proj.{kind} [9" in message for layer in range(3) for kind in ("weight", "bias"))
    assert "out_proj" not in message


def test_shifted_rows_are_seen_after_loading(eight_ranks):
    found = eight_ranks.apply(loaded_from_meta, 33)
    assert all("rank 6 holds (3,) where (2,) belong: rows were shifted" in one for one in found)
    assert all("load it again inside `with shardviz.corrected_offsets():`" in one for one in found)
    assert eight_ranks.apply(loaded_from_meta, 33, corrected=True) == [None] * 8  # as advised


def loaded_from_meta(rows, corrected=False):
    from contextlib import nullcontext

    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    from shardviz.checks.checkpoints.offsets import corrected_offsets
    from shardviz.checks.guard import guard

    with torch.device("meta"):
        model = one_weight(f"[{rows}] on dp=4, tp=2: _S(0, 2), S(0)")
    state = {"weight": torch.arange(float(rows))} if dist.get_rank() == 0 else {}
    with corrected_offsets() if corrected else nullcontext():
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
    from shardviz.checks.guarding import using
    from shardviz.core.trace import Report

    own = using.report

    def moved(spec, mesh, rank):
        said = own(spec, mesh, rank)
        return Report(rank, said.shape, (said.offset[0] ^ 1,) if rank == 0 else said.offset)

    using.report = moved
    try:
        return guarded(one_weight, "[8] on dp=8: S(0)")
    finally:
        using.report = own


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
    assert all("1 of 1 parameters on 8 ranks" in one for one in found)


def warned():
    import warnings

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert guarded(one_weight, "[9] on dp=4, tp=2: _S(0, 2), S(0)", warn=True)
    return "".join(str(one.message) for one in seen if "shardviz" not in str(one.category) and "torch" in str(one.message))


@pytest.mark.slow
@pytest.mark.parametrize("flattened", [(), ("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")])
def test_wrong_gathers_over_flattened_meshes_are_foretold(eight_ranks, count, flattened):
    foretold, differing = eight_ranks.apply(gathered, flattened, timeout=120)[0]
    assert differing == []
    assert bool(foretold) == bool(flattened)
    count(f"full_tensor on (2, 2, 2), {flattened or 'nothing'} flattened: 84 cases, {foretold} foretold and seen to be wrong")


def gathered(flattened):
    """How many tensors are foretold to be gathered wrongly, and on which of all torch does something else."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    from shardviz.checks.guarding.flattened import gathered_wrongly
    from shardviz.core.spec import Spec
    from shardviz.tensors.reported import flattened_dims, torch_placements

    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("a", "b", "c"))
    if flattened:
        mesh[flattened]._flatten("flat")
    foretold, differing = 0, []
    for text in (
        "S(0), S(0), S(0)",
        "S(0), S(0), R",
        "S(0), R, S(0)",
        "R, S(0), S(0)",
        "S(0), S(1), S(0)",
        "S(1), S(0), S(0)",
        "S(0), S(0), S(1)",
    ):
        for rows in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 17):
            whole = torch.arange(rows * 4).view(rows, 4)
            spec = Spec((rows, 4), {"a": 2, "b": 2, "c": 2}, text)
            made = distribute_tensor(whole, mesh, torch_placements(spec), src_data_rank=None)
            said = gathered_wrongly(spec, flattened_dims(spec, mesh))
            wrong = torch.tensor(int(not torch.equal(made.full_tensor(), whole)))
            dist.all_reduce(wrong)
            foretold += bool(said)
            if bool(wrong) != bool(said):
                differing.append(str(spec))
    return foretold, differing


CURES = {
    "2 and 1 rows": "shape=(3, 3), stride=(3, 1)",
    "5, 5, 5 and 2 rows": "shape=(17, 3), stride=(3, 1)",
    "local_map": "shape=(5, 4), stride=(4, 1)",
}

FOUND = {
    "2 and 1 rows": "(4, 3) on rank 0, (2, 3) on rank 1; they hold (2, 3) on rank 0; (1, 3) on rank 1, which is (3, 3) cut",
    "5, 5, 5 and 2 rows": "(20, 3) on ranks 0-2, (8, 3) on rank 3; they hold (5, 3) on ranks 0-2; (2, 3) on rank 3",
    "local_map": "(6, 4) on rank 0, (4, 4) on rank 1; they hold (3, 4) on rank 0; (2, 4) on rank 1, which is (5, 4) cut",
    "two expert groups": "ranks 0, 2 hold the same part with different values; at (0, 0) 0.0 on rank 0, 100.0 on rank 2",
    "one bit of a plain tensor": "hold the same part with different values; at (7, 77) 777.0 on ranks 0-1, 3, 778.0 on rank 2",
    "a replica": "ranks 0-1 hold the same part with different values; at (0,) 0.0 on rank 0, 1.0 on rank 1",
    "columns as they are not cut": "(2, 2) where (2, 4) belong: no such cut has shards of these sizes (and 2 more ranks)",
    "plain tensors of several shapes": "(4,) on rank 0, (5,) on rank 1, (6,) on rank 2, (7,) on rank 3",
    "a rank lacks it": "rank 2 of its mesh dp=4 lacks it",
    "a rank has a plain tensor": "not all ranks of its mesh dp=4 have it there: [8] (no DTensor) on rank 2",
    "a rank has another dtype": "different dtypes: float32 on ranks 0, 2-3, bfloat16 on rank 1",
    "groups that cut differently": "cut in different ways, so that chunks overlap: [2, 4] on tp=2: S(0) on ranks 0-1; [2, 4]",
    "a pending sum": "rank 0 holds an addend, to be reduced over tp",
    "a flattened sub-mesh": "dp, tp are flattened into one mesh too, where torch takes 2, 1, 1, 1 for 2, 2, 1, 0",
    "what cannot be read": "ranks 0-3 cannot be compared: RuntimeError: not readable",
}

SILENT = ("equal groups", "plain copies", "stages", "an even sub-mesh", "nested state", "one group alone", "no tensor", "NaN")


def states():
    """On four ranks: what may be saved under a name, right and wrong."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.experimental import local_map

    class Unreadable(torch.Tensor):
        pass

    rank = dist.get_rank()
    four = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    pair = grid["tp"]  # ranks 0 1 | 2 3
    eight, fifteen = torch.arange(8.0), torch.arange(15).view(5, 3)
    spread = distribute_tensor(eight, four, [Shard(0)])
    double = local_map(lambda x: 2 * x, [Shard(0)], in_placements=([Shard(0)],), device_mesh=pair)
    plain = torch.arange(1000.0).view(10, 100)
    changed = plain.clone()
    changed[7, 77] += 1
    rows = eight.view(2, 4)
    yield "2 and 1 rows", {"w": DTensor.from_local(torch.zeros(2 - rank % 2, 3), pair, [Shard(0)])}
    yield "5, 5, 5 and 2 rows", {"w": DTensor.from_local(torch.zeros(2 if rank == 3 else 5, 3), four, [Shard(0)])}
    yield "local_map", {"w": double(distribute_tensor(torch.ones(5, 4), pair, [Shard(0)]))}
    yield "two expert groups", {"w": distribute_tensor(rows + 100 * (rank // 2), pair, [Shard(0)])}
    yield (
        "equal groups",
        {"w": distribute_tensor(rows, pair, [Shard(0)]), "bias": distribute_tensor(eight, pair, [Replicate()])},
    )
    yield "one bit of a plain tensor", {"w": changed if rank == 2 else plain}
    yield "plain copies", {"w": plain, "scalar": torch.tensor(3), "none": torch.zeros(0)}
    yield "plain tensors of several shapes", {"w": torch.zeros(4 + rank)}
    yield "NaN", {"w": torch.full((3,), torch.nan, dtype=torch.bfloat16)}
    yield "a replica", {"w": DTensor.from_local(eight[:4] + rank % 2, grid, [Shard(0), Replicate()], run_check=False)}
    columns = DTensor.from_local(
        torch.zeros(2, 2 + rank), four, [Shard(1)], run_check=False, shape=torch.Size((2, 14)), stride=(14, 1)
    )
    yield "columns as they are not cut", {"w": columns}
    yield "stages", {f"layers.{rank // 2}.w": distribute_tensor(eight + rank // 2, pair, [Shard(0)])}
    yield "one group alone", {"w": distribute_tensor(eight, pair, [Shard(0)])} if rank < 2 else {}
    yield "a rank lacks it", {} if rank == 2 else {"w": spread}
    yield "a rank has a plain tensor", {"w": eight if rank == 2 else spread}
    yield "a rank has another dtype", {"w": spread.bfloat16() if rank == 1 else spread}
    yield "groups that cut differently", {"w": distribute_tensor(rows, pair, [Shard(rank // 2)])}
    yield "a pending sum", {"w": DTensor.from_local(eight, grid, [Shard(0), Partial()], run_check=False)}
    yield "nested state", {"step": 7, "state": {"a": {"exp_avg": spread}}}
    yield "no tensor", {"step": 7}
    unreadable = distribute_tensor(eight, four, [Shard(0)])
    unreadable.to_local = lambda: (_ for _ in ()).throw(RuntimeError("not readable"))
    yield "what cannot be read", {"w": unreadable}
    grid["dp", "tp"]._flatten("flat")
    yield "a flattened sub-mesh", {"w": distribute_tensor(fifteen, grid, [Shard(0), Shard(0)])}
    assert distribute_tensor(fifteen, grid, [Shard(0), Shard(0)]).full_tensor()[:, 0].tolist() == [0, 3, 6, 0, 9]
    yield "an even sub-mesh", {"w": distribute_tensor(plain, grid, [Shard(0), Shard(0)])[:8]}


def guarded_states():
    import warnings

    from shardviz.checks.guard import guard

    said = {}
    for name, state in states():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said[name] = guard(state, warn=True)
    return said


@pytest.fixture(scope="module")
def reports(four_ranks):
    """What the guard says of each state, the same on every rank."""
    first, *others = four_ranks.apply(guarded_states, timeout=60)
    assert all(other == first for other in others)
    assert {*FOUND, *SILENT} == {*first}
    return first


@pytest.mark.parametrize("name", FOUND)
def test_what_one_rank_cannot_see_is_found(reports, name):
    report = reports[name]
    (sentence,) = report
    assert report
    assert not report.ok
    assert FOUND[name] in sentence
    assert CURES.get(name, "") in "".join(report.findings[0].cures)


@pytest.mark.parametrize("name", SILENT)
def test_what_is_right_stays_silent(reports, name):
    assert reports[name].ok
    assert list(reports[name]) == []


def test_what_has_no_tensors_by_name_is_refused():
    from shardviz.checks.guard import guard

    with pytest.raises(sv.ShardvizError, match=r"a model or a state dict was expected.*; got int"):
        guard(7)


def test_an_all_clear_says_what_it_covers(reports):
    _, compared, contents = reports["equal groups"].text.splitlines()
    assert compared.startswith("  2 parameters on 4 ranks: global shape, dtype, mesh, placements and local shape, compared")
    assert contents == "  contents (checksums) of 2 that several ranks hold a part of"
    assert "  2 of them on some ranks only, and on all of their mesh where they have one" in reports["stages"].text
    assert "0 parameters on 4 ranks: there was nothing to compare" in reports["no tensor"].text


def test_a_report_is_plain_data_too(reports):
    found = json.loads(json.dumps(reports["a rank lacks it"].json()))
    assert (found["ok"], found["ranks"], found["parameters"]) == (False, 4, 1)
    assert found["findings"][0]["ranks"] == [2]
    assert len(reports["a rank lacks it"]) == 1


def test_the_advice_for_a_shape_is_right(four_ranks):
    assert four_ranks.apply(advised) == [(17, 3)] * 4


def advised():
    """What `from_local` makes of 5, 5, 5 and 2 rows when it is told the shape that the guard advises."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    from shardviz.checks.guard import guard

    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    rows = torch.zeros(2 if dist.get_rank() == 3 else 5, 3)
    made = DTensor.from_local(rows, mesh, [Shard(0)], shape=torch.Size((17, 3)), stride=(3, 1))
    assert guard({"w": made}).ok
    return tuple(made.full_tensor().shape)


def test_stages_of_a_pipeline_are_looked_at_each(eight_ranks):
    found = eight_ranks.apply(staged)
    assert found == [(True, 4, 4, 4, ("1 buffer",))] * 8


def staged():
    """Two stages of four ranks, FSDP2 over TP in each, after a forward pass that leaves its module unsharded."""
    from collections import OrderedDict

    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    from shardviz.checks.guard import guard

    stage = dist.get_rank() // 4
    meshes = [DeviceMesh("cpu", torch.arange(first, first + 4).view(2, 2), mesh_dim_names=("dp", "tp")) for first in (0, 4)]
    mesh = meshes[stage]
    model = nn.Sequential(OrderedDict({f"layer{stage}": nn.Linear(4, 6)}))
    parallelize_module(model, mesh["tp"], {f"layer{stage}": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    model.register_buffer("steps", torch.zeros(()))
    model.unshard()
    report = guard(model)
    return report.ok, report.covered.names, report.covered.used, report.covered.partly, report.covered.gaps


@pytest.mark.parametrize("text", ["[8] on dp=4, tp=2: _S(0, 2), S(0)", "[8, 8] on dp=4, tp=2: S(0), S(1)"])
def test_plain_tensors_between_unshard_and_reshard_are_this_rank_s_part(eight_ranks, text):
    assert eight_ranks.apply(guarded, plain_between, text) == [[]] * 8
    (message,) = eight_ranks.apply(guarded, plain_between, text, True)[0]
    assert "where" in message
    assert "or all of it belongs (and 7 more ranks)" in message


def plain_between(text, wrong=False):
    """A model whose tensor-parallel part is a plain tensor while it is unsharded, as FSDP2 leaves it with spmd_types."""
    model = one_weight(text)
    shard, own = model.weight, model.get_parameter

    def part(name):
        seen = own(name)
        return seen if seen is shard else seen.to_local()[wrong:]

    model.get_parameter = part
    return model


ADVISED = (
    "[9] on dp=4, tp=2: _S(0, 2), S(0)",
    "[33, 2] on dp=4, tp=2: _S(0, 2), S(0)",
    "[16] on dp=4, tp=2: _S(0, 2), _S(0, 2)",
)


def test_the_advice_works(eight_ranks, tmp_path):
    first, *_ = found = eight_ranks.apply(following_the_advice, str(tmp_path))
    assert all(one == first for one in found)
    assert any(cured for cured, _ in first.values())
    assert all(cured == {True} for cured, _ in first.values() if cured)
    assert all(padded for _, padded in first.values())


def following_the_advice(directory):
    """Of each: whether a checkpoint is whole where corrected_offsets is advised, and whether the padded size passes."""
    import re

    import torch
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save

    from shardviz.checks.checkpoints.offsets import corrected_offsets
    from shardviz.checks.guard import guard
    from shardviz.core.spec import Spec, parse

    done = {}
    for number, text in enumerate(ADVISED):
        model = one_weight(text)
        (found,) = guard(model, warn=True).findings
        advice, saved = "; ".join(found.cures), set()
        if "corrected_offsets" in advice:
            with corrected_offsets():
                assert guard(model).ok
                save({"weight": model.weight}, checkpoint_id=f"{directory}/{number}")
                before = model.weight.to_local().clone()
                model.weight.data.zero_()
                load({"weight": model.weight}, checkpoint_id=f"{directory}/{number}")
            whole = torch.arange(1.0, model.weight.numel() + 1).view(model.weight.shape)  # not full_tensor, which may be wrong
            plain = {"weight": torch.zeros_like(whole)}
            load(plain, checkpoint_id=f"{directory}/{number}")
            saved = {torch.equal(model.weight.to_local(), before) and torch.equal(plain["weight"], whole)}
        spec, larger = parse(text), re.search(r"pad dimension 0 from \d+ to (\d+)", advice)
        padded = larger and guard(one_weight(str(Spec((int(larger[1]), *spec.shape[1:]), spec.mesh, spec.placements)))).ok
        done[text] = (saved, padded or larger is None)
    return done


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
