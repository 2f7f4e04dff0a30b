"""What this machine has, and what will work on it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from shardviz import __version__
from shardviz.ranks.binding import usable_gpus

__all__ = ["Finding", "examine", "print_findings"]

OLDEST_TORCH = (2, 11)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what.
        found: what is there, in words.
        works: whether it is as shardviz needs it.
        required: whether anything fails without it.
        advice: what to do about it, or "".
    """

    name: str
    found: str
    works: bool = True
    required: bool = True
    advice: str = ""


def examine() -> list[Finding]:
    """Look at Python, the packages, the GPUs, loopback, memory and the browser. Nothing is started, torch is not imported."""
    return [*_packages(), *_devices(), *_machine()]


def print_findings(findings: list[Finding]) -> None:
    """Print them as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "found", "advice"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        mark = "ok" if finding.works else "MISSING" if finding.required else "-"
        table.add_row(mark, finding.name, finding.found, finding.advice)
    Console().print(table)


def _packages() -> Iterator[Finding]:
    yield Finding("shardviz", __version__)
    yield Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        torch = version("torch")
        new_enough = tuple(int(part) for part in torch.split("+")[0].split(".")[:2]) >= OLDEST_TORCH
        yield Finding("torch", torch, new_enough, advice="" if new_enough else "shardviz needs torch 2.11 or later")
    except PackageNotFoundError:
        yield Finding("torch", "not installed", works=False, advice="pip install 'torch>=2.11'")
    for package in ("ipyparallel", "jupyterlab", "ipywidgets", "anywidget", "matplotlib"):
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            yield Finding(package, "not installed", works=False, advice=f"pip install {package}")


def _devices() -> Iterator[Finding]:
    gpus = len(usable_gpus())
    if gpus:
        yield Finding("GPUs", str(gpus))
        yield Finding("ranks", f"up to {gpus} on NCCL, one GPU each; more than that on gloo (CPU)")
    else:
        yield Finding("GPUs", "none", works=False, required=False)
        yield Finding("ranks", "on gloo (CPU)")


def _machine() -> Iterator[Finding]:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            yield Finding("loopback", "a port on 127.0.0.1 can be bound")
    except OSError as error:
        yield Finding("loopback", f"127.0.0.1 cannot be bound: {error}", works=False, advice="ranks talk over loopback")
    yield Finding("CPU cores", str(os.cpu_count()))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield Finding("memory", f"{memory:.1f} GiB", advice="" if memory >= 2 else "four ranks want 2 GiB")
    browser = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    yield Finding("Chromium", browser or "none: the browser tests are skipped", bool(browser), required=False)
