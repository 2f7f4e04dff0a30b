"""The audit of a model against asking torch for every rank of every parameter."""

from __future__ import annotations

from collections.abc import Iterator

from shardviz.bench.measure import Measurement, seconds
from shardviz.checks.audits.families import known_model
from shardviz.checks.audits.lines import line, tables
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.parameter import faults_of
from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.report import examine
from shardviz.checks.audits.subjects import on_grid
from shardviz.checks.audits.sweep import read_sweep, sweep
from shardviz.core.spec import Spec

__all__ = ["bench_audit"]

FASTER, AIM, MAP = 1000, 2.0, 60.0
STEP = 341
"""torch is asked at every so many coordinates of each parameter and its time multiplied."""


def bench_audit() -> Iterator[Measurement]:
    """1,000 parameters of a decoder whose vocabulary got a token more, on 1,024 ranks."""
    specs = decoder(111)
    release = installed_release()

    def ours() -> None:
        for cached in (tables, line, faults_of):
            cached.cache_clear()
        examine(((str(number), spec) for number, spec in enumerate(specs)), release)

    mine, theirs = seconds(ours, repeats=3), _torch_seconds(specs)
    yield Measurement("1,000 parameters on 1,024 ranks: shardviz", mine, "seconds", f"about {AIM:g}", mine <= 2 * AIM)
    yield Measurement("1,000 parameters on 1,024 ranks: torch, from a sample", theirs, "seconds")
    ratio = theirs / mine
    yield Measurement("1,000 parameters on 1,024 ranks: faster", ratio, "times", f"at least {FASTER:,}", ratio >= FASTER)
    thin, ranges = known_model(SEVENTY).thinned(), read_sweep("dp=1..250, tp=1|2|4|8")
    swept = seconds(lambda: sweep(lambda mesh: on_grid(thin, Grid.of(mesh), {}), ranges, release), repeats=1)
    yield Measurement(
        "a 70B with a token more on 1,000 meshes of up to 2,000 ranks", swept, "seconds", f"under {MAP:g}", swept <= MAP
    )


SEVENTY = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128_257,
}
"""Llama-3-70B, with a token added to its vocabulary."""


def decoder(layers: int) -> list[Spec]:
    """The parameters of a decoder with nine in every layer, 32,001 tokens, on dp=128, tp=8."""
    grid = Grid.of("dp=128, tp=8")
    rows, columns, whole = "S(0)", "S(1)", "R"
    layer = [
        *((shape, rows) for shape in ((4096, 4096), (1024, 4096), (1024, 4096), (11008, 4096), (11008, 4096))),
        *((shape, columns) for shape in ((4096, 4096), (4096, 11008))),
        *[((4096,), whole)] * 2,
    ]
    ends = [((32001, 4096), rows)]
    return [grid.spec(shape, cut) for shape, cut in [*ends, *layer * layers]]


def _torch_seconds(specs: list[Spec]) -> float:
    """The time that torch would need for every rank of every parameter."""
    from shardviz.tensors.reported import shape_and_offset_at

    everything = [(spec, place) for spec in specs for place in spec.mesh.coordinates[::STEP]]
    asked = [(shape_and_offset_at(spec), place) for spec, place in everything]
    total = sum(spec.mesh.size for spec in specs)
    return seconds(lambda: [ask(place) for ask, place in asked], repeats=1) * total / len(asked)
