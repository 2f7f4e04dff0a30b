"""The audit: what the installed torch will get wrong about a model on a mesh, known before the job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardviz.checks.audits.coverage import Coverage
from shardviz.checks.audits.mesh import Grid, read_mesh
from shardviz.checks.audits.module import Plan, built_specs, forward_findings, live_specs, module_specs
from shardviz.checks.audits.release import Release, ask_torch, installed_release, named_release
from shardviz.checks.audits.report import Audit, examine
from shardviz.checks.audits.subjects import of_file, on_grid, without_dimensions
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
    roles: Mapping[str, str] | None = None,
    torch: str | None = None,
) -> Audit | RealAudit:
    """Find what the installed torch will get wrong: lost rows, refused saves and loads, shifted rows, hangs.

    Args:
        target: what to audit. A `Spec` or its notation; a shape; a model of DTensors; an `nn.Module` (on the meta device, say)
            together with `mesh` and `plan`; the path of a `.safetensors` file, of `model.safetensors.index.json`, of a Hugging
            Face `config.json` (whose class transformers builds on the meta device, where it is installed), or of a directory
            that has one. A function that builds the model: with `ranks` on every rank, with `mesh` once, on a process group
            that only pretends, where it is called with torch's `DeviceMesh` first.
        args: further arguments of that function.
        mesh: sizes by name, which need not exist: `"dp=256, tp=8"`. What a dimension does is known by its name: FSDP2
            shards over `dp`, `dp_shard`, `fsdp`, `cp`, flattened into one; `dp_replicate` copies; the plan cuts over `tp`; `ep`
            cuts experts alone, `pp` nothing.
        plan: of a module: what `parallelize_module` takes, such plans by the names of model dimensions, or a function of the
            module and its mesh. Of a file: placements on the model's dimensions by name pattern (`{"*lm_head*": "S(0)"}`),
            before the usual ones.
        placements: of a shape: one per mesh dimension; without them FSDP2 over a cut of dimension 0.
        proof: ask torch itself, for every rank and about every save plan, instead of arithmetic. It takes long.
        ranks: running ranks on which the model is built and everything is tried for real.
        example: with `ranks`, what the forward pass is called with on every rank, so that it and the backward pass are tried
            too: a tensor, a tuple of arguments, a mapping of named ones, or a function of the model that gives one of these.
        roles: what mesh dimensions of other names do: `{"x": "fsdp"}`, or `"copy"`, `"tp"`, `"ep"`, `"pp"`.
        torch: the release to tell about, such as `"2.13"`; by default the installed one. It need not be installed.

    Returns:
        The report, which is true when there are errors or parameters that were not checked; `.ok` is the opposite.

    Raises:
        SpecError: the target needs a mesh, placements or rules that were not given, or they do not fit; a mesh dimension has a
            name that is not known.
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
    told = installed_release() if torch is None else named_release(torch)
    if proof:
        if torch is not None:
            raise SpecError(f"proof asks the installed torch: it cannot be asked about {torch}")
        told = Release(told.torch, ask_torch, "torch's own report and validator, for every rank")
    found = _examine(target, args, mesh, plan, placements, roles, told)
    if proof:
        from shardviz.checks.audits.proof import prove

        prove(found.parameters)
    return found


def _examine(
    target: Any,
    args: Sequence[Any],
    mesh: str | Mapping[str, int] | Mesh | None,
    plan: Plan,
    placements: str | Sequence[Any] | None,
    roles: Mapping[str, str] | None,
    told: Release,
) -> Audit:
    if isinstance(target, str) and target.lstrip().startswith("["):
        target = parse(target)
    if isinstance(target, Spec):
        return examine([("", target)], told)
    is_model = hasattr(target, "named_parameters")
    if is_model and (specs := live_specs(target)):
        plain = [name for name, parameter in target.named_parameters() if not hasattr(parameter, "placements")]
        coverage = Coverage(len(specs) + len(plain), "what they are, as DTensors", gaps=_plain(plain))
        return examine(specs, told, coverage=replace(coverage, total=len(specs)))
    if mesh is None:
        raise SpecError("an audit of what is not sharded yet needs a mesh, such as mesh='dp=4, tp=2'")
    if isinstance(target, Sequence) and not isinstance(target, str):
        spec = shape_spec(tuple(target), mesh, placements, roles)
        reading = "" if placements is not None else Grid.of(mesh, roles).reading
        return examine([("", spec)], told, str(read_mesh(mesh)), reading=reading)
    grid = Grid.of(mesh, roles)
    if is_model:
        specs = module_specs(target, grid, plan)
        shapes = {name: tuple(parameter.shape) for name, parameter in target.named_parameters()}
        bare = without_dimensions(shapes, grid)
        specs += [(name, grid.spec((), ", ".join(["R"] * len(grid.model)))) for name, _ in bare]
        by = "the plan, as torch applies it" if plan else "FSDP2 alone"
        return examine(
            specs, told, str(grid.mesh), (*forward_findings(target, grid, plan), *bare), Coverage(len(shapes), by), grid.reading
        )
    if callable(target):
        specs, plain = built_specs(target, args, read_mesh(mesh))
        coverage = Coverage(len(specs), "what the builder made of them, seen on rank 0", gaps=_plain(plain))
        return examine(specs, told, str(read_mesh(mesh)), coverage=coverage)
    if callable(plan):
        raise SpecError("the plan of a file maps name patterns to placements, such as {'*lm_head*': 'S(0)'}")
    if not isinstance(target, str | Path):
        raise SpecError(
            f"a {type(target).__name__} cannot be audited; right would be a spec, a shape, a model, the path of a file, or a "
            "function that builds a model"
        )
    subject = on_grid(of_file(Path(target)), grid, plan or {})
    return examine(subject.specs, told, str(grid.mesh), subject.extra, subject.coverage, grid.reading)


def _plain(names: Sequence[str]) -> tuple[str, ...]:
    """The gap that parameters leave which are no DTensors."""
    if not names:
        return ()
    are = "is no DTensor" if len(names) == 1 else "are no DTensors"
    return (f"{len(names)} more {are}, whole on every rank, and {'was' if len(names) == 1 else 'were'} not looked at",)


def shape_spec(
    shape: Sequence[int],
    mesh: str | Mapping[str, int] | Mesh,
    placements: str | Sequence[Any] | None,
    roles: Mapping[str, str] | None = None,
) -> Spec:
    """One shape on a mesh; without placements FSDP2 over a cut of dimension 0 by every model dimension."""
    if placements is not None:
        return Spec(shape, read_mesh(mesh), placements)
    grid = Grid.of(mesh, roles)
    return grid.spec(shape, ", ".join(["S(0)"] * len(grid.model)))
