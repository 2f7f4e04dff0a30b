"""What would remove the errors of a parameter: the smallest padding, another mesh of as many ranks, the mend."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shardviz.checks.audits.lines import Reports, fsdp_cut
from shardviz.checks.audits.parameter import inner_cuts, is_wrong, on_mesh, resized
from shardviz.core.spec import Spec

__all__ = ["cures_of"]

SUGGESTED = 3
"""The most other meshes that are named."""

LARGEST_MODEL = 64
"""The most pieces that a model's dimension is cut into, in a mesh that is suggested."""


BESIDE = frozenset({"forward-refused", "pretrained-refused"})
"""Errors that a spec alone does not show, so that no change of it is known to cure them."""


def cures_of(spec: Spec, reports: Reports, kinds: frozenset[str]) -> tuple[str, ...]:
    """What to do about errors, in sentences, the smallest change first."""
    if kinds <= BESIDE:
        return ()
    found = [f"pad dimension {dim} from {spec.shape[dim]} to {size}" + why for dim, size, why in _padded(spec, reports)]
    meshes = list(_other_meshes(spec, reports))
    if meshes:
        found.append("train as many ranks on " + ", ".join(meshes))
    offsets = kinds - {"train-refused", "sharding-refused", "full-tensor-wrong", *BESIDE}
    if offsets:
        rest = " (it does not help against the rest)" if offsets != kinds else ""
        found.append(f"save and load inside `with shardviz.corrected_offsets():`{rest}")
    return tuple(found)


def _padded(spec: Spec, reports: Reports) -> Iterator[tuple[int, int, str]]:
    """The smallest size of one dimension that has no errors, up to the next one that everything divides."""
    for dim, size in enumerate(spec.shape):
        inner, cuts = inner_cuts(spec, dim), math.prod(spec.mesh.sizes[m] for m in spec.cuts(dim))
        if cuts == 1:
            continue
        last = -(-size // cuts) * cuts
        next_inner = -(-size // inner) * inner
        for larger in (*range(size + 1, next_inner + 1), *range(next_inner + inner, last + 1, inner)):
            if not is_wrong(resized(spec, dim, larger), reports):
                yield dim, larger, f", the next multiple of {inner}" if larger == next_inner and inner > 1 else ""
                break


def _other_meshes(spec: Spec, reports: Reports) -> Iterator[str]:
    """Meshes of as many ranks, without errors, nearest first."""
    fsdp = fsdp_cut(spec)
    if fsdp is None:
        return
    options: dict[tuple[int, ...], float] = {}
    for model in range(fsdp + 1, spec.mesh.ndim):
        product = spec.mesh.sizes[fsdp] * spec.mesh.sizes[model]
        for pieces in range(1, min(product, LARGEST_MODEL) + 1):
            if product % pieces:
                continue
            changed = {fsdp: product // pieces, model: pieces}
            mesh = tuple(changed.get(m, size) for m, size in enumerate(spec.mesh.sizes))
            options[mesh] = abs(math.log(pieces / spec.mesh.sizes[model]))
    good = 0
    for sizes in sorted(options, key=lambda one: options[one]):
        if sizes != spec.mesh.sizes and not is_wrong(on_mesh(spec, sizes), reports):
            yield " × ".join(f"{name}={size}" for name, size in zip(spec.mesh.names, sizes, strict=True))
            good += 1
            if good == SUGGESTED:
                return
