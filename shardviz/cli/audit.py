"""`shardviz audit`: what the installed torch will get wrong, before the job runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import msgspec

from shardviz.checks.audits.audit import audit, shape_spec
from shardviz.checks.audits.files import placed_by_rules, shapes_of
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.report import Audit
from shardviz.checks.audits.sweep import Sweep, read_sweep, sweep
from shardviz.core.errors import SpecError
from shardviz.core.spec import Spec, parse

__all__ = ["audit_command"]

FOUND_WRONG = 1


@click.command("audit")
@click.argument("target", required=False)
@click.option("--shape", help="Audit one shape, such as 32001,4096.")
@click.option("--mesh", help='Sizes by name, such as "dp=4, tp=2". FSDP2 shards over dp, dp_shard, fsdp and cp.')
@click.option("--placements", help='Of a shape: such as "_S(0, 2), S(0)". Without them: FSDP2 over a cut of dimension 0.')
@click.option("--rule", "rules", multiple=True, help='Of a file: how a parameter is cut by tp, such as "*lm_head*=S(0)".')
@click.option("--sweep", "ranges", help='Draw the map of many meshes, such as "dp=1..16, tp=1..8", instead of one.')
@click.option("--proof", is_flag=True, help="Ask torch itself, for every rank, instead of arithmetic. It takes long.")
@click.option("--draw", "name", help="Draw a parameter with what torch reports of it; a dash for the only one.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to draw it: .svg, .png or .html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def audit_command(
    target: str | None,
    shape: str | None,
    mesh: str | None,
    placements: str | None,
    rules: tuple[str, ...],
    ranges: str | None,
    proof: bool,
    name: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Know before the job what the installed torch will get wrong: rows lost, saves refused, rows shifted.

    TARGET is a .safetensors file, model.safetensors.index.json, a Hugging Face config.json, a directory that has one, or a
    spec such as "[9] on dp=4, tp=2: _S(0, 2), S(0)". Exit status 1 when there are errors.
    """
    if (target is None) == (shape is None):
        raise click.UsageError("audit either a file or spec, or --shape with --mesh")
    if target is not None and target.lstrip().startswith("[") and mesh is not None and ranges is None:
        raise click.UsageError(f"the spec names its own mesh: change it there, or leave out --mesh {mesh!r}")
    if placements is not None and (shape is None or ranges is not None):
        raise click.UsageError("--placements are of one --shape on one --mesh")
    if rules and shape is not None:
        raise click.UsageError("--rule is for the parameters of a file; a --shape has --placements")
    if (name is not None or proof) and ranges is not None:
        raise click.UsageError("--sweep draws its own map, by arithmetic: leave out --draw and --proof")
    if output is not None and name is None:
        raise click.UsageError("-o says where to draw: name a parameter with --draw, or a dash for the only one")
    found: Audit | Sweep
    if ranges is not None:
        found = _sweep(target, shape, mesh, _rules(rules), ranges)
    else:
        subject = target if shape is None else _shape(shape)
        answer = audit(subject, mesh=mesh, placements=placements, plan=_rules(rules) or None, proof=proof)
        assert isinstance(answer, Audit)
        found = answer
        if name is not None:
            _draw(answer, name, output)
    click.echo(msgspec.json.encode(found.json()) if as_json else found.text)
    if found.errors:
        sys.exit(FOUND_WRONG)


def _sweep(target: str | None, shape: str | None, mesh: str | None, rules: Mapping[str, str], ranges: str) -> Sweep:
    """The map; sizes of `mesh` that do not vary stand in every mesh."""
    varying = {**({} if mesh is None else read_sweep(mesh)), **read_sweep(ranges)}
    if target is not None and target.lstrip().startswith("["):
        shape = ",".join(map(str, parse(target).shape))
    if shape is not None:
        sizes = _shape(shape)
        return sweep(lambda given: [shape_spec(sizes, given, None)], varying, installed_release())
    assert target is not None
    shapes = shapes_of(Path(target))

    def specs(given: Mapping[str, int]) -> Iterable[Spec]:
        return (spec for _, spec in placed_by_rules(shapes, Grid.of(given), rules))

    return sweep(specs, varying, installed_release())


def _draw(found: Audit, name: str, output: Path | None) -> None:
    one = found.parameters[0] if name == "-" else found[name]
    picture = one.draw()
    click.echo(picture.text if output is None else f"drew {picture.save(output)}", err=True)


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.strip("[]() ").split(",") if size.strip())
    except ValueError:
        raise SpecError(f"the shape {text!r} is no list of sizes; right would be 32001,4096") from None


def _rules(texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        pattern, equals, placement = text.partition("=")
        if not equals or not pattern:
            raise SpecError(f"the rule {text!r} is no pattern=placement; right would be '*lm_head*=S(0)'")
        found[pattern] = placement
    return found
