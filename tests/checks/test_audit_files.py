"""The audit of files: headers of safetensors, indices, configurations; and the command line."""

import json
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from shardviz.checks.audits.audit import audit
from shardviz.core.errors import FileError, SpecError

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


def test_gpt_2(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_positions": 16, "vocab_size": 50257}))
    found = audit(path, mesh="dp=3, tp=2")
    assert [one.name for one in found.wrong] == ["transformer.wte.weight"]


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
        ("config.json", '{"model_type": "bert"}', "this one is 'bert'"),
        ("config.json", '{"model_type": "llama"}', "has no hidden_size"),
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
    assert (status, json.loads(out)["errors"]) == (1, 1)


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
