"""An `nn.Module` with a tensor-parallel plan, on a mesh that exists only as numbers: torch itself applies the plan, elsewhere.

The plan is applied in a fresh process with a process group that only pretends, so nothing happens to this one.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import cloudpickle

from shardviz.checks.audits.kinds import Finding
from shardviz.checks.audits.mesh import Grid
from shardviz.core.errors import SpecError, TorchError
from shardviz.core.mesh import Mesh
from shardviz.core.runs import chunk_bounds
from shardviz.core.spec import Spec

__all__ = ["Plan", "built_specs", "forward_findings", "live_specs", "module_specs", "plans_of"]

Plan: TypeAlias = Mapping[str, Any] | Callable[[Any, Any], object] | None
"""A plan as `parallelize_module` takes it, one such plan per model dimension by its name, or a function of module and mesh."""

PATIENCE = 600.0
"""Seconds that torch may take to apply a plan."""


def live_specs(model: Any) -> list[tuple[str, Spec]]:
    """The parameters of a model that are DTensors, with FSDP2 named as their maker where it is."""
    by_fsdp = any("FSDPModule" in {base.__name__ for base in type(module).__mro__} for module in model.modules())
    made_by = "fsdp2" if by_fsdp else None
    named = [(name, p) for name, p in model.named_parameters() if hasattr(p, "device_mesh") and hasattr(p, "placements")]
    return [(name, Spec.of(parameter).with_made_by(made_by)) for name, parameter in named]


def module_specs(model: Any, grid: Grid, plan: Plan) -> list[tuple[str, Spec]]:
    """What torch makes of every parameter when it applies the plan and FSDP2 on the mesh.

    Raises:
        TorchError: torch refused the plan, or the mesh has other ranks than 0, 1, 2, ….
    """
    if grid.mesh.size != max(grid.mesh.ranks) + 1:
        raise SpecError(f"a plan is applied on a mesh of ranks 0 to {grid.mesh.size - 1}; this one is {grid.mesh}")
    found, _ = _elsewhere(("plan", model, plan, grid), f"torch did not apply the plan on {grid.mesh}")
    return found


def built_specs(build: Callable[..., Any], args: Sequence[Any], mesh: Mesh) -> tuple[list[tuple[str, Spec]], list[str]]:
    """What a builder makes of its parameters on a mesh of pretended ranks, and the names of those that are no DTensors.

    Args:
        build: called with a `DeviceMesh` of that mesh and `args`; it gives the model, sharded.

    Raises:
        TorchError: it raised, or gave no module.
    """
    if mesh.ranks != tuple(range(mesh.size)):
        raise SpecError(f"a builder is run on a mesh of ranks 0 to {mesh.size - 1}; this one is {mesh}")
    return _elsewhere(("build", build, tuple(args), mesh), f"the builder did not build on {mesh}")


def _elsewhere(job: tuple[Any, ...], failed: str) -> tuple[list[tuple[str, Spec]], list[str]]:
    """Have it done in a fresh process with a process group that only pretends."""
    packed = pickle.dumps((list(sys.path), cloudpickle.dumps(job)))
    command = [sys.executable, "-m", "shardviz.checks.audits.apply"]
    try:
        done = subprocess.run(command, input=packed, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise TorchError(f"{failed} within {PATIENCE:g} seconds") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it ended without a word"]
        raise TorchError(f"{failed}: {last[0]}")
    parameters, plain = json.loads(done.stdout.splitlines()[-1])
    found = []
    for name, shape, names, sizes, ranks, placements, made_by in parameters:
        mesh = Mesh(dict(zip(names, sizes, strict=True)), ranks)
        found.append((name, Spec(shape, mesh, placements, made_by)))
    return found, plain


def forward_findings(model: Any, grid: Grid, plan: Plan) -> Iterator[tuple[str, Finding]]:
    """Row-wise layers that get uneven local inputs: from a column-wise layer beside them that hands out plain tensors.

    A plain tensor says nothing of the whole, so DTensor takes every rank's part to be as large as this one's (#150336).
    """
    for tp, styles in plans_of(grid, plan):
        cuts = grid.mesh.sizes[grid.mesh.names.index(tp)]
        styled = list(_styled(model, styles))
        yield from _empty_embeddings(styled, grid, tp)
        for name, module, style in styled:
            width = getattr(module, "in_features", None)
            if type(style).__name__ != "RowwiseParallel" or not width or not width % cuts:
                continue
            parent = name.rpartition(".")[0]
            plain = [
                other
                for other, feeder, how in styled
                if type(how).__name__ == "ColwiseParallel"
                and other.rpartition(".")[0] == parent
                and getattr(feeder, "out_features", None) == width
                and getattr(how, "use_local_output", True)
            ]
            if plain:
                message = (
                    f"the forward pass is refused (must have same reduction dim): {plain[0]} hands its {width} columns, uneven "
                    f"on {tp}={cuts}, to {name} as plain tensors; give its ColwiseParallel use_local_output=False"
                )
                rows, rest = module.out_features, ((0, width),)
                yield (
                    f"{name}.weight",
                    Finding("forward-refused", "error", rows * width, rest, tuple(sorted(grid.mesh.ranks)), message),
                )


def _empty_embeddings(styled: Sequence[tuple[str, Any, Any]], grid: Grid, tp: str) -> Iterator[tuple[str, Finding]]:
    """Embeddings cut by rows, of which some rank has none: it raises in the forward pass, and the others wait."""
    dim = grid.mesh.names.index(tp)
    cuts = grid.mesh.sizes[dim]
    for name, module, style in styled:
        rows = getattr(module, "num_embeddings", None)
        if type(style).__name__ != "RowwiseParallel" or not rows:
            continue
        bare = {place for place in range(cuts) if chunk_bounds(rows, cuts, place)[0] == chunk_bounds(rows, cuts, place)[1]}
        each = zip(grid.mesh.coordinates, grid.mesh.ranks, strict=True)
        ranks = tuple(sorted(rank for coordinate, rank in each if coordinate[dim] in bare))
        if ranks:
            message = (
                f"the forward pass is refused: {rows} rows over {tp}={cuts} leave rank {ranks[0]} none; its embedding raises "
                "(index_select), and the other ranks wait"
            )
            yield f"{name}.weight", Finding("forward-refused", "error", 0, (), ranks, message)


def plans_of(grid: Grid, plan: Plan) -> list[tuple[str, Mapping[str, Any]]]:
    """The plan of each model dimension, the last (tp) where it is not said."""
    if not isinstance(plan, Mapping) or not grid.model:
        return []
    if plan and all(name in grid.model and isinstance(styles, Mapping) for name, styles in plan.items()):
        return [(name, styles) for name, styles in plan.items()]
    return [(grid.model[-1], plan)]


def _styled(model: Any, styles: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Modules with their styles; patterns match part by part, as torch does it."""
    for name, module in model.named_modules():
        parts = name.split(".")
        for pattern, style in styles.items():
            wanted = pattern.split(".")
            if len(wanted) == len(parts) and all(map(fnmatchcase, parts, wanted)):
                yield name, module, style
