"""Run as a program: for small configurations of many families, what shardviz's reader says and what transformers itself does.

What transformers does is read off another way than the reader's: its own resolved plan, put on the model by its own
`apply_tensor_parallelism`, or by `apply_expert_parallelism`'s style for parameters, on a mesh of one pretended rank.
"""

import json
import logging
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM

from shardviz.checks.audits.building import described

SMALL = {
    "vocab_size": 33,
    "hidden_size": 32,
    "intermediate_size": 24,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def small(family):
    plain = AutoConfig.for_model(family).get_text_config()
    known = {key: value for key, value in SMALL.items() if hasattr(plain, key)}
    if isinstance(getattr(plain, "layer_types", None), list):
        known["layer_types"] = plain.layer_types[:2]
    return type(plain)(**known)


def real(config):
    """Names, shapes, ties and placements, by transformers' own hands."""
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    def fresh(tied):
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        if tied:
            model.tie_weights()
        elif model.get_output_embeddings() is not None:  # the plan is put on before the weights are tied
            head = model.get_output_embeddings()
            head.weight = torch.nn.Parameter(head.weight.detach().clone())
        return model

    model = fresh(True)
    shapes = {name: list(tensor.shape) for name, tensor in model.named_parameters()}
    first = {}
    ties = {name: first.setdefault(id(one), name) for name, one in model.named_parameters(remove_duplicate=False)}
    cuts = {}
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    for kind in ("tp", "ep"):
        if not getattr(model, f"{kind}_plan"):
            continue
        sizes = {"tp_size": 2} if kind == "tp" else {"fsdp_size": 2, "ep_size": 2}
        model = fresh(False)
        tp, ep, _ = model._resolve_parallel_plans(DistributedConfig(**sizes))
        if kind == "tp":
            apply_tensor_parallelism(model, mesh, tp)
        else:
            parameters = {name for name, _ in model.named_parameters()}
            apply_tensor_parallelism(model, mesh, {name: style for name, style in ep.items() if name in parameters})
        placed = {n: str(p.placements[0]) for n, p in model.named_parameters() if isinstance(p, DTensor)}
        cuts[kind] = {name: cut for name, cut in placed.items() if name in shapes}
    return shapes, ties, cuts


def main():
    logging.disable(logging.WARNING)
    dist.init_process_group("fake", rank=0, world_size=1)
    for family in sys.argv[1:]:
        try:
            config = small(family)
            shapes, ties, cuts = real(config)
            with tempfile.TemporaryDirectory() as folder:
                config.architectures = [AutoModelForCausalLM._model_mapping[type(config)].__name__]
                config.save_pretrained(folder)
                said = described(folder)
                with open(f"{folder}/config.json") as file:
                    document = json.load(file)
            answer = {"said": said, "shapes": shapes, "ties": ties, "cuts": cuts, "config": document}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"family": family, **answer}))


if __name__ == "__main__":
    main()
