"""A model as its own class has it: every parameter with its names and where the class's plans cut it; no mesh in sight."""

from __future__ import annotations

from dataclasses import dataclass

from shardviz.core.placements import Placement


@dataclass(frozen=True)
class Planned:
    """One parameter.

    Attributes:
        name: the first of its names.
        shape: of the whole tensor.
        tp: how the tensor-parallel plan cuts it; None where the plan leaves it whole.
        ep: how the expert-parallel plan cuts it; None where it is no expert's.
        tied: further names of the same memory.
    """

    name: str
    shape: tuple[int, ...]
    tp: Placement | None = None
    ep: Placement | None = None
    tied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """All parameters of a model, and what is known of how it cuts them.

    Attributes:
        name: of its class.
        source: where parameters and plans come from, in words: `transformers 5.24.0`.
        parameters: each once, ties under the first name.
        has_tp_plan: whether the class says how tensor parallelism cuts it.
        has_ep_plan: whether it says how experts are dealt out.
        heads: query heads and key-value heads of every kind of attention in it, each pair once.
        experts: of a layer; 0 for a dense model.
        gaps: what was left out, in sentences.
        buffers: name and shape of what a state dict has beside the parameters.
    """

    name: str
    source: str
    parameters: tuple[Planned, ...]
    has_tp_plan: bool
    has_ep_plan: bool = False
    heads: tuple[tuple[int, int], ...] = ()
    experts: int = 0
    gaps: tuple[str, ...] = ()
    buffers: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every name, tied ones too, as a state dict has them."""
        return {name: one.shape for one in self.parameters for name in (one.name, *one.tied)}
