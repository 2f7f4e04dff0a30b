"""The audit of modules: torch applies the plan elsewhere, on ranks that are only numbers."""

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from shardviz.checks.audits.audit import audit
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.module import forward_findings
from shardviz.core.errors import SpecError, TorchError


class Block(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)


class Model(nn.Module):
    def __init__(self, vocabulary, inner=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.layers = nn.ModuleList(Block(16, inner) for _ in range(layers))


def plan(local=True):
    return {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "layers.*.up": ColwiseParallel(use_local_output=local),
        "layers.*.down": RowwiseParallel(),
    }


def on_meta(*args, **kwargs):
    with torch.device("meta"):
        return Model(*args, **kwargs)


def test_a_plan_on_two_thousand_ranks_that_do_not_exist():
    found = audit(on_meta(50_257), mesh="dp_replicate=2, dp_shard=64, cp=2, tp=8", plan=plan())
    assert found.mesh == "dp_replicate=2, dp_shard_cp=128, tp=8"
    placements = {one.name: ", ".join(map(str, one.spec.placements)) for one in found.parameters}
    assert placements["embed.weight"] == placements["layers.1.up.weight"] == "R, _S(0, 8), S(0)"
    assert placements["layers.0.down.weight"] == "R, S(0), S(1)"
    assert placements["layers.0.down.bias"] == "R, S(0), R"
    assert str(found["layers.0.norm.weight"].spec) == (
        "[16] on dp_replicate=2, dp_shard_cp=128 (ranks " + found["layers.0.norm.weight"].spec.mesh.ranks_text() + "): R, S(0)"
    )
    assert {one.name for one in found.parameters} == {name for name, _ in on_meta(50_257).named_parameters()}
    assert not torch.distributed.is_initialized()


def test_what_a_plan_makes_is_audited():
    bad = audit(on_meta(33), mesh="dp=4, tp=2", plan={"tp": plan()})
    assert [one.name for one in bad.wrong] == ["embed.weight"]


def test_a_plan_of_the_users_own():
    def by_hand(model, mesh):
        from torch.distributed.tensor.parallel import parallelize_module

        parallelize_module(model, mesh["tp"], {"embed": RowwiseParallel(input_layouts=Replicate())})

    found = audit(on_meta(34), mesh="dp=4, tp=2", plan=by_hand)
    assert str(found["embed.weight"].spec) == "[34, 16] on dp=4, tp=2: _S(0, 2), S(0)"
    assert str(found["layers.0.up.weight"].spec).endswith(": S(0)")


def test_plans_by_model_dimension():
    plans = {"ep": {"layers.*.up": ColwiseParallel(use_local_output=False)}, "tp": {"embed": plan()["embed"]}}
    found = audit(on_meta(34, inner=9), mesh="dp=4, ep=2, tp=2", plan=plans)
    assert str(found["layers.0.up.weight"].spec).startswith("[9, 16] on dp=4, ep=2 (ranks 0, 2, 4, ")
    assert {one.name for one in found.wrong} == {f"layers.{layer}.up.{kind}" for layer in (0, 1) for kind in ("weight", "bias")}


def test_three_cuts_by_a_plan_of_the_users_own():
    found = audit(on_meta(9), mesh="dp=2, ep=2, tp=2", plan=cut_twice)
    assert str(found["embed.weight"].spec) == "[9, 16] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)"
    assert [one.name for one in found.wrong] == ["embed.weight"]


def cut_twice(model, mesh):
    from torch.distributed.tensor import Shard, distribute_tensor

    weight = distribute_tensor(model.embed.weight, mesh["ep", "tp"], [Shard(0), Shard(0)])
    model.embed.weight = nn.Parameter(weight)


def test_uneven_columns_as_plain_tensors_are_refused():
    grid = Grid.of("dp=2, tp=2")
    found = dict(forward_findings(on_meta(8, inner=5), grid, plan()))
    assert list(found) == ["layers.0.down.weight", "layers.1.down.weight"]
    assert "layers.0.up hands its 5 columns, uneven on tp=2" in found["layers.0.down.weight"].message
    assert dict(forward_findings(on_meta(8, inner=5), grid, plan(local=False))) == {}
    assert dict(forward_findings(on_meta(8, inner=6), grid, plan())) == {}


def test_what_torch_refuses_is_said():
    with pytest.raises(TorchError, match=r"torch did not apply the plan on dp=2, tp=2: .*NotImplementedError"):
        audit(on_meta(8), mesh="dp=2, tp=2", plan={"layers.0.norm": ColwiseParallel()})
    with pytest.raises(SpecError, match="needs a mesh"):
        audit(on_meta(8))
