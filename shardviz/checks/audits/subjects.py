"""What is audited: named specs on a mesh, how much of the model they are, and by whose word; from files and configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from shardviz.checks.audits.classes import can_build, model_of
from shardviz.checks.audits.coverage import Coverage
from shardviz.checks.audits.families import known_model
from shardviz.checks.audits.files import configuration, model_file, shapes_of
from shardviz.checks.audits.kinds import Finding
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.model import Model
from shardviz.checks.audits.roles import Role, of_experts_alone
from shardviz.checks.audits.rules import check_used, for_model, placed_by_rules
from shardviz.checks.audits.stops import Known, scalars, stops
from shardviz.core.errors import SpecError
from shardviz.core.spec import Spec

__all__ = ["Subject", "model_on", "of_file", "weights_on"]


@dataclass(frozen=True)
class Subject:
    """What is audited.

    Attributes:
        specs: each parameter that is checked, by name.
        coverage: how many of how many, by whose word.
        extra: findings that need more than a spec, by parameter.
    """

    specs: tuple[tuple[str, Spec], ...]
    coverage: Coverage
    extra: tuple[tuple[str, Finding], ...] = ()


Read = Model | Mapping[str, tuple[int, ...]]
"""A model by its configuration, or names and shapes alone."""


def of_file(path: Path) -> Read:
    """What a file says: a model where it is a configuration (or a directory that has one), else names and shapes.

    Raises:
        FileError: it cannot be read, or its model cannot be built.
    """
    file = model_file(path)
    config = configuration(file)
    if config is None:
        return shapes_of(file)
    return model_of(file) if can_build() else known_model(config)


def on_grid(read: Read, grid: Grid, rules: Mapping[str, str]) -> Subject:
    """The parameters of a file on a mesh."""
    return model_on(read, grid, rules) if isinstance(read, Model) else weights_on(read, grid, rules)


def weights_on(shapes: Mapping[str, tuple[int, ...]], grid: Grid, rules: Mapping[str, str]) -> Subject:
    """Weights of which names and shapes alone are known, by the rules given and the usual ones."""
    specs, unknown = placed_by_rules(shapes, grid, rules)
    by = ("the rules given and " if rules else "") + "the usual rules by name" if grid.model else "FSDP2 alone"
    return Subject(tuple(specs), Coverage(len(shapes), by, unknown, "matched no rule"), without_dimensions(shapes, grid))


def without_dimensions(shapes: Mapping[str, Sequence[int]], grid: Grid) -> tuple[tuple[str, Finding], ...]:
    """What FSDP2 says to parameters without dimensions, where the mesh has it."""
    return tuple(scalars(shapes, grid.mesh.ranks)) if Role.FSDP in grid.roles else ()


def model_on(model: Model, grid: Grid, rules: Mapping[str, str]) -> Subject:
    """A model by its own plans; rules that are given come before them.

    Raises:
        SpecError: the mesh has a tp, and the class no plan for it.
    """
    roles = set(grid.roles[grid.data :])
    if Role.TP in roles and not model.has_tp_plan and not rules:
        raise SpecError(
            f"{model.name} has no tensor-parallel plan ({model.source}), so nobody says what tp cuts: state it by rules like "
            f'"{model.parameters[0].name}=S(0)" and "*=R" (--rule, or plan={{…}}), or give a mesh without tp'
        )
    specs, unknown, used = [], [], set()
    dense_elsewhere = of_experts_alone(grid.mesh.names) and Role.EP in roles
    for one in model.parameters:
        pattern = next((rule for rule in rules for name in (one.name, *one.tied) if fnmatchcase(name, rule)), None)
        if pattern is not None:
            used.add(pattern)
            specs.append((one.name, _ruled(one.name, one.shape, pattern, rules[pattern], grid)))
        elif (Role.TP in roles and not model.has_tp_plan) or (dense_elsewhere and one.ep is None):
            unknown.append(one.name)
        else:
            specs.append((one.name, grid.planned(one)))
    check_used(rules, used, {one.name: one for one in model.parameters})
    by = f"the model's own plan ({model.source}, {model.name})" if roles else f"FSDP2 alone ({model.source}, {model.name})"
    why = "matched no rule" if not dense_elsewhere else "are no experts, and live on another mesh than this one"
    gaps = list(model.gaps)
    if Role.EP in roles and not any(one.ep is not None for one in model.parameters):
        gaps.append(f"{model.name} has no experts: ep cuts nothing of it")
    extra: list[tuple[str, Finding]] = []
    if roles:
        kinds, checked = model.kinds, dict(specs)
        styles = {name: group[0].style for name, group in kinds.items() if group[0].style}
        known = Known.of(model.heads, styles, model.apart, model.itemsize)
        for name, found in stops(((name, checked[name]) for name in kinds if name in checked), known):
            extra += [(one.name, found) for one in kinds[name]]
    coverage = Coverage(len(model.parameters), ("the rules given and " if rules else "") + by, tuple(unknown), why, tuple(gaps))
    shapes = {one.name: one.shape for one in model.parameters}
    return Subject(tuple(specs), coverage, (*extra, *without_dimensions(shapes, grid)))


def _ruled(name: str, shape: tuple[int, ...], pattern: str, rule: str, grid: Grid) -> Spec:
    try:
        return grid.spec(shape, for_model(rule, grid))
    except SpecError as error:
        raise SpecError(f"{name} {list(shape)} by the rule {pattern}={rule}: {error}") from error
