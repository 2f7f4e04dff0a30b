"""Scenarios on real ranks: small things that people do with sharded models. Imported on both sides: no torch at the top.

Each is called in every rank at the same time (`ranks.apply(training, 5, {"dp": 2, "tp": 2})`), takes plain arguments, and gives
plain results; those whose names begin with `one_` or are `stack` build a model, for an audit on ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Training", "checkpoint", "full_state", "one_weight", "stack", "training"]


@dataclass(frozen=True)
class Training:
    """Steps of training on one rank, beside a single process that sees the data of all.

    Attributes:
        losses: this rank's, step by step.
        reference: what the single process has for the same data.
        before: parameters whose `full_tensor()` was not the single process' before training; none is right.
        after: the same after it.
    """

    losses: tuple[float, ...]
    reference: tuple[float, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def one_weight(text: str) -> nn.Module:
    """A model of one parameter, sharded as a spec says: FSDP2 makes the leftmost cut, over what is cut behind it."""
    from shardviz.ranks.scenarios import models

    return models.one_weight(text)


def stack(width: int, mesh: Mapping[str, int], layers: int = 3, multiplier: int = 3) -> nn.Module:
    """A stack of multi-layer perceptrons under FSDP2 over tensor parallelism, or whichever of them the mesh has."""
    from shardviz.ranks.scenarios import models

    return models.sharded_stack(width, mesh, layers=layers, multiplier=multiplier)


def training(width: int, mesh: Mapping[str, int], reshard: bool = True, recompute: bool = False, steps: int = 3) -> Training:
    """Train a stack under FSDP2 (replicated too, where the mesh has `rep`) over tensor parallelism, and a single process alike.

    Args:
        width: of the perceptrons, 3 × or 4 × as wide inside.
        mesh: sizes by name: `rep` (if any), `dp`, `tp`.
        reshard: whether parameters are sharded again after the forward pass.
        recompute: whether activations are computed again in the backward pass.
        steps: how many.
    """
    from shardviz.ranks.scenarios import parity

    return parity.training(width, mesh, reshard, recompute, steps)


def full_state(width: int, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Gather the full state dict of a stack; the entries that rank 0 has wrongly, or that another rank has at all."""
    from shardviz.ranks.scenarios import states

    return states.full_state(width, mesh)


def checkpoint(width: int, mesh: Mapping[str, int], directory: str, left_out: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Train a step under FSDP2 over tensor parallelism, save, and load with tensor parallelism alone over all ranks.

    Args:
        width: of the perceptrons, which are not wider inside.
        mesh: sizes by name: `dp`, `tp`.
        directory: where the checkpoint goes; the same on every rank.
        left_out: modules that tensor parallelism leaves out, and so holds on every rank.

    Returns:
        The entries of model and optimizer that came back wrong.
    """
    from shardviz.ranks.scenarios import states

    return states.checkpoint(width, mesh, directory, left_out)
