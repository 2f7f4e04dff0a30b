"""The four placements: how one mesh dimension holds a tensor."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from shardviz.core.errors import SpecError
from shardviz.core.whole import whole

__all__ = ["Partial", "Placement", "Replicate", "Shard", "StridedShard"]


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every rank of the mesh dimension holds the whole of what reaches it.

    Example:
        >>> print(Replicate())
        R
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Shard:
    """Tensor dimension `dim` is cut into as many chunks as the mesh dimension has ranks.

    Args:
        dim: tensor dimension; a negative one counts from the last (a `Spec` normalises it).

    Raises:
        SpecError: the tensor dimension is no whole number.

    Example:
        >>> from shardviz.core.layout import layout
        >>> [rank.shape for rank in layout("[6] on tp=4: S(0)")]  # ceil(6 / 4) = 2: 2 + 2 + 2 + 0
        [(2,), (2,), (2,), (0,)]
    """

    dim: int

    def __post_init__(self) -> None:
        _whole(self, "dim")

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, slots=True)
class StridedShard:
    """Tensor dimension `dim` is cut after `split_factor` later cuts (torch's `_StridedShard`).

    FSDP2 over tensor parallelism makes it: the parameter is already cut by `tp`, and `dp`, which stands to the left of
    `tp` in the mesh, cuts what is left. The split factor says how many pieces the dimension was in before this cut.

    Args:
        dim: tensor dimension; a negative one counts from the last (a `Spec` normalises it).
        split_factor: number of pieces, 1 or more; 1 is a plain cut.

    Raises:
        SpecError: the tensor dimension or the split factor is no whole number, or the split factor is below 1.

    Example:
        >>> from shardviz.core.layout import layout
        >>> by_tp_first = layout("[5] on dp=2, tp=2: _S(0, 2), S(0)")  # 0 1 2 | 3 4, then 0 1 | 2 and 3 | 4
        >>> [rank.runs[0] for rank in by_tp_first]
        [((0, 2),), ((3, 4),), ((2, 3),), ((4, 5),)]
    """

    dim: int
    split_factor: int

    def __post_init__(self) -> None:
        _whole(self, "dim")
        _whole(self, "split_factor")
        if self.split_factor < 1:
            raise SpecError(f"{self}: a split factor is the number of pieces to cut into, so 1 or more")

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every rank of the mesh dimension holds an addend of the whole; `op` reduces them.

    Args:
        op: name of the reduction, such as `"sum"`, `"avg"`, `"max"`, `"min"` or `"product"`.

    Raises:
        SpecError: the name is no word.

    Example:
        >>> print(Partial(), Partial("avg"))
        P(sum) P(avg)
    """

    op: str = "sum"

    def __post_init__(self) -> None:
        if not isinstance(self.op, str) or not re.fullmatch(r"[A-Za-z_]\w*", self.op):
            raise SpecError(f"Partial({self.op!r}): a pending reduction is named, such as 'sum', 'avg' or 'max'")

    def __str__(self) -> str:
        return f"P({self.op})"


Placement: TypeAlias = Replicate | Shard | StridedShard | Partial


def _whole(placement: Placement, name: str) -> None:
    """Make a field of a placement a plain integer."""
    given = getattr(placement, name)
    number = whole(given)
    if number is None:
        raise SpecError(f"{placement}: {given!r} is no whole number; a tensor dimension and a split factor are")
    object.__setattr__(placement, name, number)
