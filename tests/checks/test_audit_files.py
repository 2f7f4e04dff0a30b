"""The audit of files: headers of safetensors, indices, configurations; and the command line."""

import json
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from safetensors.numpy import save_file

from shardviz.checks.audits import subjects
from shardviz.checks.audits.audit import audit
from shardviz.core.errors import FileError, SpecError, TorchError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 4001,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
}


@pytest.fixture
def config(tmp_path):
    def write(**changes):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, **changes}))
        return path

    return write


@pytest.fixture(autouse=True)
def _without_transformers(request, monkeypatch):
    """The families that are known without it; building a class takes seconds of imports."""
    if "built" not in request.keywords:
        monkeypatch.setattr(subjects, "can_build", lambda: False)


def test_a_configuration(config):
    found = audit(config(), mesh="dp=4, tp=2")
    assert [one.name for one in found.wrong] == ["model.embed_tokens.weight", "lm_head.weight"]
    assert str(found["model.layers.1.self_attn.k_proj.weight"].spec) == "[32, 64] on dp=4, tp=2: _S(0, 2), S(0)"
    assert str(found["model.layers.0.mlp.down_proj.weight"].spec) == "[64, 128] on dp=4, tp=2: S(0), S(1)"
    assert str(found["model.norm.weight"].spec) == "[64] on dp=4, tp=2: S(0), R"
    assert "and 1 more like it" in found.text
    assert not audit(config(vocab_size=4000), mesh="dp=4, tp=2")
    assert len(audit(config(tie_word_embeddings=True), mesh="dp=4, tp=2").wrong) == 1
    assert not audit(config(), mesh="dp=4")


def test_rules_can_be_overridden(config):
    found = audit(config(), mesh="dp=4, tp=2", plan={"*lm_head*": "R", "*embed*": "S(1)"})
    assert not found
    assert str(found["lm_head.weight"].spec.placements[1]) == "R"
    with pytest.raises(SpecError, match=r"input_layernorm.weight \[64\] by the rule \*norm\*=S\(1\)"):
        audit(config(), mesh="dp=4, tp=2", plan={"*norm*": "S(1)"})


