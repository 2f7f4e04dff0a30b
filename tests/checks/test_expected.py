"""What is in a checkpoint: what a model needs, optimizer states and their parameters, and files that transformers reads."""

import json

import pytest
import torch

from shardviz.checks.audits.classes import model_of
from shardviz.checks.checkpoints import model_class
from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.converting import convert
from shardviz.core.errors import FileError
from tests.checks import saved

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A small model with tied embeddings, and its configuration."""
    place = tmp_path_factory.mktemp("llama")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        architectures=["LlamaForCausalLM"],
    )
    config.save_pretrained(place)
    torch.manual_seed(0)
    asked = model_of(place / "config.json")  # in a process of its own, which takes seconds: once for all these tests
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_class, "model_of", lambda file: asked if file == place / "config.json" else model_of(file))
        yield transformers.LlamaForCausalLM(config), place / "config.json"


def trained(model, prefix=""):
    """A state dict as jobs save it: the model under a prefix, the state of its optimizer, and numbers."""
    weights = {f"{prefix}{name}": tensor for name, tensor in model.state_dict().items()}
    state = {f"optim.state.{n}.exp_avg": torch.ones_like(t) for n, t in model.named_parameters()}
    steps = {f"optim.state.{n}.step": torch.tensor(3.0) for n, _ in model.named_parameters()}
    return {**weights, **state, **steps, "epoch": 3}


@pytest.mark.parametrize("prefix", ["", "model.", "app.model."])
def test_everything_that_a_model_needs_is_there(checkpoint_verb, llama, tmp_path, prefix):
    model, config = llama
    state = trained(model, prefix)
    del state[f"{prefix}lm_head.weight"]  # tied to the embeddings: one of them is enough
    saved.save(tmp_path, state)
    status, out, _ = checkpoint_verb(tmp_path, "--expect", config, "--json")
    found = json.loads(out)["expected"]
    needed, states = len(model.state_dict()), 2 * len(list(model.parameters()))
    assert (status, found["missing"], found["extra"], found["other_shape"]) == (0, [], [], [])
    assert (found["prefix"], found["found"], found["beside"]) == (prefix, needed, states)
    assert checkpoint_verb(tmp_path, "--expect", config.parent)[0] == 0


def test_what_is_missing_extra_or_of_another_shape_is_named(checkpoint_verb, llama, tmp_path):
    model, config = llama
    state = trained(model, "model.")
    del state["model.model.layers.1.mlp.up_proj.weight"]
    state["model.model.norm.weight"] = torch.ones(17)
    state["model.model.layers.2.input_layernorm.weight"] = torch.ones(16)
    saved.save(tmp_path, state)
    status, out, _ = checkpoint_verb(tmp_path, "--expect", config)
    lines = out.splitlines()
    assert status == 1
    assert "missing: model.layers.1.mlp.up_proj.weight [24, 16]" in lines
    assert "of another shape: model.norm.weight is [17], needed [16]" in lines
    assert "extra: model.model.layers.2.input_layernorm.weight [16]" in lines
    total = len(model.state_dict())
    assert lines[-1].startswith(f"{total - 2} of {total} tensors that {config} needs are there under 'model.'")
    status, _, err = checkpoint_verb(tmp_path, "--expect", config, "--to", tmp_path / "out")
    assert (status, "nothing is converted" in err, (tmp_path / "out").exists()) == (1, True, False)


def test_a_model_without_its_head_is_recognised(checkpoint_verb, llama, tmp_path):
    model, config = llama
    saved.save(tmp_path, dict(model.model.state_dict()))
    found = json.loads(checkpoint_verb(tmp_path, "--expect", config, "--json")[1])["expected"]
    assert (found["missing"], found["extra"], found["other_shape"]) == ([], [], [])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "no model_type"),
        ('{"model_type": "no-such-model"}', "transformers cannot build it"),
        ('{"model_type": "llama", "num_hidden_layers": 1000000000}', "models have at most 2000"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_no_configuration_is_refused_in_a_sentence(checkpoint_verb, whole, tmp_path, content, words):
    (tmp_path / "config.json").write_text(content)
    status, out, err = checkpoint_verb(whole, "--expect", tmp_path / "config.json")
    assert (status, out, err.count("\n"), words in err) == (2, "", 1, True)


def test_from_pretrained_reads_what_is_written(checkpoint_verb, llama, tmp_path):
    """In several files with an index, the names as the model has them, without the optimizer's state; and in one."""
    model, config = llama
    directory = saved.save(tmp_path / "ck", trained(model, "app.model."))
    before = saved.contents(directory)
    status, out, _ = checkpoint_verb(
        directory, "--expect", config, "--to", tmp_path / "several", "--shard-size", "4KB", "--with-optimizer"
    )
    assert (status, "left out, names that do not begin with 'app.model.'" in out) == (0, True)
    status, out, _ = checkpoint_verb(directory, "--strip", "app.model.", "--to", tmp_path / "one")
    assert (status, "left out, an optimizer's state: " in out, "left out, what is no tensor: 1" in out) == (0, True, True)
    (tmp_path / "one" / "config.json").write_text(config.read_text())
    assert len(list((tmp_path / "several").glob("model-*-of-*.safetensors"))) > 2
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["config.json", "model.safetensors"]
    for place in ("several", "one"):
        made, info = transformers.LlamaForCausalLM.from_pretrained(tmp_path / place, output_loading_info=True)
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        right = model.state_dict()
        assert all(torch.equal(tensor, right[name]) for name, tensor in made.state_dict().items())
    assert saved.contents(directory) == before


