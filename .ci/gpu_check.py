"""What shardviz does on this machine's GPUs: the main job, the scenarios and the notebooks, measured into a JSON file.

`python .ci/gpu_check.py FILE [--only PATTERN]` runs without a GPU too, and says so. Status 1 where anything went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path

import nbformat
import torch
from nbclient import NotebookClient

import shardviz as sv
from shardviz.core.errors import RequestError
from shardviz.ranks.binding import usable_gpus
from shardviz.ranks.scenarios import checkpoint, full_state, training

ROOT = Path(__file__).parents[1]
SPECS = (
    "[5] on dp=2, tp=2: _S(0, 2), S(0)",
    "[7, 5] on dp=2, tp=2: S(0), S(1)",
    "[16] on dp=2, tp=2: _S(0, 2), _S(0, 2)",
    "[6] on dp=2, tp=2: P(sum), S(0)",
    "[1000, 37] on dp=2, tp=2: _S(0, 2), S(0)",
)
NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
WARM_RUNS = 10
CELL_SECONDS = 120


def machine() -> dict[str, object]:
    """What it has; asked of torch without initialising CUDA here, for the ranks are forked."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": len(usable_gpus()),
    }


def main_job(ranks: sv.Ranks) -> dict[str, object]:
    """Every spec on the ranks: are the prediction, what is held, and both reconstructions one answer?"""
    found: dict[str, object] = {"backend": ranks.backend, "devices": ranks.devices, "notice": ranks.notice}
    for text in [*SPECS, *([NINE] if ranks.n >= 8 else [])]:
        trace = ranks.run(text)
        assert trace.holds(sv.layout(trace.spec)), f"{text}: what is held is not what was predicted"
        assert trace.right, f"{text}: the reconstruction is wrong"
        assert trace.source.backend == ranks.backend
        found[text] = [difference.sentence for difference in sv.disagreements(trace, sv.layout(trace.spec))]
    found["warm_seconds"] = fastest_of(lambda: ranks.run(SPECS[0]))
    moved = ranks.redistribute("[6] on dp=2, tp=2: P(sum), S(0)", "S(0), R")
    assert moved.right, "the redistribution is wrong"
    return found


def fastest_of(work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few calls."""
    took = []
    for _ in range(WARM_RUNS):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def scenarios(ranks: sv.Ranks) -> dict[str, object]:
    """Training beside a single process, the full state dict, and a checkpoint, all at uneven widths."""
    mesh = {"dp": 2, "tp": 2}
    wrong = [one.after for one in ranks.apply(training, 5, mesh) if one.after or one.before]
    assert not wrong, f"trained parameters differ: {wrong}"
    assert not any(ranks.apply(full_state, 5, mesh))
    with tempfile.TemporaryDirectory() as directory:
        assert not any(ranks.apply(checkpoint, 5, mesh, directory))
    return {"training": "as a single process", "state": "whole", "checkpoint": "came back"}


def one_start(**options: object) -> Callable[[], dict[str, object]]:
    """The main job and the scenarios on ranks that are started for them."""

    def work() -> dict[str, object]:
        began = time.perf_counter()
        with sv.Ranks(4, timeout=60, **options) as ranks:  # type: ignore[arg-type]
            ready = time.perf_counter() - began
            return {"ready_seconds": ready, "main job": main_job(ranks), "scenarios": scenarios(ranks)}

    return work


def eight() -> dict[str, object]:
    """The case that torch reports wrongly."""
    with sv.Ranks(8, timeout=60) as ranks:
        return main_job(ranks)


def shared() -> dict[str, object]:
    """Four NCCL ranks on whatever cards there are; refused, with the version, where this NCCL cannot."""
    try:
        ranks = sv.Ranks(4, timeout=60, share_gpus=True)
    except RequestError as refused:
        return {"refused": str(refused)}
    with ranks:
        return main_job(ranks)


def notebook(path: Path) -> Callable[[], dict[str, object]]:
    """A notebook from top to bottom."""

    def work() -> dict[str, object]:
        with tempfile.TemporaryDirectory() as directory:
            resources = {"metadata": {"path": directory}}
            NotebookClient(nbformat.read(path, 4), timeout=CELL_SECONDS, kernel_name="python3", resources=resources).execute()
        return {}

    return work


def main() -> int:
    """Run everything, one thing after another; whatever fails is written down, and the rest goes on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where the JSON goes")
    parser.add_argument("--only", default="*", help="which parts, such as 'notebook 0*' (a pattern; all by default)")
    asked = parser.parse_args()
    parts = {"four ranks": one_start(), "four ranks on gloo": one_start(backend="gloo"), "eight ranks": eight}
    if usable_gpus():
        parts["four ranks that share cards"] = shared
    parts |= {f"notebook {path.stem}": notebook(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    parts = {name: work for name, work in parts.items() if fnmatch(name, asked.only)}
    failed = measure(parts, asked.file)
    print(f"{asked.file}: {len(parts) - failed} of {len(parts)} went well, {machine()}")
    return int(failed > 0)


def measure(parts: Mapping[str, Callable[[], dict[str, object]]], file: Path) -> int:
    """Run parts one after another, write each result down at once, and return how many failed."""
    results: dict[str, dict[str, object]] = {}
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, work in parts.items():
        began = time.perf_counter()
        try:
            result = {"ok": True, **work()}
        except Exception:  # the next part must still run
            result = {"ok": False, "error": traceback.format_exc()}
        results[name] = {**result, "seconds": round(time.perf_counter() - began, 2)}
        file.write_text(json.dumps({"machine": machine(), "parts": results}, indent=1))
        print(f"{'ok' if result['ok'] else 'FAILED':6} {name}: {results[name]['seconds']} s", flush=True)
    return sum(not result["ok"] for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
