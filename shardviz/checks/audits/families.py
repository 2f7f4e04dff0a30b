"""Models known without transformers: families whose parameters, ties and plan a test holds equal to its own classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shardviz.checks.audits.model import Model, Planned
from shardviz.core.errors import FileError
from shardviz.core.placements import Placement, Shard

__all__ = ["FAMILIES", "known_model"]


@dataclass(frozen=True)
class Family:
    """In what a family of decoders differs from Llama.

    Attributes:
        architecture: the class of its causal language model.
        qkv_bias: whether query, key and value have biases whatever the configuration says.
        qk_norm: whether every head of query and key has a norm.
        needs: keys that its configuration class gives other defaults than Llama's, and that must therefore be stated.
    """

    architecture: str
    qkv_bias: bool = False
    qk_norm: bool = False
    needs: tuple[str, ...] = ()


FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM"),
    "mistral": Family("MistralForCausalLM", needs=("num_key_value_heads",)),
    "qwen2": Family("Qwen2ForCausalLM", qkv_bias=True, needs=("num_key_value_heads",)),
    "qwen3": Family("Qwen3ForCausalLM", qk_norm=True, needs=("num_key_value_heads", "head_dim")),
}
"""By `model_type`."""

_COLWISE, _ROWWISE = (Shard(0), "colwise"), (Shard(1), "rowwise")


def known_model(config: Mapping[str, Any]) -> Model:
    """The parameters of a configuration of a known family.

    Raises:
        FileError: of another family, or one that leaves out a size.
    """
    name = config.get("model_type")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    named = config.get("architectures") or [family.architecture if family else None]
    if family is None or named != [family.architecture] or "quantization_config" in config:
        what = f"{name!r} ({', '.join(map(str, named))})" if family else repr(name)
        raise FileError(
            f"without transformers the parameters of {', '.join(one.architecture for one in FAMILIES.values())} are known; "
            f'this is {what}: pip install "shardviz[hf]"'
        )
    missing = [key for key in (*SIZES, *family.needs) if not isinstance(config.get(key), int)]
    if missing:
        raise FileError(f"the configuration has no {' and no '.join(missing)}")
    tied = ("lm_head.weight",) if config.get("tie_word_embeddings") else ()
    rows, hidden = config["vocab_size"], config["hidden_size"]
    first = Planned("model.embed_tokens.weight", (rows, hidden), Shard(0), None, tied, "embedding_rowwise")
    parameters = [first]
    for number in range(config["num_hidden_layers"]):
        parameters += _layer(f"model.layers.{number}", config, family)
    parameters.append(Planned("model.norm.weight", (hidden,)))
    if not tied:
        parameters.append(Planned("lm_head.weight", (rows, hidden), Shard(0), None, (), "colwise_gather_output"))
    heads = config["num_attention_heads"]
    counts = {"num_attention_heads": heads, "num_key_value_heads": config.get("num_key_value_heads") or heads}
    return Model(
        family.architecture, "shardviz's table, equal to transformers' own class", tuple(parameters), True, False, counts
    )


SIZES = ("hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_hidden_layers")


def _layer(prefix: str, config: Mapping[str, Any], family: Family) -> Iterator[Planned]:
    """Attention with grouped keys and values, a gated feed-forward part, and norms."""
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    groups = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or hidden // heads
    bias = bool(config.get("attention_bias"))

    def linear(name: str, rows: int, columns: int, how: tuple[Placement, str], biased: bool) -> Iterator[Planned]:
        cut, style = how
        yield Planned(f"{prefix}.{name}.weight", (rows, columns), cut, None, (), style)
        if biased:
            yield Planned(f"{prefix}.{name}.bias", (rows,), Shard(0) if style == "colwise" else None, None, (), style)

    for one, rows in (("q", heads * width), ("k", groups * width), ("v", groups * width)):
        yield from linear(f"self_attn.{one}_proj", rows, hidden, _COLWISE, bias or family.qkv_bias)
    yield from linear("self_attn.o_proj", hidden, heads * width, _ROWWISE, bias)
    if family.qk_norm:
        for one in ("q", "k"):
            yield Planned(f"{prefix}.self_attn.{one}_norm.weight", (width,), style="replicated_with_grad_allreduce")
    for one in ("gate", "up"):
        yield from linear(f"mlp.{one}_proj", inner, hidden, _COLWISE, bool(config.get("mlp_bias")))
    yield from linear("mlp.down_proj", hidden, inner, _ROWWISE, bool(config.get("mlp_bias")))
    yield Planned(f"{prefix}.input_layernorm.weight", (hidden,))
    yield Planned(f"{prefix}.post_attention_layernorm.weight", (hidden,))