def test_several_files_are_as_large_as_asked(llama, tmp_path):
    model, _ = llama
    made = convert(checkpoint(saved.save(tmp_path / "ck", dict(model.state_dict()))), tmp_path / "out", shard_bytes=5_000)
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    sizes = dict.fromkeys(made.files, 0)
    for name, tensor in model.state_dict().items():
        sizes[index["weight_map"][name]] += tensor.nbytes
    assert index["metadata"]["total_size"] == sum(sizes.values()) == sum(t.nbytes for t in model.state_dict().values())
    assert all(size <= 5_000 for size in sizes.values())


def test_a_full_directory_and_a_wrong_prefix_are_refused(checkpoint_verb, whole, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    assert "is not empty" in checkpoint_verb(whole, "--to", tmp_path / "full")[2]
    assert "has nothing to write" in checkpoint_verb(whole, "--to", tmp_path / "out", "--strip", "nowhere.")[2]
    assert "a size is a number and a unit" in checkpoint_verb(whole, "--to", tmp_path / "out", "--shard-size", "much")[2]
    assert checkpoint_verb(whole, "--strip", "a.")[0] == 2
    assert "or to a directory of them" in checkpoint_verb(whole, "--to", tmp_path / "out.bin")[2]
    with pytest.raises(FileError, match="lies in the checkpoint's directory"):
        convert(checkpoint(whole), whole / "out")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("parameter", "state"),
    [("model.w", "optim.state.w.exp_avg"), ("w", "w.momentum_buffer"), ("model.a.w", "optim.state.a.w.exp_avg_sq")],
)
def test_a_state_of_another_shape_than_its_parameter_is_found(checkpoint_verb, tmp_path, parameter, state):
    saved.save(tmp_path, {parameter: torch.ones(5), state: torch.ones(8), "model.b.w": torch.ones(8)})
    found = checkpoint(tmp_path)
    assert (found.whole, found.ok, bool(found)) == (True, False, True)
    assert found.findings == (f"{state} [8] has not the shape of its parameter {parameter} [5]",)
    status, out, _ = checkpoint_verb(tmp_path)
    assert (status, out.splitlines()[-1]) == (1, "whole, and 1 tensor not as it should be")
    assert json.loads(checkpoint_verb(tmp_path, "--json")[1])["findings"] == list(found.findings)


def test_states_that_are_right_or_cannot_be_told_are_silent(tmp_path):
    right = {"model.w": torch.ones(5), "optim.state.w.exp_avg": torch.ones(5), "optim.state.w.step": torch.ones(())}
    unknown = {
        "c.0": torch.ones(2),
        "opt.state.0.exp_avg": torch.ones(3),
        "optim.state.v.exp_avg": torch.ones(3),
        "a.u": torch.ones(4),
        "b.u": torch.ones(2),
        "state.u.exp_avg": torch.ones(2),
    }
    found = checkpoint(saved.save(tmp_path, {**right, **unknown}))
    assert (found.findings, found.ok, bool(found)) == ((), True, False)
