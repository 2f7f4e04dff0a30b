"""`shardviz audit`: what the installed torch will get wrong, before the job runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from shardviz.checks.audits.audit import audit, shape_spec
from shardviz.checks.audits.coverage import Coverage
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.model import Model
from shardviz.checks.audits.release import installed_release, named_release
from shardviz.checks.audits.report import Audit
from shardviz.checks.audits.roles import reading_of, roles_of
from shardviz.checks.audits.subjects import Subject, of_file, on_grid
from shardviz.checks.audits.sweep import Sweep, read_sweep, sweep
from shardviz.core.errors import SpecError
from shardviz.core.spec import parse

__all__ = ["audit_command"]

FOUND_WRONG = 1
EVERY = 10.0
"""Seconds between two lines of progress in a log."""


@click.command("audit")
@click.argument("target", required=False)
@click.option("--shape", help="Audit one shape, such as 32001,4096.")
@click.option("--mesh", help='Sizes by name, such as "dp=4, tp=2". FSDP2 shards over dp, dp_shard, fsdp and cp; tp, ep, pp.')
@click.option("--role", "roles", multiple=True, help="What a mesh dimension of another name does: x=fsdp, copy, tp, ep or pp.")
@click.option("--build", help="Audit what package.module:function(mesh) builds, on ranks that only pretend.")
@click.option("--torch", "torch", help="The release to tell about, such as 2.13; by default the installed one.")
@click.option("--allow-unknown", is_flag=True, help="Exit with 0 although parameters were not checked.")
@click.option("--placements", help='Of a shape: such as "_S(0, 2), S(0)". Without them: FSDP2 over a cut of dimension 0.')
@click.option("--rule", "rules", multiple=True, help='Of a file: how a parameter is cut by tp, such as "*lm_head*=S(0)".')
@click.option("--sweep", "ranges", help='Draw the map of many meshes, such as "dp=1..16, tp=1..8", instead of one.')
@click.option("--proof", is_flag=True, help="Ask torch itself, for every rank, instead of arithmetic. It takes long.")
@click.option("--draw", "name", help="Draw a parameter with what torch reports of it; a dash for the only one.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to draw it, or the map of --sweep: .svg, .png, .pdf or .html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def audit_command(
    target: str | None,
    shape: str | None,
    mesh: str | None,
    placements: str | None,
    rules: tuple[str, ...],
    roles: tuple[str, ...],
    build: str | None,
    torch: str | None,
    allow_unknown: bool,
    ranges: str | None,
    proof: bool,
    name: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Know before the job what the installed torch will get wrong: rows lost, saves refused, rows shifted.

    TARGET is a .safetensors file, model.safetensors.index.json, a Hugging Face config.json, a directory that has one, or a
    spec such as "[9] on dp=4, tp=2: _S(0, 2), S(0)". Exit status 1 when there are errors, or parameters that were not checked,
    since nobody says how they are cut.
    """
    if sum(one is not None for one in (target, shape, build)) != 1:
        raise click.UsageError("audit either a file or spec, or --shape with --mesh, or --build with --mesh")
    if target is not None and target.lstrip().startswith("[") and mesh is not None and ranges is None:
        raise click.UsageError(f"the spec names its own mesh: change it there, or leave out --mesh {mesh!r}")
    if placements is not None and (shape is None or ranges is not None):
        raise click.UsageError("--placements are of one --shape on one --mesh")
    if rules and shape is not None:
        raise click.UsageError("--rule is for the parameters of a file; a --shape has --placements")
    if (name is not None or proof) and ranges is not None:
        raise click.UsageError("--sweep draws its own map, by arithmetic: leave out --draw and --proof")
    if output is not None and name is None and ranges is None:
        raise click.UsageError("-o says where to draw: name a parameter with --draw, or a dash for the only one")
    if build is not None and (rules or roles or ranges is not None):
        raise click.UsageError("a builder says itself how it cuts: leave out --rule, --role and --sweep")
    found: Audit | Sweep
    stated = _pairs(roles, "role", "x=tp")
    plan = _pairs(rules, "rule", "*lm_head*=S(0)")
    if ranges is not None:
        found = _sweep(target, shape, mesh, plan, stated, ranges, torch)
        if output is not None:
            click.echo(f"drew {found.draw().save(output)}", err=True)
    else:
        subject = _function(build) if build is not None else target if shape is None else _shape(shape)
        answer = audit(
            subject, mesh=mesh, placements=placements, plan=plan or None, proof=proof, roles=stated or None, torch=torch
        )
        assert isinstance(answer, Audit)
        found = answer
        if name is not None:
            _draw(answer, name, output)
    click.echo(msgspec.json.encode(found.json()) if as_json else found.text)
    if found.errors or not (found.ok or allow_unknown):
        sys.exit(FOUND_WRONG)


