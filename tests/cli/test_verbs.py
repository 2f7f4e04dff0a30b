"""What the command line prints and how it ends, as other programs rely on it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardviz import __version__

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
CASES = json.loads((Path(__file__).parent.parent / "data" / "layouts.json").read_text())


def notation(case):
    mesh = ", ".join(f"{name}={size}" for name, size in case["mesh"].items())
    return f"{case['shape']} on {mesh}: {', '.join(case['placements'])}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{notation(case)} {case['reading']}")
def test_layout_gives_every_known_answer(shardviz, case):
    status, out, err = shardviz("layout", notation(case), "--reading", case["reading"], "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert document["ranks"] == case["ranks"]
    assert case["reading"] in ("auto", document["reading"])


def test_layout_reads_one_spec_a_line(shardviz, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{FIVE}\n[5] on dp=2: X\n\n{NINE}\n"))
    status, out, _ = shardviz("layout", "-", "--json")
    documents = [json.loads(line) for line in out.splitlines()]
    assert status == 2
    assert [document.get("spec") for document in documents] == [FIVE, None, NINE]
    assert "'X' at position 13" in documents[1]["error"]


def test_layout_of_good_lines_ends_well(shardviz, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(FIVE))
    assert shardviz("layout", "-", "--json")[0] == 0


def test_who_made_a_tensor_decides_where_one_label_stands_for_two_layouts(shardviz):
    packed = "[8] on dp=2, tp=2: _S(0, 2), _S(0, 2)"
    for maker, first, reading in (
        ("fsdp2", [[[0, 2]]], "outer-last"),
        ("distribute_tensor", [[[0, 1], [4, 5]]], "left-to-right"),
    ):
        found = json.loads(shardviz("layout", packed, "--json", "--made-by", maker)[1])
        assert (found["ranks"][0]["runs"], found["reading"]) == (first, reading)
        assert f"read as {reading}" in found["note"]
        assert "also stands for" in found["note"]
        assert found["note"] in shardviz("draw", packed, "--made-by", maker)[1]
        assert found["note"] in shardviz("draw", packed, "--made-by", maker, "--story")[1]
    assert "'nobody' is not one of 'fsdp2-over-tp'" in shardviz("layout", packed, "--made-by", "nobody")[2]


def test_layout_in_words(shardviz):
    assert "rank 3 (1, 1): 4" in shardviz("layout", FIVE)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("layout", "[5] on dp=2: X"), "'X' at position 13"),
        (("layout", "[5] on dp=2: S(1)"), "tensor dimension 1 does not exist"),
        (("layout", "[8] on tp=2: _S(0, 2)", "--reading", "sharding-order"), "factors that would fit: 1"),
        (("layout", FIVE, "--reading", "sideways"), "'sideways' is not one of 'auto'"),
        (("layout",), "Missing argument 'SPEC'"),
        (("lay", FIVE), "No such command 'lay'"),
        (("draw", FIVE, "-o", "x.docx"), "'x.docx'"),
        (("draw", FIVE, "--story", "--method", "magic"), "'magic' is not one of 'exact'"),
        (("run", "[80] on dp=40, tp=2: _S(0, 2), S(0)"), "needs 80 ranks, more than 16: allow them with --max-ranks 80"),
        (("run", FIVE, "-o", "x.docx"), "one of .html, .svg, .png, .gif, .json"),
        (("run", FIVE, "-o", "nowhere/x.html"), "the directory nowhere does not exist"),
    ],
)
def test_a_wrong_request_is_one_line_and_status_2(shardviz, arguments, said):
    status, out, err = shardviz(*arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_version_and_help(shardviz):
    assert __version__ in shardviz("--version")[1]
    assert "Exit status" in shardviz()[1]
    assert all(shardviz(verb, "--help")[0] == 0 for verb in ("layout", "draw", "run", "demo", "doctor", "lab"))


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_draw_writes_a_picture(shardviz, tmp_path, suffix):
    target = tmp_path / f"nine.{suffix}"
    status, out, _ = shardviz("draw", NINE, "-o", str(target))
    assert (status, out.strip()) == (0, str(target))
    assert target.stat().st_size > 1000


def test_draw_without_a_file_prints_words(shardviz):
    assert "unshuffle" in shardviz("draw", FIVE, "--story")[1]
    assert "rank 3" in shardviz("draw", FIVE)[1]


def test_doctor_looks_at_what_is_needed(shardviz):
    status, out, _ = shardviz("doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(out)}
    assert status == 0
    assert found["torch"]["works"]
    assert found["loopback"]["works"]
    assert "loopback" in shardviz("doctor")[1]


def run(*arguments):
    """The command as a user calls it, in a process of its own."""
    command = [sys.executable, "-m", "shardviz", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.ranks
def test_run_of_five_elements_is_right(tmp_path):
    page = tmp_path / "five.html"
    ended = run("run", FIVE, "--json", "-o", str(page))
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["spec"] == FIVE
    assert document["source"] == {
        "ranks": 4,
        "backend": "gloo",
        "torch": document["source"]["torch"],
        "devices": ["cpu"] * 4,
        "made_by": "fsdp2-over-tp",
    }
    assert document["agrees"]
    assert document["differences"] == []
    assert document["full_tensor_right"]
    assert document["own_reconstruction_right"]
    assert document["ranks"][3] == {
        "rank": 3,
        "coordinate": [1, 1],
        "held": [[[4, 5]]],
        "reported": {"shape": [1], "offset": [4]},
    }
    gather = document["steps"][2]
    assert gather == {"name": "all-gather over tp", "kind": "collective", "bytes": [16, 16, 8, 8]}
    assert "all_gather_into_tensor" in [step["name"] for step in document["torch_steps"]]
    assert "held by 4 gloo ranks" in page.read_text()


@pytest.mark.ranks
def test_run_says_where_torch_and_its_ranks_part():
    ended = run("run", NINE, "--json")
    document = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert document["agrees"]
    assert document["full_tensor_right"]
    assert document["differences"] == [
        "rank 6 holds nothing; torch reports row 8",
        "rank 7 holds row 8; torch reports nothing",
    ]


@pytest.mark.ranks
def test_demo_leaves_everything_in_a_directory(tmp_path):
    ended = run("demo", "--out", str(tmp_path / "demo"), "[4] on tp=2: S(0)")
    assert ended.returncode == 0, ended.stderr
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    stems = ("layout", "story", "torch-story")
    assert names == {"index.html", "trace.json", *(f"{stem}.{suffix}" for stem in stems for suffix in ("svg", "png"))}
    assert "rank" in ended.stdout
    assert "index.html" in ended.stdout
