"""`shardviz bench`: the promises, measured on this machine."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Iterable

import click
import msgspec

from shardviz.bench.measure import Measurement

__all__ = ["bench"]

MISSED = 1
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


@click.group("bench")
def bench() -> None:
    """Measure what shardviz promises, on this machine. Exit status 1 where a goal is missed."""


@bench.command("layout")
@_json
def layout_command(as_json: bool) -> None:
    """Complete layouts of 1,024 ranks against torch's own arithmetic."""
    from shardviz.bench.layout import bench_layout

    show(bench_layout(), as_json)


@bench.command("audit")
@_json
def audit_command(as_json: bool) -> None:
    """A model of 1,000 parameters on 1,024 ranks against asking torch for each."""
    from shardviz.bench.audit import bench_audit

    show(bench_audit(), as_json)


@bench.command("checkpoint")
@_json
def checkpoint_command(as_json: bool) -> None:
    """Looking into a checkpoint of 2,000 tensors and 1 GB against loading it with torch."""
    from shardviz.bench.checkpoint import bench_checkpoint

    show(bench_checkpoint(), as_json)


@bench.command("draw")
@_json
def draw_command(as_json: bool) -> None:
    """Pictures against an artist per cell, the steps of a slider, the size of a page, and memory."""
    from shardviz.bench.draw import bench_draw

    show(bench_draw(), as_json)


@bench.command("guard")
@_json
def guard_command(as_json: bool) -> None:
    """Guarding a model of 1,000 parameters on eight ranks."""
    from shardviz.bench.guard import bench_guard

    show(bench_guard(), as_json)


@bench.command("ranks")
@click.option("--faults", is_flag=True, help="Also make ranks raise, die and hang, and time until that is told.")
@_json
def ranks_command(faults: bool, as_json: bool) -> None:
    """Start, warm runs, memory and recording of real ranks against torchrun."""
    from shardviz.bench.ranks import bench_ranks

    show(bench_ranks(faults), as_json)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def show(measured: Iterable[Measurement], as_json: bool) -> None:
    """Print measurements as they come, or all of them as JSON; end with status 1 where one misses its goal."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    found = []
    if not as_json:
        click.echo(machine)
    for one in measured:
        found.append(one)
        if not as_json:
            goal = f"  ({one.goal}: {'met' if one.met else 'MISSED'})" if one.goal else ""
            click.echo(f"  {one.name}: {_number(one.value)} {one.unit}{goal}")
    if as_json:
        click.echo(msgspec.json.encode({"machine": machine, "measured": list(map(dataclasses.asdict, found))}))
    if not all(one.met for one in found):
        sys.exit(MISSED)
