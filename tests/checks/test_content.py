"""Conversion to safetensors, and comparison of two checkpoints."""

import json

import pytest
import torch

from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.content import compare_checkpoints
from shardviz.checks.checkpoints.converting import convert
from shardviz.core.errors import FileError
from tests.checks import saved


def convertible(tmp_path):
    state = {name: tensor for name, tensor in saved.TENSORS.items() if name not in ("wide", "turned")}
    return saved.save(tmp_path / "convertible", {**state, "epoch": 3}), state


def test_conversion_gives_every_element(checkpoint_verb, tmp_path):
    from safetensors.torch import load_file

    directory, state = convertible(tmp_path)
    status, out, _ = checkpoint_verb(directory, "--to", tmp_path / "out.safetensors")
    assert status == 0
    assert "7 tensors written" in out
    loaded = load_file(tmp_path / "out.safetensors")
    assert {name: saved.number(tensor) for name, tensor in loaded.items()} == {n: saved.number(t) for n, t in state.items()}


def test_a_broken_checkpoint_is_not_converted(checkpoint_verb, tmp_path):
    broken = saved.cut(tmp_path / "broken", "w", [(0, 8, 8), (8, 1, 0), (9, 0, 1)])
    status, _, err = checkpoint_verb(broken, "--to", tmp_path / "out.safetensors")
    assert (status, (tmp_path / "out.safetensors").exists()) == (1, False)
    assert "--mend" in err


def test_a_wrong_conversion_would_be_found(tmp_path, monkeypatch):
    import safetensors.torch

    directory, _ = convertible(tmp_path)
    save_file = safetensors.torch.save_file

    def wrong(state, path, **more):
        state["weight"][1, 2] = -1
        save_file(state, path, **more)

    monkeypatch.setattr(safetensors.torch, "save_file", wrong)
    with pytest.raises(FileError, match="does not hold the elements of weight"):
        convert(checkpoint(directory), tmp_path / "out.safetensors")


def test_comparison_finds_the_first_element(checkpoint_verb, tmp_path):
    one = saved.save(tmp_path / "one")
    changed_tensor = saved.TENSORS["weight"].clone()
    changed_tensor[1, 2] = changed_tensor[2, 0] = -1
    other = saved.save(
        tmp_path / "other", {**saved.TENSORS, "weight": changed_tensor, "step": torch.ones(1), "extra": torch.ones(2)}
    )
    found = {d.name: d for d in compare_checkpoints(checkpoint(one), checkpoint(other))}
    assert set(found) == {"weight", "step", "extra"}
    assert (found["weight"].index, found["weight"].count) == ((1, 2), 2)
    status, out, _ = checkpoint_verb(one, "--compare", other, "-o", tmp_path / "both.html")
    assert status == 1
    assert "weight differs in 2 of 12 elements, first at (1, 2)" in out
    assert checkpoint_verb(one, "--compare", one)[0] == 0
    assert (tmp_path / "both.html").stat().st_size > 10_000


def test_cuts_do_not_matter_to_a_comparison_and_are_shown(checkpoint_verb, tmp_path):
    one = saved.cut(tmp_path / "one", "w", [(0, 4, 4), (4, 5, 5)])
    other = saved.cut(tmp_path / "other", "w", [(0, 1, 1), (1, 8, 8)])
    assert list(compare_checkpoints(checkpoint(one), checkpoint(other))) == []
    status, out, _ = checkpoint_verb(one, "--compare", other, "-o", tmp_path / "both.html")
    assert (status, out) == (0, "equal: 1 tensor, every element\n1 tensor cut in other ways: w\n")
    page = (tmp_path / "both.html").read_text()
    assert page.index(f"w in {one}") < page.index(f"w in {other}")  # one above the other
    assert page.index(">0-3</text>") < page.index(">1-8</text>")
    assert json.loads(checkpoint_verb(one, "--compare", other, "--json")[1]) == {
        "equal": True,
        "differences": [],
        "recut": ["w"],
    }
    assert json.loads(checkpoint_verb(one, "--compare", one, "--json")[1])["recut"] == []
