"""Operations tried on a tensor of which one rank holds nothing: which raise there, in which pass, and who then waits for whom.

Nine rows over four ranks are 3, 3, 3 and 0. Each operation is called as people call it, on every rank at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

from shardviz.checks.audits.probe import tensors_in, wait_for
from shardviz.checks.audits.trials import Trials
from shardviz.core.runs import Runs

__all__ = ["OPERATIONS", "try_operations"]

ROWS = 9
WIDTH = 4


def _of_rows(operation: Callable[[Any], Any], shape: tuple[int, ...] = (ROWS, WIDTH)) -> Callable[[DeviceMesh], Any]:
    """An operation on a tensor that is cut by rows."""

    def call(mesh: DeviceMesh) -> Any:
        whole = torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)
        return operation(distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None).requires_grad_())

    return call


def _layer(module: Callable[[], nn.Module], style: Any, given: Callable[[], torch.Tensor]) -> Callable[[DeviceMesh], Any]:
    """The forward pass of a layer in a style of tensor parallelism."""

    def call(mesh: DeviceMesh) -> Any:
        model = parallelize_module(nn.Sequential(module()), mesh, {"0": style()})
        return model(given())

    return call


def _clipped(norm_type: float) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        parameter = nn.Parameter(x.detach())
        parameter.grad = parameter.detach() * 1.0
        return nn.utils.clip_grad_norm_([parameter], 1.0, norm_type=norm_type)

    return call


def _stepped(optimizer: Callable[..., Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        parameter = nn.Parameter(x.detach())
        parameter.grad = parameter.detach() * 1.0
        optimizer([parameter], lr=0.1).step()
        return parameter.detach()

    return call


def _cross_entropy(mesh: DeviceMesh) -> Any:
    logits = torch.arange(float(2 * ROWS)).view(2, ROWS)
    cut = distribute_tensor(logits, mesh, [Shard(1)], src_data_rank=None).requires_grad_()
    with loss_parallel():
        return F.cross_entropy(cut, distribute_tensor(torch.tensor([0, 8]), mesh, [Replicate()], src_data_rank=None))


OPERATIONS: dict[str, Callable[[DeviceMesh], Any]] = {
    "embedding cut by rows": _layer(
        lambda: nn.Embedding(ROWS, WIDTH), lambda: RowwiseParallel(input_layouts=Replicate()), lambda: torch.arange(3)
    ),
    "embedding cut by columns": _layer(lambda: nn.Embedding(3, ROWS), ColwiseParallel, lambda: torch.arange(3)),
    "linear layer, column-wise": _layer(lambda: nn.Linear(WIDTH, ROWS), ColwiseParallel, lambda: torch.ones(2, WIDTH)),
    "linear layer, row-wise": _layer(
        lambda: nn.Linear(ROWS, WIDTH), lambda: RowwiseParallel(input_layouts=Replicate()), lambda: torch.ones(2, ROWS)
    ),
    "loss-parallel cross-entropy": _cross_entropy,
    "max()": _of_rows(torch.max),
    "min()": _of_rows(torch.min),
    "amax()": _of_rows(torch.amax),
    "amin()": _of_rows(torch.amin),
    "argmax()": _of_rows(torch.argmax),
    "argmin()": _of_rows(torch.argmin),
    "max(dim=0)": _of_rows(lambda x: torch.max(x, 0)),
    "amax(dim=0)": _of_rows(lambda x: torch.amax(x, 0)),
    "argmax(dim=0)": _of_rows(lambda x: torch.argmax(x, 0)),
    "max(dim=1)": _of_rows(lambda x: torch.max(x, 1)),
    "argmax(dim=1)": _of_rows(lambda x: torch.argmax(x, 1)),
    "infinity norm": _of_rows(lambda x: torch.linalg.vector_norm(x, float("inf"))),
    "2-norm": _of_rows(torch.linalg.vector_norm),
    "1-norm": _of_rows(lambda x: torch.linalg.vector_norm(x, 1)),
    "clip_grad_norm_, infinity norm": _of_rows(_clipped(float("inf"))),
    "clip_grad_norm_, 2-norm": _of_rows(_clipped(2.0)),
    "sum()": _of_rows(torch.sum),
    "mean()": _of_rows(torch.mean),
    "std()": _of_rows(torch.std),
    "var()": _of_rows(torch.var),
    "any()": _of_rows(lambda x: (x > 2).any()),
    "all()": _of_rows(lambda x: (x > 0).all()),
    "softmax(dim=0)": _of_rows(lambda x: torch.softmax(x, 0)),
    "logsumexp(dim=0)": _of_rows(lambda x: torch.logsumexp(x, 0)),
    "cumsum(dim=0)": _of_rows(lambda x: torch.cumsum(x, 0)),
    "sort(dim=0)": _of_rows(lambda x: torch.sort(x, 0)),
    "topk(dim=0)": _of_rows(lambda x: torch.topk(x, 2, 0)),
    "median()": _of_rows(torch.median),
    "layer_norm": _of_rows(lambda x: F.layer_norm(x, (WIDTH,))),
    "isfinite().all()": _of_rows(lambda x: torch.isfinite(x).all()),
    "equal": _of_rows(lambda x: torch.tensor(torch.equal(x, x))),
    "full_tensor()": _of_rows(lambda x: x.full_tensor()),
    "AdamW.step()": _of_rows(_stepped(torch.optim.AdamW)),
    "AdamW.step(), foreach": _of_rows(_stepped(lambda *a, **k: torch.optim.AdamW(*a, **k, foreach=True))),
}
"""By name: the operation on a mesh of four ranks; what it gives is differentiated where it can be."""


def try_operations(trials: Trials, names: list[str]) -> None:
    """Called in a rank: every named operation, and the backward pass of what it gives."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for name in names:
        out: list[torch.Tensor] = []

        def forward(name: str = name, out: list[torch.Tensor] = out) -> Runs:
            out[:] = tensors_in(OPERATIONS[name](mesh))
            for tensor in out:  # its value is wanted: until then torch neither waits nor reduces
                wait_for(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor)
            return ()

        def backward(forward: Callable[[], Runs] = forward, out: list[torch.Tensor] = out) -> Runs:
            if not out:
                forward()
            for tensor in out:
                if tensor.requires_grad:
                    tensor.sum().backward()
                    break
            return ()

        if trials(f"{name}|forward", forward):
            trials(f"{name}|backward", backward)
