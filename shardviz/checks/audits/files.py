"""Parameters from files: headers of safetensors, or a Hugging Face `config.json`, with the usual tensor parallelism by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from shardviz.checks.audits.mesh import Grid
from shardviz.core.errors import FileError, SpecError
from shardviz.core.notation import read_placements
from shardviz.core.spec import Spec

__all__ = ["RULES", "file_specs", "placed_by_rules", "shapes_of"]

RULES: Mapping[str, str] = {
    "*embed_tokens.weight": "S(0)",
    "*word_embeddings.weight": "S(0)",
    "*wte.weight": "S(0)",
    "*lm_head.*": "S(0)",
    "*.[qkv]_proj.*": "S(0)",
    "*.q_b_proj.*": "S(0)",
    "*.kv_b_proj.*": "S(0)",
    "*.gate_proj.*": "S(0)",
    "*.up_proj.*": "S(0)",
    "*.o_proj.weight": "S(1)",
    "*.down_proj.weight": "S(1)",
    "*.mlp.c_fc.weight": "S(1)",
    "*.mlp.c_proj.weight": "S(0)",
    "*": "R",
}
"""Tensor parallelism as it is usually done, by name: the first pattern that fits. Every other model dimension replicates."""

FAMILIES = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "granite", "olmo", "olmo2", "phi", "starcoder2"),
    *("stablelm", "cohere", "exaone", "smollm3", "gpt2"),
)
"""Values of `model_type` whose parameters are made up from a configuration."""


def file_specs(path: Path, grid: Grid, rules: Mapping[str, str]) -> list[tuple[str, Spec]]:
    """The parameters of a file on a mesh, by the rules given and then the usual ones.

    Raises:
        FileError: the file cannot be read as what its name says.
        SpecError: a rule cuts a tensor dimension that a parameter does not have.
    """
    return list(placed_by_rules(shapes_of(path), grid, rules))


def placed_by_rules(shapes: Mapping[str, Sequence[int]], grid: Grid, rules: Mapping[str, str]) -> Iterator[tuple[str, Spec]]:
    """Each parameter with its spec on a mesh."""
    everything = {**rules, **{pattern: rule for pattern, rule in RULES.items() if pattern not in rules}}
    for name, shape in shapes.items():
        pattern, rule = next((p, r) for p, r in everything.items() if fnmatchcase(name, p))
        try:
            yield name, grid.spec(shape, _for_model(rule, grid))
        except SpecError as error:
            raise SpecError(f"{name} {list(shape)} by the rule {pattern}={rule}: {error}") from error


def _for_model(rule: str, grid: Grid) -> str:
    """A rule for one model dimension applies to the last (tp); those before it (ep) replicate."""
    if not grid.model:
        return ""
    missing = len(grid.model) - len(read_placements(rule))
    return ", ".join([*["R"] * missing, rule])


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the parameters in a file; of safetensors the headers alone are read.

    Raises:
        FileError: it is not there, or is not what its name says.
    """
    if path.exists() and not (path.is_dir() or path.is_file()):
        raise FileError(f"{path} is no regular file")
    if path.is_dir():
        usual = ("model.safetensors.index.json", "model.safetensors", "config.json")
        path = next((path / name for name in usual if (path / name).exists()), path)
    try:
        if path.suffix == ".safetensors":
            return _headers(path)
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise FileError(f"{path} is neither an index of safetensors nor a configuration")
    if "weight_map" in document:
        found: dict[str, tuple[int, ...]] = {}
        for name in sorted(set(document["weight_map"].values())):
            found |= _headers(path.parent / name)
        return found
    return _from_config(document.get("text_config", document), path)


def _headers(path: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path} cannot be read as safetensors: {error}") from error


def _from_config(config: Mapping[str, Any], path: Path) -> dict[str, tuple[int, ...]]:
    """The parameters of a decoder as its family names them."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise FileError(f"{path}: parameters can be made up for model_type {', '.join(FAMILIES)}; this one is {family!r}")
    try:
        return _gpt2(config) if family == "gpt2" else _llama(config)
    except KeyError as error:
        raise FileError(f"{path}: the configuration has no {error.args[0]}") from error


def _llama(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Embedding, attention with grouped keys and values, a gated feed-forward part, and norms: the layers of most decoders."""
    hidden, inner, vocabulary = (config[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
    heads = config["num_attention_heads"]
    groups = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or hidden // heads
    layer = {
        "self_attn.q_proj": (heads * width, hidden),
        "self_attn.k_proj": (groups * width, hidden),
        "self_attn.v_proj": (groups * width, hidden),
        "self_attn.o_proj": (hidden, heads * width),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for number in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (vocabulary, hidden)
    return shapes


def _gpt2(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """GPT-2, whose linear layers keep their weights transposed."""
    hidden = config["n_embd"]
    inner = config.get("n_inner") or 4 * hidden
    layer = {
        "attn.c_attn": (hidden, 3 * hidden),
        "attn.c_proj": (hidden, hidden),
        "mlp.c_fc": (hidden, inner),
        "mlp.c_proj": (inner, hidden),
        "ln_1": (hidden,),
        "ln_2": (hidden,),
    }
    tokens, positions = (config["vocab_size"], hidden), (config["n_positions"], hidden)
    shapes = {"transformer.wte.weight": tokens, "transformer.wpe.weight": positions}
    for number in range(config["n_layer"]):
        shapes |= {f"transformer.h.{number}.{name}.weight": shape for name, shape in layer.items()}
    return {**shapes, "transformer.ln_f.weight": (hidden,)}
