"""Run as a program: build a configuration's class on the meta device, and print its parameters, ties and plans.

It runs in a process of its own, for it makes a process group of one pretended rank and imports transformers.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor


def described(folder: str) -> dict[str, Any]:
    """The model of the configuration in a folder, as plain data (see `model.Model`)."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    gaps = []
    if getattr(config, "quantization_config", None) is not None:
        gaps.append("the quantization_config was left out: parameters are the class's own, unquantized")
        del config.quantization_config
    model = _built(config, transformers)
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    whole = dict(model.named_parameters())
    plans = model.tp_plan or {}, getattr(model, "ep_plan", None) or {}
    (tp, styles), (ep, _) = _placements(model, plans[0]), _placements(model, plans[1])
    text = config.get_text_config()
    parameters = {name for some in names.values() for name in some}
    return {
        "name": type(model).__name__,
        "source": f"transformers {transformers.__version__}",
        "parameters": [
            [
                name,
                list(one.shape),
                tp.get(name),
                ep.get(name),
                [other for other in names[id(one)] if other != name],
                styles.get(name, ""),
            ]
            for name, one in whole.items()
        ],
        "tp": bool(plans[0]),
        "ep": bool(plans[1]),
        "heads": {key: count for key in HEADS if isinstance(count := getattr(text, key, None), int)},
        "apart": _apart(model, list(whole)),
        "itemsize": torch.empty(0, dtype=config.dtype or torch.float32).element_size(),
        "gaps": gaps,
        "buffers": [[name, list(one.shape)] for name, one in model.state_dict().items() if name not in parameters],
    }


HEADS = ("num_attention_heads", "num_key_value_heads")


def _built(config: Any, transformers: Any) -> Any:
    """The class that the configuration names, else the one for causal language models, else the bare one."""
    named = [getattr(transformers, name, None) for name in config.architectures or ()]
    with torch.device("meta"):
        model: Any
        if named and named[0] is not None:
            model = named[0](config)
        elif type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
            model = transformers.AutoModelForCausalLM.from_config(config)
        else:
            model = transformers.AutoModel.from_config(config)
    model.tie_weights()
    return model


def _placements(model: Any, plan: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """How a plan cuts each parameter, and its style: transformers' own styles do it, on a mesh of one pretended rank."""
    from transformers.integrations.tensor_parallel import ALL_PARALLEL_STYLES, replace_layer_number_by_wildcard

    mesh = DeviceMesh("cpu", [0], mesh_dim_names=("tp",))
    cut, styles = {}, {}
    for module_name, module in model.named_modules():
        for own in [key for key, parameter in module.named_parameters(recurse=False) if parameter is not None]:
            name = f"{module_name}.{own}" if module_name else own
            pattern = replace_layer_number_by_wildcard(name)
            style = plan.get(pattern) or plan.get(pattern.rpartition(".")[0])
            if style is None:
                continue
            styles[name] = style
            before = module._parameters[own]
            ALL_PARALLEL_STYLES[style].shard_param(module, own, mesh)
            after = module._parameters[own]
            module._parameters[own] = before
            if isinstance(after, DTensor):
                cut[name] = str(after.placements[0])
    return cut, styles


def _apart(model: Any, names: list[str]) -> list[str]:
    """The weights that transformers puts together of single experts when it loads a checkpoint."""
    from transformers.conversion_mapping import get_model_conversion_mapping

    ends = [
        target
        for one in get_model_conversion_mapping(model)
        for target in one.target_patterns
        if any(".experts.*" in source for source in one.source_patterns)
    ]
    return [name for name in names if any(name.endswith(end) for end in ends)]


def main() -> None:
    """The folder of a configuration is the argument; one line of JSON is the answer, an error its reason."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=1)
    try:
        answer = described(sys.argv[1])
    except Exception as error:  # whatever a class does not like about its configuration is told by the parent
        answer = {"error": f"{type(error).__name__}: {error}" if str(error) else type(error).__name__}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
