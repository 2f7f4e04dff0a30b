"""The audit against real models: transformers' own FSDP2 and TP on gloo ranks; what it says fails is what fails, and there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardviz.checks.audits.audit import audit
from tests.checks.cases import GRID, MORE
from tests.checks.verdicts import compare

pytest.importorskip("transformers", reason="the models are transformers' own")
pytest.importorskip("accelerate", reason="transformers loads onto a mesh only where accelerate is installed")

pytestmark = pytest.mark.ranks

QUICK = [
    # Each of these says no in another place: the loader, the heads, the save of packed experts.
    {"family": "llama", "mesh": {"fsdp": 3, "tp": 2}, "steps": ["load", "facts", "save"]},
    {"family": "llama", "mesh": {"fsdp": 1, "tp": 3}, "steps": ["load", "facts", "infer"]},
    {**GRID[8], "steps": ["load", "facts", "forward", "backward", "save"]},
]


def run(cases, seconds):
    """What really happens to each case."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.checks.real_models"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(cases), done.stderr[-3000:]
    return found


def row(one):
    """A line of the table: the case, and by step what the audit says and what happened; and the steps that differ."""
    _, steps = compare(one)
    case = one["case"]
    size = " x ".join(f"{name}={count}" for name, count in case["mesh"].items())
    told = ", ".join(f"{step}: {'fails' if said else 'ok'}/{real}" for step, (said, real, _, _) in steps.items())
    differing = [
        step
        for step, (said, real, expected, raising) in steps.items()
        if said != (real != "ok") or (said and step in ("load", "infer", "forward") and expected != raising)
    ]
    words = one["config"].get("vocab_size")
    return f"{case['family']} ({words} words) on {size}: {told}", differing


def differing_rows(found, count):
    wrong = []
    for one in found:
        text, differing = row(one)
        count(f"audit/reality: {text}")
        wrong += [f"{text}: {step}: {one['steps'][step]}" for step in differing]
    return wrong


def placements(one):
    """How each parameter is cut over (fsdp, tp), as the ranks made it; one that tp leaves whole is on fsdp alone."""
    return {name: [*cut, "R"] if names == ["fsdp"] else cut for name, _, names, _, cut in one["facts"] if names}


def by_configuration(one, folder):
    """The same, as the audit takes it from the configuration's file."""
    path = folder / "config.json"
    path.write_text(json.dumps(one["config"]))
    found = audit(path, mesh=one["case"]["mesh"])
    assert found.coverage.complete
    return {each.name: [str(cut) for cut in each.spec.placements] for each in found.parameters}


def test_what_the_audit_says_of_small_models_is_what_happens(count, tmp_path):
    found = run(QUICK, 300)
    assert differing_rows(found, count) == []
    for one in (found[0], found[2]):
        assert by_configuration(one, tmp_path) == placements(one)
    said = [compare(one)[1] for one in found]
    assert said[0]["load"][:2] == (True, "refused")
    assert said[0]["save"][:2] == (True, "refused")
    assert said[1]["infer"][:2] == (True, "refused")
    assert said[2]["save"][:2] == (True, "refused")
    assert said[2]["backward"][:2] == (False, "ok")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_every_family_on_every_mesh(part, count):
    found = run([*MORE, *GRID][part::6], 1500)
    assert differing_rows(found, count) == []


def test_a_wrong_verdict_would_be_seen():
    one = {
        "case": {"family": "llama", "mesh": {"fsdp": 3, "tp": 2}},
        "facts": [["lm_head.weight", [19, 16], ["fsdp", "tp"], [3, 2], ["_S(0, 2)", "S(0)"]]],
        "styles": {},
        "apart": [],
        "config": {"vocab_size": 19, "num_attention_heads": 4, "num_key_value_heads": 2},
        "steps": {"load": ["ok"] * 6, "save": ["raised ValueError: no"] * 6},
    }
    assert row(one)[1] == ["load"]
    one["steps"]["load"] = ["ok"] * 4 + ["raised IndexError: no", "ok"]
    assert row(one)[1] == ["load"]
    one["steps"]["load"] = ["ok"] * 4 + ["raised IndexError: no"] * 2
    assert row(one)[1] == []
