"""The same verbs for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from shardviz import __version__
from shardviz.cli.audit import audit_command
from shardviz.cli.bench import bench
from shardviz.cli.checkpoint import checkpoint_command
from shardviz.cli.lessons import lessons_command
from shardviz.cli.museum import museum_command
from shardviz.core.compare import disagreements
from shardviz.core.errors import FileError, RanksError, RequestError, ShardvizError
from shardviz.core.layout import READINGS, Layout, layout
from shardviz.core.spec import MADE_BY, Spec, parse
from shardviz.core.trace import Step, Trace
from shardviz.core.unshuffle import METHODS, unshuffle

__all__ = ["main"]

FOUND_WRONG, BAD_REQUEST, UNFINISHED = 1, 2, 3
"""Exit statuses: something was found wrong, the request was wrong, the run could not be finished."""

DAY = 24 * 60 * 60
SPEC_HELP = 'SPEC is a shape on a mesh, such as "[5] on dp=2, tp=2: _S(0, 2), S(0)".'
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
_reading = click.option(
    "--reading",
    type=click.Choice(["auto", *READINGS]),
    default="auto",
    show_default=True,
    help="How placements become indices.",
)
_made_by = click.option(
    "--made-by",
    type=click.Choice(MADE_BY),
    help="Who made the tensor, which decides where one label stands for two layouts.  [default: run chooses; else unknown]",
)
_max_ranks = click.option(
    "--max-ranks", type=click.IntRange(1), default=16, show_default=True, help="Refuse to start more ranks than this."
)
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=1), default=20.0, show_default=True, help="Seconds a call on the ranks may take."
)


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="shardviz")
@click.pass_context
def cli(context: click.Context) -> None:
    """See how PyTorch shards a tensor: which rank holds which element, where the padding went, how it comes together.

    Exit status: 0 all well, 1 something was found wrong, 2 the request was wrong, 3 the run could not be finished.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command("layout", help=f"Which elements each rank holds. {SPEC_HELP} A dash reads one spec a line from standard input.")
@click.argument("spec")
@_reading
@_made_by
@_json
def layout_command(spec: str, reading: str, made_by: str | None, as_json: bool) -> None:
    """Print layouts."""
    if spec != "-":
        found = layout(parse(spec).with_made_by(made_by), reading)
        click.echo(_dumps(_layout_json(found)) if as_json else found.text)
        return
    if sys.stdin is None:
        raise click.UsageError("a dash reads specs from standard input, and that is closed")
    wrong = False
    for line in filter(None, map(str.strip, sys.stdin)):
        try:
            found = layout(parse(line).with_made_by(made_by), reading)
            click.echo(_dumps(_layout_json(found)) if as_json else found.text)
        except ShardvizError as error:
            wrong = True
            click.echo(_dumps({"error": str(error)}) if as_json else f"error: {error}")
    if wrong:
        sys.exit(BAD_REQUEST)


@cli.command("draw", help=f"Draw the predicted layout, or with --story how the ranks put the tensor together. {SPEC_HELP}")
@click.argument("spec")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A .svg, .png, .html or, with --story, .gif file."
)
@click.option("--story", is_flag=True, help="Draw the reconstruction step by step.")
@click.option("--method", type=click.Choice(METHODS), default="exact", show_default=True, help="Of the reconstruction.")
@_reading
@_made_by
def draw_command(spec: str, output: Path | None, story: bool, method: str, reading: str, made_by: str | None) -> None:
    """Draw to a file; without one, print the picture's text form."""
    from shardviz.picture import draw

    question = parse(spec).with_made_by(made_by)
    picture = draw(unshuffle(question, method, reading) if story or method != "exact" else layout(question, reading))
    if output is None:
        click.echo(picture.text)
    else:
        click.echo(picture.save(output))


@cli.command("run", help=f"Make the tensor on real ranks, record what they hold, and compare. {SPEC_HELP}")
@click.argument("spec")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Save the story: .html, .svg, .png, .gif or .json."
)
@_made_by
@_max_ranks
@_timeout
@_json
def run_command(spec: str, output: Path | None, made_by: str | None, max_ranks: int, timeout: float, as_json: bool) -> None:
    """Run on real ranks."""
    question = parse(spec).with_made_by(made_by)
    if output is not None:
        _check_output(output)
    trace = run_spec(question, max_ranks, timeout)
    summary = run_summary(trace)
    if output is not None:
        save(trace, output)
    if as_json:
        click.echo(_dumps(summary))
    else:
        from shardviz.cli.terminal import print_run

        print_run(trace)
        if output is not None:
            click.echo(f"\nsaved {output}")
    if summary["differences"]:
        sys.exit(FOUND_WRONG)


@cli.command("demo", help=f"Do the whole job once and write it to a directory: pictures, a page, the trace. {SPEC_HELP}")
@click.argument("spec", default="[5] on dp=2, tp=2: _S(0, 2), S(0)")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("build/demo"), show_default=True)
@_max_ranks
@_timeout
def demo_command(spec: str, out: Path, max_ranks: int, timeout: float) -> None:
    """Run a spec and leave everything that came of it in a directory."""
    from shardviz.cli.demo import write_demo
    from shardviz.cli.terminal import print_run

    question = parse(spec)
    trace = run_spec(question, max_ranks, timeout)
    files = write_demo(trace, out)
    print_run(trace)
    click.echo("\nLook at:")
    for path, what in files:
        click.echo(f"  {path}  {what}")


