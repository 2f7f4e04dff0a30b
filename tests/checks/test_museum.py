"""The museum: what its cards say of the installed release is what comes out, and a card that comes out otherwise is seen."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from shardviz.checks import museum as museum_module
from shardviz.checks.museum import Outcome, Shown, cards, museum
from shardviz.checks.museum_exhibits import EXHIBITS
from shardviz.core.errors import SpecError
from shardviz.core.spec import parse

RESULTS = {"right", "wrong", "refused", "hangs"}


def card(name):
    return next(one for one in cards() if one.id == name)


def test_cards_are_whole():
    names = [one.id for one in cards()]
    assert len(set(names)) == len(names) == 26
    assert {one.id for one in cards() if not one.why_not} == set(EXHIBITS)
    for one in cards():
        assert one.outcomes
        assert {seen.outcome for seen in one.outcomes.values()} <= RESULTS
        if one.id in EXHIBITS:
            assert parse(one.spec).mesh.size == EXHIBITS[one.id][0]


def test_every_card_draws_and_writes():
    for one in cards():
        if parse(one.spec).mesh.size <= 8:
            assert one.draw().text
        if one.why_not:
            with pytest.raises(SpecError, match="cannot be run"):
                _ = one.script
        else:
            compile(one.script, one.id, "exec")
            assert "shardviz" not in one.script
            assert one.right in one.report()
            assert all(issue in one.report() for issue in one.reports)


@pytest.mark.ranks
def test_every_card_comes_out_as_recorded_for_the_installed_release():
    found = museum(timeout=15)
    assert [one.card.id for one in found.shown] == [one.id for one in cards()]
    told = {one.card.id: one.told for one in found.shown}
    assert [(one.card.id, one.outcome, one.told) for one in found.shown if one.differs] == []
    assert not found
    if found.shown[0].torch in card("checkpoint-loses-an-element").outcomes:
        assert found["checkpoint-loses-an-element"].outcome == "wrong"
    assert found["reconstruction-repeats-a-zero"].outcome == "right"
    assert found["inf-norm-hangs"].outcome == "hangs"
    assert told["pretrained-rows-shifted"] == "rows 12000 to 15999 are wrong, 4000 in all"
    assert told["flattened-mesh"] == "[0.0, 3.0, 6.0, 0.0, 9.0]"
    assert told["export-grows-a-row"].endswith("[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.0, 9.0]")
    assert "overlapping chunks" in told["vocabulary-cannot-be-saved"]
    assert found["silent-at-256-ranks"].outcome is None
    for name, outcome in (("transformers-refuses-19-rows", "wrong"), ("transformers-index-error", "refused")):
        if not card(name).lacking:
            assert found[name].outcome == outcome


def test_a_card_is_not_run_where_what_it_needs_is_not_installed(monkeypatch):
    other = replace(card("flattened-mesh"), needs={"no-such-package": "1.0"})
    monkeypatch.setattr(museum_module, "cards", lambda: (other,))
    (shown,) = museum()
    assert (shown.outcome, shown.differs) == (None, False)
    assert "not run here: it needs no-such-package (pip install no-such-package)" in museum().text


def test_another_version_of_what_a_card_needs_may_come_out_otherwise():
    one = replace(card("flattened-mesh"), needs={"pytest": "0.1"})
    assert not Shown(one, next(iter(one.outcomes)), "right", "").differs


def test_another_outcome_is_seen():
    one = card("flattened-mesh")
    release = next(iter(one.outcomes))
    assert not Shown(one, release, "wrong", "").differs
    assert Shown(one, release, "right", "").differs
    assert not Shown(one, "2.99.0", "right", "").differs
    assert not Shown(one, release, None, "").differs


@pytest.mark.ranks
def test_the_command_line_runs_a_card(shardviz, monkeypatch):
    status, out, err = shardviz("museum", "uneven-tp-forward", "--json")
    (document,) = json.loads(out)
    assert (status, document["outcome"], document["differs"]) == (0, "refused", False)
    assert "uneven-tp-forward …" in err
    other = replace(card("uneven-tp-forward"), outcomes={document["torch"]: Outcome("right", "right")})
    monkeypatch.setattr(museum_module, "cards", lambda: (other,))
    status, out, _ = shardviz("museum", "uneven-tp-forward")
    assert (status, "NOT AS RECORDED" in out) == (1, True)


def test_the_command_line_writes(shardviz):
    assert shardviz("museum", "--list")[1].split() == [one.id for one in cards()]
    assert "pytorch/pytorch#194457" in shardviz("museum", "flattened-mesh", "--report")[1]
    assert shardviz("museum", "silent-at-256-ranks")[1].count("only told, too large to run") == 1
    status, _, err = shardviz("museum", "nothing")
    assert (status, "no card 'nothing'" in err) == (2, True)
    assert shardviz("museum", "silent-at-256-ranks", "--script")[0] == 2


@pytest.mark.ranks
def test_a_script_stands_alone(tmp_path):
    script = tmp_path / "card.py"
    script.write_text(card("flattened-mesh").script)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)
    assert ended.stdout.count("WRONG: [0.0, 3.0, 6.0, 0.0, 9.0]") == 4, ended.stderr
