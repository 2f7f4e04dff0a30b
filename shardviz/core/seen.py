"""What a rank was seen to hold of a live tensor: facts that are set beside a computed layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Seen", "seen_here"]


@dataclass(frozen=True)
class Seen:
    """What one rank holds of a tensor, and believes of it.

    Attributes:
        rank: its number.
        shape: the local shape.
        whole: the global shape, as this rank has it.
    """

    rank: int
    shape: tuple[int, ...]
    whole: tuple[int, ...]

    def misfit(self, computed: Sequence[int], whole: Sequence[int]) -> str:
        """How it differs from what is computed, in words, or "".

        Example:
            >>> Seen(1, (1, 3), (2, 3)).misfit((2, 3), (4, 3))
            'holds (1, 3) where (2, 3) is computed, and takes the whole to be (2, 3)'
        """
        said = []
        if self.shape != tuple(computed):
            said.append(f"holds {self.shape} where {tuple(computed)} is computed")
        if self.whole != tuple(whole):
            said.append(f"takes the whole to be {self.whole}")
        return ", and ".join(said)


def seen_here(dtensor: Any) -> Seen | None:
    """What this process holds of a live DTensor; None where its rank is not in the mesh. Nobody else is asked."""
    coordinate = dtensor.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    rank = int(dtensor.device_mesh.mesh[tuple(coordinate)])
    return Seen(rank, tuple(dtensor.to_local().shape), tuple(dtensor.shape))