@pytest.mark.built
def test_a_configuration_is_built_by_its_own_class(config, tmp_path):
    found = audit(config(model_type="qwen3_moe", num_experts=4, head_dim=8, tie_word_embeddings=True), mesh="dp=4, tp=2")
    assert found.coverage.text.startswith(
        f"{found.coverage.total} of {found.coverage.total} parameters placed by the model's own"
    )
    assert "transformers" in found.coverage.by
    packed = found["model.layers.0.mlp.experts.gate_up_proj"]
    assert str(packed.spec.placements[1]) == "_S(1, 2)"
    assert [one.name for one in found.wrong if "embed" in one.name] == ["model.embed_tokens.weight"]  # tied: once
    gpt2 = tmp_path / "gpt2.json"
    gpt2.write_text(
        json.dumps({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": 50257})
    )
    with pytest.raises(SpecError, match=r"no tensor-parallel plan \(transformers .* state it by rules"):
        audit(gpt2, mesh="dp=3, tp=2")
    some = audit(gpt2, mesh="dp=3, tp=2", plan={"*wte*": "S(0)"})
    assert [one.name for one in some.wrong] == ["transformer.wte.weight"]
    assert (some.coverage.checked, some.coverage.complete, some.ok) == (1, False, False)
    assert audit(gpt2, mesh="dp=3, tp=2", plan={"*wte*": "S(0)", "*": "R"}).coverage.complete


def test_only_families_that_are_proven_are_known_without_transformers(config):
    with pytest.raises(FileError, match=r"this is 'gemma2': pip install \"shardviz\[hf\]\""):
        audit(config(model_type="gemma2"), mesh="dp=4, tp=2")
    with pytest.raises(FileError, match="LlamaForSequenceClassification"):
        audit(config(architectures=["LlamaForSequenceClassification"]), mesh="dp=4, tp=2")


def test_names_that_no_rule_fits_are_not_checked(tmp_path):
    shapes = {"trunk.embed.weight": (33, 2), "model.layers.0.mlp.experts.gate_up_proj": (4, 8, 2), "lm_head.weight": (32, 2)}
    save_file({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, tmp_path / "a.safetensors")
    found = audit(tmp_path / "a.safetensors", mesh="dp=4, tp=2")
    assert (found.errors, found.ok, bool(found)) == (0, False, True)
    assert "nothing is wrong with the 1 that were checked, and 2 of 3 parameters were not checked" in found.text
    assert (
        "2 of 3 matched no rule and were *not checked*: model.layers.0.mlp.experts.gate_up_proj, trunk.embed.weight"
        in found.text
    )
    assert found.json()["coverage"]["checked"] == 1
    assert audit(tmp_path / "a.safetensors", mesh="dp=4").ok  # FSDP2 alone needs no plan
    with pytest.raises(SpecError, match=r"the rule \*nowhere\*=R fits no parameter"):
        audit(tmp_path / "a.safetensors", mesh="dp=4, tp=2", plan={"*nowhere*": "R"})


def test_the_command_line_does_not_pass_over_what_was_not_checked(shardviz, tmp_path):
    save_file({"trunk.embed.weight": np.zeros((33, 2), np.float32)}, tmp_path / "a.safetensors")
    asked = ("audit", str(tmp_path / "a.safetensors"), "--mesh", "dp=4, tp=2")
    status, out, _ = shardviz(*asked)
    assert (status, "nothing was checked, of 1 parameters" in out) == (1, True)
    assert shardviz(*asked, "--allow-unknown")[0] == 0
    assert shardviz(*asked, "--rule", "*embed*=S(0)")[0] == 1
    assert shardviz(*asked, "--rule", "*embed*=R")[0] == 0


@pytest.mark.parametrize("rows", [32_001, 32_000])
def test_metas_and_torchtitans_names(tmp_path, rows):
    names = {
        "tok_embeddings.weight": (rows, 4),
        "layers.0.attention.wq.weight": (8, 4),
        "layers.0.feed_forward.w2.weight": (4, 8),
    }
    names |= {"layers.0.attention_norm.weight": (4,), "norm.weight": (4,), "output.weight": (rows, 4)}
    save_file({name: np.zeros(shape, np.float16) for name, shape in names.items()}, tmp_path / "a.safetensors")
    found = audit(tmp_path / "a.safetensors", mesh="dp=4, tp=2")
    assert found.coverage.complete
    assert [one.name for one in found.wrong] == (["output.weight", "tok_embeddings.weight"] if rows % 2 else [])


def test_headers_of_safetensors(tmp_path):
    save_file({"lm_head.weight": np.zeros((33, 2), np.float32)}, tmp_path / "a.safetensors")
    save_file({"model.layers.0.mlp.up_proj.weight": np.zeros((8, 2), np.float32)}, tmp_path / "b.safetensors")
    assert [one.name for one in audit(tmp_path / "a.safetensors", mesh="dp=4, tp=2").wrong] == ["lm_head.weight"]
    index = {"weight_map": {"lm_head.weight": "a.safetensors", "model.layers.0.mlp.up_proj.weight": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = audit(tmp_path, mesh="dp=4, tp=2")
    assert (len(found.parameters), len(found.wrong)) == (2, 1)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{", "cannot be read"),
        ("config.json", "[]", "neither an index"),
        ("config.json", '{"model_type": "bert"}', "this is 'bert'"),
        ("config.json", '{"model_type": "llama"}', "has no hidden_size and no intermediate_size"),
        ("x.safetensors", "no header", "cannot be read as safetensors"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=said):
        audit(tmp_path / name, mesh="dp=2")
    with pytest.raises(FileError):
        audit(tmp_path / "nowhere.json", mesh="dp=2")


def test_the_command_line(shardviz, config):
    status, out, _ = shardviz("audit", "--shape", "9", "--mesh", "dp=4,tp=2", "--placements", "_S(0, 2), S(0)", "--json")
    document = json.loads(out)
    assert (status, document["errors"]) == (1, 5)
    assert shardviz("audit", "--shape", "8", "--mesh", "dp=4,tp=2")[0] == 0
    status, out, _ = shardviz("audit", str(config()), "--mesh", "dp=4,tp=2")
    assert (status, "errors in 2 of 21 parameters" in out) == (1, True)
    assert shardviz("audit", str(config()), "--mesh", "dp=4,tp=2", "--rule", "*lm_head*=R", "--rule", "*embed*=R")[0] == 0
    status, out, _ = shardviz("audit", str(config()), "--sweep", "dp=4,tp=1..2", "--json")
    assert (status, json.loads(out)["errors"], json.loads(out)["coverage"]["checked"]) == (1, 1, 21)


def test_the_command_line_draws_the_map_of_a_sweep(shardviz, tmp_path):
    asked = ("audit", "--shape", "33,4", "--sweep", "pp=1..2,dp=3..4,tp=1|2", "-o", str(tmp_path / "map.svg"))
    status, _, err = shardviz(*asked)
    assert (status, "drew" in err) == (1, True)
    drawn = (tmp_path / "map.svg").read_text()
    assert "pp: its stages hold other layers, so it cuts nothing" in drawn
    for words in (
        "Errors on 2 of 8 meshes",
        "nothing is wrong: 6 meshes",
        "no checkpoint can be saved: 2 meshes",
        "dp=4",
        "pp=2",
    ):
        assert words in drawn
    assert drawn.count("#d01c2a") >= 2


def test_the_command_line_draws(shardviz, tmp_path):
    status, _, err = shardviz("audit", "[9] on dp=4, tp=2: _S(0, 2), S(0)", "--draw", "-", "-o", str(tmp_path / "x.svg"))
    assert (status, "drew" in err) == (1, True)
    assert (tmp_path / "x.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit",), "either a file or spec"),
        (("audit", "--shape", "3x", "--mesh", "dp=2"), "'3x' is no list of sizes"),
        (("audit", "--shape", "3"), "needs a mesh"),
        (("audit", "--shape", "3", "--mesh", "dp"), "'dp' is no new name=size"),
        (("audit", "nowhere.json", "--mesh", "dp=2"), "cannot be read"),
        (("audit", "x.json", "--mesh", "dp=2", "--rule", "a"), "no pattern=placement"),
        (("audit", "--shape", "3", "--sweep", "dp=2.."), "no range of sizes"),
        (("audit", "x.json", "--mesh", "dp=2", "--placements", "S(0)"), "--placements are of one --shape"),
        (("audit", "--shape", "3", "--mesh", "dp=2", "--rule", "a=R"), "--rule is for the parameters of a file"),
        (("audit", "--shape", "3", "--sweep", "dp=2", "--proof"), "leave out --draw and --proof"),
        (("audit", "--shape", "3", "--mesh", "dp=2", "-o", "x.svg"), "name a parameter with --draw"),
        (("audit", "--shape", "9,4", "--mesh", "batch=4,tp=2"), "the mesh dimension 'batch': what it does"),
        (("audit", "--shape", "9,4", "--mesh", "batch=4,tp=2", "--role", "batch=x"), "right would be fsdp, copy, tp, ep, pp"),
        (("audit", "--shape", "9,4", "--mesh", "dp=4", "--torch", "1.0"), "how it reports is known of 2.8 to 2.15"),
        (("audit", "--build", "nowhere", "--mesh", "dp=4"), "no package.module:function"),
        (("audit", "--build", "json:nothing", "--mesh", "dp=4"), "cannot be imported"),
    ],
)
def test_wrong_requests(shardviz, arguments, said):
    status, out, err = shardviz(*arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_arithmetic_imports_no_torch():
    import subprocess

    code = "import sys; import shardviz; shardviz.audit((9,), mesh='dp=4, tp=2'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_release_that_is_not_installed(shardviz, monkeypatch):
    asked = ("audit", "--shape", "9", "--mesh", "dp=4,tp=2", "--torch")
    status, out, _ = shardviz(*asked, "2.9")  # shapes and offsets are right there, and its own reconstruction hangs
    assert (status, "full_tensor() hangs or raises: in one tp group the ranks would send different amounts" in out) == (1, True)
    assert shardviz("audit", "--shape", "7", "--mesh", "dp=2,tp=2", "--torch", "2.9")[0] == 0
    status, out, _ = shardviz("audit", "--shape", "6,4", "--mesh", "dp=2,tp=2", "--torch", "2.8")
    assert (status, "full-tensor-wrong: full_tensor() is wrong on 4 of 4 ranks: 8 of the 24 slots" in out) == (1, True)
    _, out, _ = shardviz("audit", "--shape", "129", "--mesh", "dp=64,tp=2", "--torch", "2.9")
    assert "nothing is wrong with what was checked" in out
    assert "full_tensor() of 2.8 and 2.9 was not replayed on more than 64 ranks" in out
    assert shardviz(*asked, "2.15")[0] == 1

    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("shardviz.checks.audits.release.version", none)
    assert shardviz(*asked, "2.13")[0] == 1
    with pytest.raises(TorchError, match="name the release"):
        audit((9,), mesh="dp=4, tp=2")


def test_a_builder_is_run_on_ranks_that_pretend(shardviz, monkeypatch, tmp_path):
    (tmp_path / "training.py").write_text(BUILDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "training", raising=False)
    status, out, _ = shardviz("audit", "--build", "training:build", "--mesh", "dp=4,tp=2", "--json")
    document = json.loads(out)
    assert (status, document["parameters"][0]["placements"]) == (1, "_S(0, 2), S(0)")
    assert document["coverage"]["gaps"] == ["1 more is no DTensor, whole on every rank, and was not looked at"]


BUILDER = """
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

def build(mesh):
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(2, 9, bias=False))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    model.scale = torch.nn.Parameter(torch.ones(3))
    return model
"""


def test_a_long_sweep_says_how_far_it_is_in_a_log(shardviz, monkeypatch):
    monkeypatch.setattr("shardviz.cli.audit.EVERY", -1.0)
    _, out, err = shardviz("audit", "--shape", "9", "--sweep", "dp=1..4,tp=2", "--json")
    assert err.splitlines() == [f"{done} of 4 meshes" for done in range(4)]
    assert json.loads(out)["reading"].startswith("dp: FSDP2 shards")
