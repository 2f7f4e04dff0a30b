"""What a terminal sees of a run: a progress bar while it starts, a short table when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from shardviz.core.compare import disagreements, report_difference
from shardviz.core.costs import costs
from shardviz.core.layout import layout
from shardviz.core.trace import Trace, buffer_text

__all__ = ["print_run", "progress_bar"]

MOST = 16
"""The most ranks and differences that are listed one by one."""


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error through the stages of a start; it leaves nothing behind, and shows only on a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda stage, fraction: progress.update(task, description=stage, completed=fraction)


def print_run(trace: Trace) -> None:
    """Print a recorded run: what every rank holds and torch reports, both reconstructions, and what differs."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(str(trace.spec), style="bold")
    read = layout(trace.spec)
    console.print(trace.source.text if read.note else f"{trace.source.text}, read as {read.reading}")
    console.print(_ranks(trace))
    spent = costs(trace)
    sent = f"{sum(spent.sent):,} bytes sent in all, {sum(spent.padding):,} of them padding"
    console.print(f"shardviz's reconstruction: {_verdict(trace)}, {len(trace.steps)} steps, {sent}")
    if trace.torch is not None:
        console.print(f"torch's full_tensor():     {_verdict(trace.torch)}, {len(trace.torch.steps)} steps")
    found = disagreements(trace, layout(trace.spec))
    if not found:
        console.print("Prediction, ranks and torch agree.", style="green")
        return
    console.print(f"{len(found)} difference{'s' * (len(found) != 1)}:", style="bold red")
    for difference in found[:MOST]:
        console.print(f"  {difference.sentence}")
    if len(found) > MOST:
        console.print(f"  and {len(found) - MOST} more (--json lists all)")


def _ranks(trace: Trace) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("rank", *trace.spec.mesh.names, "holds", "torch reports"):
        table.add_column(heading, justify="right" if heading == "rank" else "left")
    for rank, buffer, report in list(zip(trace.ranks, trace.held, trace.reported, strict=True))[:MOST]:
        differs = report_difference(trace.spec.shape, buffer, report)
        said = differs.partition("; torch reports ")[2] if differs else "the same"
        style = "red" if differs else None
        table.add_row(str(rank), *map(str, trace.spec.mesh.coordinate(rank)), buffer_text(buffer), said, style=style)
    if len(trace.ranks) > MOST:
        table.add_row("…", *[""] * trace.spec.mesh.ndim, f"and {len(trace.ranks) - MOST} more ranks", "")
    return table


def _verdict(trace: Trace) -> str:
    if trace.end:
        return "ended: " + trace.end.splitlines()[0]
    return "right on every rank" if trace.right else "WRONG"
