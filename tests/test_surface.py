"""The public surface is even: wrong types end in the product's own sentence, and every report has one meaning of true."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint.state_dict_saver import save

import shardviz as sv
from shardviz.checks.museum import Card, Museum, Outcome, Shown

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
WRONG = (5, None, object(), {"a": "b"}, [[]])
GRADES = {"shardviz.lessons.notes.Verdict"}
"""What a learner asked is true where the answer is right; it is no report."""

CALLS = {
    "Mesh": lambda bad: sv.Mesh(bad),
    "Partial": lambda bad: sv.Partial(bad),
    "Shard": lambda bad: sv.Shard("a" if bad == 5 else bad),
    "StridedShard": lambda bad: sv.StridedShard(0, "a" if bad == 5 else bad),
    "Ranks": lambda bad: sv.Ranks("4" if bad == 5 else bad),
    "Spec": lambda bad: sv.Spec(bad, "dp=2", "S(0)"),
    "audit": lambda bad: sv.audit(bad, mesh="dp=2"),
    "checkpoint": lambda bad: sv.checkpoint(bad),
    "guard": lambda bad: sv.guard(5 if bad == {"a": "b"} else bad),  # a state dict of a text is one without tensors
    "mend": lambda bad: sv.mend(bad, bad),
    "compare": lambda bad: sv.compare(bad, sv.layout(FIVE)),
    "costs": lambda bad: sv.costs(bad),
    "differing_readings": lambda bad: sv.differing_readings(bad),
    "disagreements": lambda bad: sv.disagreements(bad),
    "draw": lambda bad: sv.draw(bad),
    "draw_held": lambda bad: sv.draw_held(bad),
    "draw_used": lambda bad: sv.draw_used(bad),
    "explicit_order": lambda bad: sv.explicit_order(bad),
    "explore": lambda bad: sv.explore([] if bad is None else bad),  # None is the example
    "layout": lambda bad: sv.layout(bad),
    "load": lambda bad: sv.load(bad),
    "local_shape_and_offset": lambda bad: sv.local_shape_and_offset(FIVE, bad),
    "museum": lambda bad: sv.museum(bad),
    "parse": lambda bad: sv.parse(bad),
    "readings": lambda bad: sv.readings(bad),
    "redistribute": lambda bad: sv.redistribute(FIVE, bad),
    "split": lambda bad: sv.split(bad),
    "unshuffle": lambda bad: sv.unshuffle(bad),
}
ELSEWHERE = {"Replicate", "ShardvizError", "corrected_offsets"}
"""No call of its own, or walked through in the tests of the checks."""


def test_every_public_name_is_walked_through():
    assert {*CALLS} | ELSEWHERE == {*sv.__all__}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_type_ends_in_the_products_own_sentence(name):
    for bad in WRONG:
        with pytest.raises(sv.ShardvizError, match=r"\w+ \w+"):
            CALLS[name](bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sv.Spec((5,), "dp=2", None),
        lambda: sv.Spec((5,), None, "S(0)"),
        lambda: sv.costs(sv.layout(FIVE)),
        lambda: sv.draw(sv.layout(FIVE), step=3),
        lambda: sv.draw(sv.unshuffle(FIVE), step=99),
        lambda: sv.draw(sv.unshuffle(FIVE), step="a"),
        lambda: sv.museum("no-such-card"),
    ],
)
def test_and_so_do_those_that_used_to_be_tracebacks(call):
    with pytest.raises(sv.ShardvizError):
        call()


def test_a_mesh_is_taken_in_the_same_forms_and_integers_of_numpy_are_integers():
    right = sv.Spec((5,), {"dp": 2}, "S(0)")
    assert sv.Spec((np.int64(5),), "dp=2", [sv.Shard(np.int32(0))]) == right
    assert sv.Spec((5,), {"dp": np.int64(2)}, "S(0)") == right
    assert sv.Spec((5,), sv.Mesh("dp=2"), "S(0)") == right
    assert type(sv.Spec((np.int64(5),), "dp=2", "S(0)").shape[0]) is int


def reports():
    """Every class of the product that decides what is true of it."""
    for module in pkgutil.walk_packages(sv.__path__, "shardviz."):
        if module.name.split(".")[-1] in ("__main__", "record"):
            continue
        for name, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if found.__module__ == module.name and "__bool__" in vars(found):
                yield f"{module.name}.{name}", found


def test_every_report_says_ok_beside_being_true():
    found = dict(reports())
    assert {"shardviz.core.compare.Comparison", "shardviz.checks.museum.Museum"} <= {*found}
    assert {name for name, one in found.items() if not hasattr(one, "ok")} <= GRADES


def saved(directory):
    """A whole checkpoint of one tensor."""
    save({"weight": torch.ones(3, 2)}, checkpoint_id=directory / "saved", no_dist=True)
    return directory / "saved"


def test_reports_are_true_where_something_was_found(tmp_path):
    nine = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
    card = Card("a", (), "", nine, "", "", {"2.13.0": Outcome("right", "")}, "")
    shown = Shown(card, "2.13.0", "right", "")
    six = sv.unshuffle("[6] on dp=2, tp=2: _S(0, 2), S(0)", "torch-2.8")
    pairs = [
        (sv.compare(nine, nine), sv.compare(sv.layout(nine), sv.layout(nine, "left-to-right"))),
        (sv.disagreements(sv.unshuffle(FIVE)), sv.disagreements(six)),
        (Museum((shown,)), Museum((replace(shown, outcome="wrong"),))),
    ]
    single = [
        *(sv.audit(spec) for spec in (nine, "[8] on dp=4, tp=2: _S(0, 2), S(0)")),
        sv.guard({"weight": torch.ones(2)}),
        sv.checkpoint(saved(tmp_path)),
    ]
    for one in (*single, *(one for pair in pairs for one in pair)):
        assert one.ok is (not bool(one)), type(one).__name__
    for nothing, something in pairs:
        assert (nothing.ok, bool(nothing)) == (True, False)
        assert (something.ok, bool(something)) == (False, True)
