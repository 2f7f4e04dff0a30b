"""A model as its own class has it: every parameter with its names and where the class's plans cut it; no mesh in sight."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shardviz.core.placements import Placement


@dataclass(frozen=True)
class Planned:
    """One parameter.

    Attributes:
        name: the first of its names.
        shape: of the whole tensor.
        tp: how the tensor-parallel plan cuts it; None where the plan leaves it whole.
        style: what the plan calls that ("colwise", "embedding_rowwise"); "" where it names it not.
        ep: how the expert-parallel plan cuts it; None where it is no expert's.
        tied: further names of the same memory.
    """

    name: str
    shape: tuple[int, ...]
    tp: Placement | None = None
    ep: Placement | None = None
    tied: tuple[str, ...] = ()
    style: str = ""


@dataclass(frozen=True)
class Model:
    """All parameters of a model, and what is known of how it cuts them.

    Attributes:
        name: of its class.
        source: where parameters and plans come from, in words: `transformers 5.24.0`.
        parameters: each once, ties under the first name.
        has_tp_plan: whether the class says how tensor parallelism cuts it.
        has_ep_plan: whether it says how experts are dealt out.
        heads: how many heads it has, by the configuration's names for them.
        gaps: what was left out, in sentences.
        apart: the expert weights whose checkpoints hold every expert by itself.
        itemsize: bytes of an element of the weights; 0 where it is not known.
        buffers: name and shape of what a state dict has beside the parameters.
    """

    name: str
    source: str
    parameters: tuple[Planned, ...]
    has_tp_plan: bool
    has_ep_plan: bool = False
    heads: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    buffers: tuple[tuple[str, tuple[int, ...]], ...] = ()
    apart: frozenset[str] = frozenset()
    itemsize: int = 0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every name, tied ones too, as a state dict has them."""
        return {name: one.shape for one in self.parameters for name in (one.name, *one.tied)}

    @property
    def kinds(self) -> dict[str, tuple[Planned, ...]]:
        """Parameters that differ in the number of their layer alone, under the name of the first."""
        alike: dict[tuple[object, ...], list[Planned]] = {}
        for one in self.parameters:
            alike.setdefault((re.sub(r"\d+", "*", one.name), one.shape, one.tp, one.ep, one.style), []).append(one)
        return {group[0].name: tuple(group) for group in alike.values()}

    def thinned(self) -> Model:
        """With one parameter of every kind: all that a map of meshes needs."""
        return replace(self, parameters=tuple(group[0] for group in self.kinds.values()))
