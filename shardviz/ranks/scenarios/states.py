"""State dicts of sharded models: gathered in full, and saved under one parallelism to be loaded under another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from shardviz.core.mesh import Mesh
from shardviz.ranks.scenarios.models import Stack, device_mesh, parallelize, whole_stack

__all__ = ["checkpoint", "full_state"]


def full_state(width: int, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """See `scenarios.full_state`."""
    alone = whole_stack(width, 3, 3)
    model = parallelize(whole_stack(width, 3, 3), device_mesh(Mesh(dict(sizes))))
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank():
        return tuple(state)
    right = alone.state_dict()
    return tuple(name for name in right if name not in state or not torch.equal(_tensor(state[name]), right[name].cpu()))


def checkpoint(width: int, sizes: Mapping[str, int], directory: str, left_out: Sequence[str]) -> tuple[str, ...]:
    """See `scenarios.checkpoint`."""
    model = parallelize(whole_stack(width, 3, 1), device_mesh(Mesh(dict(sizes))), left_out=left_out)
    optimizer = _stepped(model, width)
    saved = dict(_tensors(*get_state_dict(model, optimizer)))
    save(dict(zip(("model", "optim"), get_state_dict(model, optimizer), strict=True)), checkpoint_id=directory)

    other = parallelize(whole_stack(width, 3, 1), device_mesh(Mesh({"tp": dist.get_world_size()})), left_out=left_out)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    fresh = torch.optim.AdamW(other.parameters(), lr=0.1, foreach=False)
    weights, moments = get_state_dict(other, fresh)
    state = {"model": weights, "optim": moments}
    load(state, checkpoint_id=directory)
    set_state_dict(other, fresh, model_state_dict=state["model"], optim_state_dict=state["optim"])  # type: ignore[arg-type]
    loaded = dict(_tensors(*get_state_dict(other, fresh)))
    return tuple(name for name in saved if name not in loaded or not torch.equal(saved[name], loaded[name]))


def _stepped(model: Stack, width: int) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    device = next(model.parameters()).device
    out = model(torch.rand(1, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(device))
    out.sum().backward()
    optimizer.step()
    return optimizer


def _tensors(*states: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of nested state dicts, put together, by its path."""
    waiting: list[tuple[str, Any]] = [(str(number), state) for number, state in enumerate(states)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{name}.{key}", item) for key, item in value.items()]
        elif isinstance(value, torch.Tensor):
            yield name, _tensor(value)


def _tensor(value: Any) -> torch.Tensor:
    whole: torch.Tensor = value.full_tensor() if isinstance(value, DTensor) else value
    return whole.detach().cpu().clone()
