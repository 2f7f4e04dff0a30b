"""The audit: what the installed torch will get wrong about a model on a mesh, known before the job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardviz.checks.audits.files import file_specs
from shardviz.checks.audits.mesh import Grid, read_mesh
from shardviz.checks.audits.module import Plan, forward_findings, live_specs, module_specs
from shardviz.checks.audits.release import Release, ask_torch, installed_release
from shardviz.checks.audits.report import Audit, examine
from shardviz.core.errors import SpecError
from shardviz.core.mesh import Mesh
from shardviz.core.spec import Spec, parse

if TYPE_CHECKING:
    from shardviz.checks.audits.compared import RealAudit
    from shardviz.ranks.cluster import Ranks

__all__ = ["audit", "shape_spec"]


def audit(
    target: Any,
    *args: Any,
    mesh: str | Mapping[str, int] | Mesh | None = None,
    plan: Plan = None,
    placements: str | Sequence[Any] | None = None,
    proof: bool = False,
    ranks: Ranks | None = None,
    example: Any = None,
) -> Audit | RealAudit:
    """Find what the installed torch will get wrong: lost rows, refused saves and loads, shifted rows, hangs.

    Args:
        target: what to audit. A `Spec` or its notation; a shape; a model of DTensors; an `nn.Module` (on the meta device, say)
            together with `mesh` and `plan`; the path of a `.safetensors` file, of `model.safetensors.index.json`, of a Hugging
            Face `config.json`, or of a directory that has one. With `ranks`, a function that builds the model on a rank.
        args: arguments of that function.
        mesh: sizes by name, which need not exist: `"dp=256, tp=8"`. FSDP2 shards over `dp`, `dp_shard`, `fsdp` and `cp`,
            flattened into one; `dp_replicate` replicates; other names (`tp`, `ep`) are the model's.
        plan: of a module: what `parallelize_module` takes, such plans by the names of model dimensions, or a function of the
            module and its mesh. Of a file: placements on the model's dimensions by name pattern (`{"*lm_head*": "S(0)"}`),
            before the usual ones.
        placements: of a shape: one per mesh dimension; without them FSDP2 over a cut of dimension 0.
        proof: ask torch itself, for every rank and about every save plan, instead of arithmetic. It takes long.
        ranks: running ranks on which the model is built and everything is tried for real.
        example: with `ranks`, what the forward pass is called with on every rank, so that it and the backward pass are tried
            too: a tensor, a tuple of arguments, a mapping of named ones, or a function of the model that gives one of these.

    Returns:
        The report, which is true when there are errors.

    Raises:
        SpecError: the target needs a mesh or placements that were not given, or they do not fit.
        FileError: a file cannot be read.
        TorchError: torch refused the plan, or says otherwise than shardviz.

    Example:
        >>> found = audit((32001, 4096), mesh="dp=4, tp=2")
        >>> [one.kind for one in found.parameters[0].errors][:2]
        ['checkpoint-refused', 'checkpoint-unloadable']
        >>> found.parameters[0].cures[0]
        'pad dimension 0 from 32001 to 32002, the next multiple of 2'
    """
    if ranks is not None:
        from shardviz.checks.audits.compared import audit_on_ranks

        return audit_on_ranks(target, args, ranks, example)
    release = installed_release()
    if proof:
        release = Release(release.torch, ask_torch, "torch's own report and validator, for every rank")
    found = _examine(target, mesh, plan, placements, release)
    if proof:
        from shardviz.checks.audits.proof import prove

        prove(found.parameters)
    return found


def _examine(
    target: Any,
    mesh: str | Mapping[str, int] | Mesh | None,
    plan: Plan,
    placements: str | Sequence[Any] | None,
    release: Release,
) -> Audit:
    if isinstance(target, str) and target.lstrip().startswith("["):
        target = parse(target)
    if isinstance(target, Spec):
        return examine([("", target)], release)
    if hasattr(target, "named_parameters"):
        specs = live_specs(target)
        if specs:
            return examine(specs, release)
    if mesh is None:
        raise SpecError("an audit of what is not sharded yet needs a mesh, such as mesh='dp=4, tp=2'")
    if isinstance(target, Sequence) and not isinstance(target, str):
        spec = shape_spec(tuple(target), mesh, placements)
        return examine([("", spec)], release, str(read_mesh(mesh)))
    grid = Grid.of(mesh)
    if hasattr(target, "named_parameters"):
        specs = module_specs(target, grid, plan)
        return examine(specs, release, str(grid.mesh), forward_findings(target, grid, plan))
    if callable(plan):
        raise SpecError("the plan of a file maps name patterns to placements, such as {'*lm_head*': 'S(0)'}")
    return examine(file_specs(Path(target), grid, plan or {}), release, str(grid.mesh))


def shape_spec(shape: Sequence[int], mesh: str | Mapping[str, int] | Mesh, placements: str | Sequence[Any] | None) -> Spec:
    """One shape on a mesh; without placements FSDP2 over a cut of dimension 0 by every model dimension."""
    if placements is not None:
        return Spec(shape, read_mesh(mesh), placements)
    grid = Grid.of(mesh)
    return grid.spec(shape, ", ".join(["S(0)"] * len(grid.model)))
