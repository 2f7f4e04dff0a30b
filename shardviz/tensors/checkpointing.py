"""What torch's checkpoints and state dicts are told of DTensors, put in the place of what they would find out themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.utils import find_tensor_shard
from torch.distributed.tensor import DTensor

from shardviz.core.errors import TorchError
from shardviz.tensors.described import Block, Describer, Refused
from shardviz.tensors.reported import Hook, checkpoint_hooks

__all__ = ["replace_checkpointing"]


def replace_checkpointing(describer: Describer) -> Callable[[], None]:
    """Have torch's checkpoints and state dicts take what DTensors hold from `describer`; nothing else in torch asks it.

    A rank's part is saved and loaded as one chunk per block. An asynchronous save describes its tensors before it returns, so
    that it is right when it writes them later, in a thread or in a process of its own.

    Returns:
        What puts torch's functions back.

    Raises:
        TorchError: torch's functions are not the known ones.
    """
    hooks = checkpoint_hooks()

    def create_write_items(self: DTensor, name: str, tensor: DTensor) -> Any:
        found = describer.described(self, name)
        return hooks.write_items.own(self, name, tensor) if found is None else hooks.make_items(name, found)

    def create_chunk_list(self: DTensor) -> Any:
        found = describer.described(self)
        return hooks.chunk_list.own(self) if found is None else hooks.make_chunks(found)

    def get_tensor_shard(self: DTensor, index: MetadataIndex) -> Any:
        found = describer.described(self, index.fqn)
        return hooks.tensor_shard.own(self, index) if found is None else find_tensor_shard(found, index)

    def distribute_tensors(state: dict[str, Any], keys: Sequence[str], device: torch.device, pg: Any = None) -> None:
        for key in keys:
            entry = state.get(key)
            if entry is not None and not torch.is_tensor(entry):
                filled = _filled(describer.held(entry[0], key), *entry)
                state[key] = entry if filled is None else filled
        hooks.distribute.own(state, keys, device, pg)

    def distribute_state_dict(whole: dict[str, Any], state: dict[str, Any], device: torch.device, pg: Any = None) -> None:
        rest = dict(whole)
        for name, full in whole.items():
            shard = state.get(name)
            if isinstance(shard, DTensor) and torch.is_tensor(full) and full.ndim:
                held = describer.held(shard, name)
                if held:
                    state[name] = _cut(held, shard, rest.pop(name).detach().to(device))
        hooks.distribute_all.own(rest, state, device, pg)

    write = HuggingFaceStorageWriter.write_data
    new: list[tuple[Hook, Any]] = [
        (hooks.write_items, create_write_items),
        (hooks.chunk_list, create_chunk_list),
        (hooks.tensor_shard, get_tensor_shard),
        (hooks.distribute, distribute_tensors),
        (hooks.distribute_all, distribute_state_dict),
        (Hook(HuggingFaceStorageWriter, "write_data", write), _block_by_block(write)),
        *((hook, _describing(hook.own, describer)) for hook in hooks.executors),
    ]

    def undo() -> None:
        for hook, _ in new:
            hook.put(hook.own)

    for hook, function in new:
        hook.put(function)
    return undo


def _filled(held: tuple[Block, ...] | None, shard: DTensor, full: torch.Tensor) -> DTensor | None:
    """A shard with its blocks of a whole tensor in it; None where torch's own answer has to do."""
    if not held:
        return None
    if shard.is_meta:
        return _cut(held, shard, full)
    local = shard.to_local().detach()
    for block in held:
        local[block.part].copy_(full[block.whole])
    return shard


def _cut(held: tuple[Block, ...], shard: DTensor, full: torch.Tensor) -> DTensor:
    """A new DTensor like a shard, of its blocks of a whole tensor."""
    if full.shape != shard.shape:
        raise TorchError(f"a tensor of shape {tuple(full.shape)} cannot fill one of shape {tuple(shard.shape)}")
    local = torch.empty(shard.to_local().shape, dtype=full.dtype, device=full.device)
    for block in held:
        local[block.part].copy_(full[block.whole])
    mesh, placements, stride = shard.device_mesh, shard.placements, shard.stride()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shard.shape), stride=stride)


def _describing(executor: type[Any], describer: Describer) -> type[Any]:
    """An executor of asynchronous saves whose tensors say themselves what they hold."""

    class Describing(executor):
        def execute_save(self, staged: Any, **more: Any) -> Any:
            if not isinstance(staged, Future):
                return super().execute_save(_described(staged, describer), **more)
            later: Future[Any] = Future()

            def describe(done: Future[Any]) -> None:
                try:
                    later.set_result(_described(done.result(), describer))
                except BaseException as error:  # whoever waits for it is told
                    later.set_exception(error)

            staged.add_done_callback(describe)
            return super().execute_save(later, **more)

    return Describing


def _described(state: Any, describer: Describer, name: str = "") -> Any:
    """A state dict in which DTensors say themselves what they hold, or why they cannot be saved."""
    if isinstance(state, Mapping):
        return {key: _described(value, describer, f"{name}.{key}" if name else str(key)) for key, value in state.items()}
    if isinstance(state, list):
        return [_described(value, describer, f"{name}.{place}") for place, value in enumerate(state)]
    if not isinstance(state, DTensor):
        return state
    try:
        found = describer.described(state, name)
    except TorchError as error:
        return Refused(str(error))
    return state if found is None else found


def _block_by_block(write: Callable[[Any, SavePlan, Any], Any]) -> Callable[[Any, SavePlan, Any], Any]:
    """Have torch's Hugging Face writer keep each block of a tensor in a file of its own: in one, the last would be left."""

    def write_data(self: Any, plan: SavePlan, planner: Any) -> Any:
        parts: list[list[WriteItem]] = []
        counts: dict[str, int] = {}
        for item in plan.items:
            name, about = item.index.fqn, item.tensor_data
            if about is not None and about.chunk.sizes != about.size and not self.save_distributed:
                raise TorchError(
                    f"{name!r} is not saved: HuggingFaceStorageWriter has save_distributed=False, with which all ranks write "
                    "the same file and only one of them is left; give it save_distributed=True"
                )
            if about is not None and not about.size and self.enable_consolidation:
                raise TorchError(
                    f"{name!r} is not saved: torch {torch.__version__} writes 0 for a tensor without dimensions when it joins "
                    "the files of the ranks; leave it out, or save with enable_consolidation=False"
                )
            place = counts.get(name, 0)
            counts[name] = place + 1
            parts += [[]] * (place == len(parts))
            parts[place] = [*parts[place], item]
        if len(parts) < 2:
            return write(self, plan, planner)
        files = plan.storage_data.get("fqn_to_index_mapping") or dict.fromkeys(counts, 1)
        last, results = max(files.values()), []
        for place, items in enumerate(parts):
            numbered = {name: number + place * last for name, number in files.items()}
            data = {**plan.storage_data, "fqn_to_index_mapping": numbered}
            results += write(self, replace(plan, items=items, storage_data=data), planner).wait()
        written: torch.futures.Future[Any] = torch.futures.Future()
        written.set_result(results)
        return written

    return write_data
