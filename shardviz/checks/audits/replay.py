"""How torch 2.8 and 2.9 put a tensor together: shapes and offsets are right there, and `full_tensor()` often is not."""

from __future__ import annotations

from functools import lru_cache

from shardviz.checks.audits.kinds import Finding
from shardviz.checks.audits.lines import fsdp_cut, question
from shardviz.core.errors import SpecError
from shardviz.core.outcome import outcome
from shardviz.core.spec import Spec
from shardviz.core.unshuffle import unshuffle

__all__ = ["replayed"]

MOST_RANKS = 64
"""On larger meshes a replay takes minutes."""


def replayed(spec: Spec) -> tuple[Finding | None, str]:
    """What comes of `full_tensor()` on torch 2.8 and 2.9, and why that could not be told, or "".

    Example:
        >>> from shardviz.core.spec import parse
        >>> found, _ = replayed(parse("[6] on dp=2, tp=2: _S(0, 2), S(0)"))
        >>> print(found.message)
        full_tensor() is wrong on 4 of 4 ranks: 2 of the 6 slots of rank 0 hold something else
    """
    fsdp = fsdp_cut(spec)
    uneven = [dim for dim in range(spec.ndim) if (asked := question(spec, dim, fsdp)).cuts and not asked.even]
    if not spec.numel or not uneven:
        return None, ""
    if spec.mesh.size > MOST_RANKS:
        return None, f"full_tensor() of 2.8 and 2.9 was not replayed on more than {MOST_RANKS} ranks"
    try:
        said = _told(spec)
    except SpecError:
        return None, "full_tensor() of 2.8 and 2.9 was not replayed for other placements than _S(d, n), S(d)"
    if not said:
        return None, ""
    return Finding("full-tensor-wrong", "error", spec.numel, (), tuple(sorted(spec.mesh.ranks)), said), ""


@lru_cache(maxsize=256)
def _told(spec: Spec) -> str:
    trace = unshuffle(spec, method="torch-2.8")
    if trace.end:
        return f"full_tensor() hangs or raises: {trace.end.removeprefix('The story ends here: ').partition('. ')[0]}"
    said = outcome(trace)
    return "" if said.startswith("Every rank") else f"full_tensor() is {said[0].lower()}{said[1:].partition('. ')[0]}"
