"""What the audit takes for a model's parameters, ties and plans is what transformers' own class has, family by family."""

import json
import subprocess
import sys

import pytest

from shardviz.checks.audits.families import FAMILIES, known_model
from shardviz.core.notation import read_placements

DENSE = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "granite", "olmo", "olmo2", "phi", "phi3"),
    *(
        "starcoder2",
        "cohere",
        "cohere2",
        "smollm3",
        "glm",
        "glm4",
        "exaone4",
        "helium",
        "ministral",
        "seed_oss",
        "gpt2",
        "stablelm",
    ),
)
EXPERTS = (
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "deepseek_v2",
    "deepseek_v3",
    "gpt_oss",
    "glm4_moe",
    "olmoe",
    "flex_olmo",
    "ernie4_5_moe",
)


@pytest.fixture(scope="module")
def families():
    """Every family, built by transformers in one process."""
    command = [sys.executable, "-m", "tests.checks.families", *DENSE, *EXPERTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return {one["family"]: one for one in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("family", [*DENSE, *EXPERTS])
def test_parameters_ties_and_placements_are_the_classs_own(families, family):
    found = families[family]
    assert "error" not in found, found
    said = found["said"]["parameters"]
    assert {name: shape for name, shape, *_ in said} == found["shapes"]
    ties = {other: name for name, _, _, _, tied, _ in said for other in (name, *tied)}
    assert ties == found["ties"]
    assert found["said"]["tp"] == ("tp" in found["cuts"])
    for place, kind in ((2, "tp"), (3, "ep")):
        cuts = {one[0]: str(read_placements(one[place])[0].placement) for one in said if one[place]}
        real = {name: str(read_placements(text)[0].placement) for name, text in found["cuts"].get(kind, {}).items()}
        assert cuts == {name: text for name, text in real.items() if text != "R"} | {n: t for n, t in cuts.items() if t == "R"}


def test_experts_are_cut_by_their_own_plan_and_packed_by_tp(families):
    packed = {one[0]: one for one in families["qwen3_moe"]["said"]["parameters"]}["model.layers.0.mlp.experts.gate_up_proj"]
    assert packed[2:4] == ["_S(1, 2)", "S(0)"]
    assert not families["gpt2"]["said"]["tp"]
    assert not families["stablelm"]["said"]["tp"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [False, True])
def test_the_families_that_are_known_without_it(families, family, tied):
    found = families[family]
    config = {**found["config"], "tie_word_embeddings": tied}
    made = known_model(config)
    if tied == bool(found["config"].get("tie_word_embeddings")):
        assert {one.name: list(one.shape) for one in made.parameters} == found["shapes"]
        assert {other: one.name for one in made.parameters for other in (one.name, *one.tied)} == found["ties"]
    said = {name: (tp, style) for name, _, tp, _, _, style in found["said"]["parameters"]}
    for one in made.parameters:
        assert (str(one.tp) if one.tp else None, one.style) == said[one.name], one.name


def test_the_proof_can_fail(families):
    wrong = dict(families["llama"]["shapes"])
    wrong.pop("model.norm.weight")
    assert {one.name: list(one.shape) for one in known_model(families["llama"]["config"]).parameters} != wrong