@cli.command("doctor")
@_json
def doctor_command(as_json: bool) -> None:
    """What this machine has, and what will work on it."""
    from shardviz.cli.doctor import examine, print_findings

    findings = examine()
    if as_json:
        click.echo(_dumps(findings))
    else:
        print_findings(findings)
    if not all(finding.works for finding in findings if finding.required):
        sys.exit(FOUND_WRONG)


@cli.command("lab", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
def lab_command(arguments: tuple[str, ...]) -> None:
    """Open JupyterLab on the first notebook, on loopback. Further ARGUMENTS go to JupyterLab."""
    from shardviz.cli.lab import open_lab

    open_lab(arguments)


cli.add_command(audit_command)
cli.add_command(bench)
cli.add_command(checkpoint_command)
cli.add_command(lessons_command)
cli.add_command(museum_command)


def run_spec(spec: Spec, max_ranks: int, timeout: float) -> Trace:
    """Record a spec on ranks that are started for it and stopped after it.

    Raises:
        RequestError: it needs more ranks than allowed; nothing was started.
        RanksError: the run could not be finished.
    """
    if not 1 <= timeout <= DAY:  # nan too
        raise RequestError(f"--timeout {timeout:g}: seconds, from 1 to {DAY}")
    from shardviz.cli.terminal import progress_bar
    from shardviz.ranks.cluster import Ranks

    needed = max(spec.mesh.ranks) + 1
    if needed > max_ranks:
        allow = f"allow them with --max-ranks {needed} (make demo MAX_RANKS={needed})"
        raise RequestError(f"{spec} needs {needed} ranks, more than {max_ranks}: {allow}")
    with progress_bar() as progress, Ranks(needed, timeout=timeout, progress=progress) as ranks:
        return ranks.run(spec)


def run_summary(trace: Trace) -> dict[str, Any]:
    """The document of `shardviz run --json`."""
    predicted = layout(trace.spec)
    found = disagreements(trace, predicted)
    source = trace.source
    return {
        "spec": str(trace.spec),
        "source": {
            "ranks": source.ranks,
            "backend": source.backend,
            "torch": source.torch,
            "devices": source.devices,
            "made_by": source.made_by,
        },
        "reading": predicted.reading,
        "note": predicted.note,
        "agrees": trace.holds(predicted),
        "differences": [difference.sentence for difference in found],
        "full_tensor_right": trace.torch is not None and trace.torch.right,
        "own_reconstruction_right": trace.right,
        "ranks": [
            {
                "rank": rank,
                "coordinate": trace.spec.mesh.coordinate(rank),
                "held": buffer.axes if buffer.cells is None else None,
                "reported": {"error": report.error} if report.error else {"shape": report.shape, "offset": report.offset},
            }
            for rank, buffer, report in zip(trace.ranks, trace.held, trace.reported, strict=True)
        ],
        "used": [buffer.axes for buffer in trace.used],
        "steps": [_step_json(step) for step in trace.steps],
        "torch_steps": [_step_json(step) for step in trace.torch.steps] if trace.torch else [],
    }


def save(trace: Trace, output: Path) -> None:
    """Save a trace by the suffix of the file: its picture, or the trace itself as JSON."""
    if output.suffix == ".json":
        trace.save(output)
        return
    from shardviz.picture import draw

    if output.suffix != ".html":
        draw(trace).save(output)
        return
    from shardviz.cli.demo import run_page

    output.write_text(run_page(trace), "utf-8")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; a request that is wrong ends with one line on standard error."""
    try:
        cli.main(arguments, prog_name="shardviz", standalone_mode=False)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.Abort:
        _fail("interrupted; the ranks were stopped", UNFINISHED)
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        _fail(f"{error.format_message()}{hint}", BAD_REQUEST)
    except click.ClickException as error:
        _fail(error.format_message(), BAD_REQUEST)
    except RequestError as error:
        _fail(str(error), BAD_REQUEST)
    except RanksError as error:
        _fail(str(error), UNFINISHED)
    except ShardvizError as error:
        _fail(str(error), BAD_REQUEST)
    except KeyboardInterrupt:
        _fail("interrupted; the ranks were stopped", UNFINISHED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader left; there is nobody to tell
        sys.exit(0)
    except OSError as error:
        _fail(f"standard output cannot be written: {error.strerror}", UNFINISHED)
    sys.exit(0)


def _fail(message: str, status: int) -> NoReturn:
    click.echo(f"shardviz: {message}", err=True)
    sys.exit(status)


def _check_output(output: Path) -> None:
    allowed = (".html", ".svg", ".png", ".gif", ".json")
    if output.suffix not in allowed:
        raise FileError(f"{output}: the suffix says what to write, one of {', '.join(allowed)}")
    if not output.parent.is_dir():
        raise FileError(f"{output}: the directory {output.parent} does not exist")


def _layout_json(found: Layout) -> dict[str, Any]:
    ranks: Iterable[dict[str, Any]] = (
        {"rank": r.rank, "coordinate": r.coordinate, "shape": r.shape, "offset": r.offset, "runs": r.runs} for r in found
    )
    return {"spec": str(found.spec), "reading": found.reading, "note": found.note, "ranks": list(ranks)}


def _step_json(step: Step) -> dict[str, Any]:
    return {"name": step.name, "kind": step.kind, "bytes": step.bytes}


def _dumps(document: Any) -> str:
    return msgspec.json.encode(document).decode()