def _sweep(
    target: str | None,
    shape: str | None,
    mesh: str | None,
    rules: Mapping[str, str],
    roles: Mapping[str, str],
    ranges: str,
    torch: str | None,
) -> Sweep:
    """The map; sizes of `mesh` that do not vary stand in every mesh."""
    varying = {**({} if mesh is None else read_sweep(mesh)), **read_sweep(ranges)}
    told = installed_release() if torch is None else named_release(torch)
    reading = reading_of(tuple(varying), roles_of(tuple(varying), roles))
    if target is not None and target.lstrip().startswith("["):
        shape = ",".join(map(str, parse(target).shape))
    if shape is not None:
        sizes = _shape(shape)

        def one(given: Mapping[str, int]) -> Subject:
            return Subject((("", shape_spec(sizes, given, None, roles)),), Coverage(1))

        return sweep(one, varying, told, _progress, reading)
    assert target is not None
    read = of_file(Path(target))
    thin = read.thinned() if isinstance(read, Model) else read
    found = sweep(lambda given: on_grid(thin, Grid.of(given, roles), rules), varying, told, _progress, reading)
    if not isinstance(read, Model):
        return found
    unknown = tuple(one.name for name in found.coverage.unknown for one in read.kinds[name])
    return replace(found, coverage=replace(found.coverage, total=len(read.parameters), unknown=unknown))


def _progress(meshes: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """A bar on standard error where somebody looks at it; in a pipe or a log a line now and then."""
    if sys.stderr.isatty():
        with click.progressbar(meshes, label="meshes", file=sys.stderr) as bar:
            yield from bar
        return
    said = time.monotonic()
    for done, mesh in enumerate(meshes):
        if time.monotonic() - said > EVERY:
            click.echo(f"{done:,} of {len(meshes):,} meshes", err=True)
            said = time.monotonic()
        yield mesh


def _function(text: str) -> Callable[..., Any]:
    """A function by `package.module:name`, importable from the working directory.

    Raises:
        SpecError: there is none of that name.
    """
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise SpecError(f"the builder {text!r} is no package.module:function; right would be train.model:build")
    sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SpecError(f"the builder {text!r} cannot be imported: {error}") from error
    if not callable(found):
        raise SpecError(f"the builder {text!r} is a {type(found).__name__}; right would be a function of a mesh")
    return cast("Callable[..., Any]", found)


def _draw(found: Audit, name: str, output: Path | None) -> None:
    one = found.parameters[0] if name == "-" else found[name]
    picture = one.draw()
    click.echo(picture.text if output is None else f"drew {picture.save(output)}", err=True)


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.strip("[]() ").split(",") if size.strip())
    except ValueError:
        raise SpecError(f"the shape {text!r} is no list of sizes; right would be 32001,4096") from None


def _pairs(texts: Iterable[str], what: str, right: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SpecError(
                f"the {what} {text!r} is no {'pattern=placement' if what == 'rule' else 'name=role'}; right: {right!r}"
            )
        found[name.strip()] = value.strip()
    return found
