"""What operations do where a rank holds nothing: the table is what happens on real ranks."""

import pytest
import torch

from shardviz.checks.audits.audit import audit
from shardviz.checks.audits.empty_ranks import OPERATIONS, try_operations
from shardviz.checks.audits.empty_table import Refusal, refusals, refusing
from shardviz.checks.audits.trials import try_on

RELEASE = torch.__version__.partition("+")[0]

pytestmark = pytest.mark.ranks


def tried(ranks, names, directory):
    """By operation, what it comes to on these ranks, as the table has it."""
    _, journal = try_on(ranks, try_operations, (names,), str(directory))
    found = {}
    for name in names:
        found[name] = None
        for way in ("forward", "backward"):
            outcomes = journal.get(f"{name}|{way}", [])
            if any(not outcome.right for outcome in outcomes):
                raising = tuple(rank for rank, outcome in enumerate(outcomes) if outcome.refused)
                waiting = tuple(rank for rank, outcome in enumerate(outcomes) if outcome.hangs)
                found[name] = Refusal(way, raising, waiting, outcomes[raising[0]].refused if raising else "")
    return found


def test_the_table_has_every_operation():
    for table in refusals().values():
        assert set(table) == set(OPERATIONS)
    assert all(one is None or one.raising == (3,) for one in refusals()["2.13.0"].values())


@pytest.mark.skipif(RELEASE not in refusals(), reason=f"nothing is recorded for torch {RELEASE}")
def test_some_operations_do_what_the_table_says(four_ranks, tmp_path):
    names = ["infinity norm", "2-norm", "linear layer, row-wise", "AdamW.step()"]
    assert tried(four_ranks, names, tmp_path) == {name: refusals()[RELEASE][name] for name in names}


@pytest.mark.slow
@pytest.mark.skipif(RELEASE not in refusals(), reason=f"nothing is recorded for torch {RELEASE}")
def test_every_operation_does_what_the_table_says(four_ranks, tmp_path):
    assert tried(four_ranks, list(OPERATIONS), tmp_path) == refusals()[RELEASE]


def test_an_audit_names_them():
    (found,) = [
        one for one in audit("[9] on dp=4, tp=2: _S(0, 2), S(0)").parameters[0].findings if one.kind == "hangs-on-empty-rank"
    ]
    assert found.message.startswith("rank 6 holds nothing: max(), min(), amax(), argmax(), the infinity norm and ")
    assert "2-norm" not in refusing(tuple(OPERATIONS))
