"""Tensors whose values say which element they are, and how to read them back from any buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from shardviz.core.placements import Partial
from shardviz.core.runs import Run, Runs, joined, padding, unknown
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Marks"]

_PADDING, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class Marks:
    """Values that name the elements of one global tensor: every element is its own flat index, exact to 2⁵³.

    Element 0 is written as −0.0. It is the same number, but its sign tells it from padding, which torch fills with +0.0.

    Args:
        shape: the global shape.
        first: the value of element 0; 1 where values are to be multiplied, which would lose the sign of a zero.

    Example:
        >>> five = Marks((5,))
        >>> five.tensor().tolist()
        [-0.0, 1.0, 2.0, 3.0, 4.0]
        >>> five.read(torch.tensor([-0.0, 1.0, 3.0, 0.0])).axes  # the last slot is padding
        (((0, 2), (3, 4), (-1, 0)),)
    """

    shape: tuple[int, ...]
    first: int = 0

    @classmethod
    def of(cls, spec: Spec) -> Marks:
        """The marks for a spec."""
        return cls(spec.shape, int(Partial("product") in spec.placements))

    def tensor(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """The whole tensor, in float64."""
        values = torch.arange(self.first, self.first + math.prod(self.shape), dtype=torch.float64, device=device)
        if not self.first:
            values[:1] = -0.0
        return values.view(self.shape)

    def read(self, buffer: torch.Tensor, reduced: Sequence[tuple[str, int]] = (), pending: tuple[int, ...] = ()) -> Buffer:
        """Which global element stands in every slot of a buffer.

        Args:
            buffer: any tensor made of the marks, padding included.
            reduced: the reductions that the buffer went through, each an op and its number of addends, all of them marks.
            pending: the mesh dimensions over which the buffer is still an addend.

        Returns:
            The contents as runs per dimension where they are such a product, else as flat runs.
        """
        flat = self._flat_indices(buffer, reduced)
        axes = _product(flat, self.shape) if flat.ndim == len(self.shape) else None
        if axes is None:
            return Buffer((), tuple(buffer.shape), _runs(flat.reshape(-1).tolist()), pending)
        return Buffer(axes, tuple(buffer.shape), None, pending)

    def _flat_indices(self, buffer: torch.Tensor, reduced: Sequence[tuple[str, int]]) -> npt.NDArray[np.int64]:
        """The flat global index in every slot; −1 for padding, −2 for anything else."""
        values = buffer.detach().to("cpu", torch.float64)
        index = values
        for op, addends in reversed(reduced):
            if op == "sum":
                index = index / addends
            elif op == "product":
                root = index.abs().pow(1 / addends).round()
                index = torch.where(root.pow(addends) == index, root, torch.full_like(root, torch.nan))
        index = index - self.first
        known = torch.isfinite(index) & (index == index.round()) & (index >= 0) & (index < math.prod(self.shape))
        found = torch.where(known, index, torch.full_like(index, _UNKNOWN)).to(torch.int64)
        found[(values == 0) & ~torch.signbit(values)] = _PADDING
        array: npt.NDArray[np.int64] = found.numpy()
        return array


def _product(flat: npt.NDArray[np.int64], shape: Sequence[int]) -> tuple[Runs, ...] | None:
    """The slots as one list of indices per dimension, where the buffer is their product; None where it is not."""
    import numpy as np

    if not flat.size:
        return tuple(((0, size),) if 0 < size == count else () for size, count in zip(shape, flat.shape, strict=True))
    if not shape:
        return () if flat.item() == 0 else None
    if (flat == _UNKNOWN).any():
        return None
    data = flat >= 0
    lists = []
    for dim, coordinates in enumerate(np.unravel_index(np.where(data, flat, 0), tuple(shape))):
        others = tuple(other for other in range(flat.ndim) if other != dim)
        lists.append(np.where(data, coordinates, _PADDING).max(axis=others))
    grids = np.meshgrid(*lists, indexing="ij")
    whole = np.all([grid >= 0 for grid in grids], axis=0)
    rebuilt = np.ravel_multi_index([np.maximum(grid, 0) for grid in grids], tuple(shape))
    if not np.array_equal(np.where(whole, rebuilt, _PADDING), flat):
        return None
    return tuple(_runs(indices.tolist()) for indices in lists)


def _runs(indices: Sequence[int]) -> Runs:
    def run(index: int) -> Run:
        if index >= 0:
            return (index, index + 1)
        return padding(1) if index == _PADDING else unknown(1)

    return joined(map(run, indices))
