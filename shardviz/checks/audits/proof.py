"""The same verdict by torch itself, without a rank: its report for every coordinate, and its own check of a save plan."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

from shardviz.checks.audits.parameter import Parameter
from shardviz.core.errors import TorchError
from shardviz.core.spec import Spec
from shardviz.tensors.reported import shape_and_offset_at

__all__ = ["prove", "torch_refuses"]


def torch_refuses(spec: Spec) -> str:
    """What torch's planner says against saving such a tensor, by torch's own report for every rank; "" for nothing."""
    ask = shape_and_offset_at(spec)
    plans = [SavePlan([_item(spec, *ask(coordinate))]) for coordinate in spec.mesh.coordinates]
    try:
        DefaultSavePlanner(flatten_state_dict=False).create_global_plan(plans)
    except ValueError as refusal:
        return str(refusal)
    return ""


def prove(parameters: Iterable[Parameter]) -> None:
    """Have torch check every save plan.

    Raises:
        TorchError: it says otherwise than the findings.
    """
    asked: dict[Spec, str] = {}
    for one in parameters:
        kinds = {found.kind for found in one.findings}
        if "sharding-refused" in kinds:
            continue
        if one.spec not in asked:
            asked[one.spec] = torch_refuses(one.spec)
        if bool(asked[one.spec]) != ("checkpoint-refused" in kinds):
            said = asked[one.spec] or "that the plan is valid"
            raise TorchError(f"torch {torch.__version__} says otherwise than shardviz of {one.name} {one.spec}: {said}")


def _item(spec: Spec, shape: Iterable[int], offset: Iterable[int]) -> WriteItem:
    first = torch.Size(offset)
    return WriteItem(
        MetadataIndex("it", first),
        WriteItemType.SHARD,
        tensor_data=TensorWriteData(
            ChunkStorageMetadata(first, torch.Size(shape)), TensorProperties(torch.float32), torch.Size(spec.shape)
        ),
    )
