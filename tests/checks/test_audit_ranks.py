"""The audit against reality: what a real save, load and broadcast load do is what arithmetic says."""

import os
import random

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import RowwiseParallel

from shardviz.checks.audits import compared as audit_compared
from shardviz.checks.audits.audit import audit
from shardviz.checks.audits.parameter import findings_of
from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.trials import Outcome, Trials, try_on
from shardviz.core.errors import SpecError
from shardviz.core.spec import parse
from shardviz.ranks.scenarios import one_weight, stack
from tests.checks import jobs

pytestmark = pytest.mark.ranks

CASES = int(os.environ.get("SHARDVIZ_AUDIT_CASES", "8"))
"""How many random cases; 200 in the long run of CI."""

MESHES = (
    "dp=4, tp=2: _S(0, 2), S(0)",
    "dp=2, tp=4: _S(0, 4), S(0)",
    "dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)",
    "dp=2, ep=2, tp=2: _S(0, 4), _S(0, 2), S(0)",
    "dp=4, tp=2: _S(0, 2), _S(0, 2)",
    "rep=2, dp=2, tp=2: R, _S(0, 2), S(0)",
    "dp=4, tp=2: S(0), S(1)",
)


def chosen(choose):
    """A random tensor of eight ranks."""
    mesh, rows = choose.choice(MESHES), choose.randint(1, 70)
    shape = f"[{rows}]" if "S(1)" not in mesh and choose.random() < 0.6 else f"[{rows}, 3]"
    return f"{shape} on {mesh}"


def saving(text):
    """What the audit says of a plain save."""
    kinds = {one.kind for one in findings_of(parse(text).with_made_by("fsdp2"), installed_release().reports)}
    if "checkpoint-refused" in kinds:
        return "refused"
    return "loses elements" if "checkpoint-loses-elements" in kinds else "whole"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_a_thousand_random_saves(eight_ranks, tmp_path, part, count):
    choose = random.Random(part)
    texts = [chosen(choose) for _ in range(50)]
    found = eight_ranks.apply(jobs.save_each, texts, str(tmp_path), timeout=300)
    # A rank that holds nothing of what is lost has its part whole.
    real = [next((said for said in one if said != "whole"), "whole") for one in zip(*found, strict=True)]
    wrong = [f"{text}: {saving(text)}, really {said}" for text, said in zip(texts, real, strict=True) if saving(text) != said]
    count(
        f"audit against real saves: {len(texts)} cases, {sum(said != 'whole' for said in real)} not whole, {len(wrong)} wrong"
    )
    assert wrong == []


def test_random_cases(eight_ranks, count):
    choose = random.Random(5)
    wrong, errors = [], 0
    for _ in range(CASES):
        text = chosen(choose)
        found = audit(one_weight, text, ranks=eight_ranks)
        errors += bool(found.errors)
        wrong += [f"{text}: {words}" for words in found.surprises]
    count(f"audit against real saves, loads and broadcast loads: {CASES} cases, {errors} with errors, {len(wrong)} wrong")
    assert wrong == []
    assert errors


@pytest.mark.parametrize(
    "text",
    [
        "[9] on dp=4, tp=2: _S(0, 2), S(0)",
        "[33, 3] on dp=4, tp=2: _S(0, 2), S(0)",
        "[17] on dp=4, tp=2: _S(0, 2), S(0)",
        "[16] on dp=4, tp=2: _S(0, 2), _S(0, 2)",
        "[5] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)",
    ],
)
def test_known_faults_happen(eight_ranks, text):
    found = audit(one_weight, text, ranks=eight_ranks)
    assert found.surprises == ()
    assert found.errors
    assert "everything was as predicted" in found.text


def test_32001_rows_on_real_ranks(eight_ranks):
    found = audit(one_weight, "[32001, 2] on dp=4, tp=2: _S(0, 2), S(0)", ranks=eight_ranks)
    assert found.surprises == ()
    (shifted,) = [one for one in found.found[0].findings if one.kind == "load-shifts-rows"]
    assert (shifted.elements, shifted.indices, shifted.ranks) == (8000, ((28_001, 32_001),), (1, 3, 5, 7))


def test_a_whole_model_parameter_by_parameter(eight_ranks):
    found = audit(stack, 3, {"dp": 4, "tp": 2}, 1, ranks=eight_ranks)
    assert found.surprises == ()
    assert {one.name for one in found.found if one.errors} == {"0.in_proj.weight", "0.in_proj.bias"}


def test_a_wrong_prediction_would_be_seen(eight_ranks, monkeypatch):
    monkeypatch.setattr(audit_compared, "findings_of", lambda spec, reports: ())
    found = audit(one_weight, "[9] on dp=4, tp=2: _S(0, 2), S(0)", ranks=eight_ranks)
    assert found
    assert any("checkpoint-loses-elements" in words and "happened" in words for words in found.surprises)


def test_a_model_without_dtensors_is_refused(eight_ranks):
    with pytest.raises(SpecError, match="builds a model of DTensors"):
        audit(plain, ranks=eight_ranks)


def plain():
    from torch import nn

    return nn.Linear(2, 2)


def tried(function, *args):
    """On a rank: the exception of a call, or ""."""
    try:
        function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refusals(text):
    return tried(one_weight, text)


def backward(rows, sizes):
    """On a rank: train a column-wise linear layer of so many rows for one step."""
    import torch
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    from shardviz.core.mesh import Mesh
    from shardviz.ranks.scenarios.models import device_mesh

    mesh = device_mesh(Mesh(sizes))
    model = nn.Sequential(nn.Linear(4, rows, bias=False))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(use_local_output=False)})
    fully_shard(model, mesh=mesh["dp"])
    out = model(torch.ones(1, 4)).full_tensor().sum()
    return tried(out.backward)


@pytest.mark.parametrize(
    "text",
    ["[4, 9] on dp=4, tp=2: _S(1, 2), S(1)", "[2, 12] on dp=2, tp=4: _S(1, 4), S(1)", "[4, 16] on dp=4, tp=2: _S(1, 2), S(1)"],
)
def test_cuts_are_refused_on_the_ranks_that_were_predicted(eight_ranks, text):
    predicted = {rank for one in audit(text).parameters[0].findings if one.kind == "sharding-refused" for rank in one.ranks}
    found = eight_ranks.apply(refusals, text)
    assert {rank for rank, said in enumerate(found) if "does not support uneven sharding" in said} == predicted


@pytest.mark.parametrize("rows", [2, 3, 5, 9])
def test_what_cannot_be_trained_is_what_was_predicted(eight_ranks, rows):
    spec = f"[{rows}, 4] on dp=2, tp=4: _S(0, 4), S(0)"
    predicted = {rank for one in audit(spec).parameters[0].findings if one.kind == "train-refused" for rank in one.ranks}
    found = eight_ranks.apply(backward, rows, {"dp": 2, "tp": 4})
    assert {rank for rank, said in enumerate(found) if "_chunk_cat" in said} == predicted


def whole(found):
    """What an audit found of the model as a whole: kinds and ranks."""
    return [(one.kind, one.ranks) for one in found.model]


def test_an_empty_rank_of_an_embedding_is_told_and_nobody_waits_for_ever(four_ranks):
    ids = torch.arange(4)
    found = audit(jobs.embedding, 9, ranks=four_ranks, example=ids)
    assert whole(found) == [("forward-refused", (3,))]
    assert "rank 3 raises RuntimeError: index_select()" in found.text
    assert "ranks 0-2 wait, and were stopped" in found.text
    assert "backward not tried" in found.text
    assert found["word.weight"].findings == ()
    right = audit(jobs.embedding, 11, ranks=four_ranks, example=ids)
    assert (right.model, right.ok) == ((), True)
    plan = {"word": RowwiseParallel(input_layouts=Replicate())}
    said = {rows: audit(jobs.Word(rows), mesh="tp=4", plan=plan)["word.weight"].errors for rows in (9, 11)}
    assert ([(one.kind, one.ranks) for one in said[9]], said[11]) == ([("forward-refused", (3,))], ())


def test_local_tensors_between_uneven_layers_are_refused_in_the_forward_pass(four_ranks):
    inputs = (torch.ones(2, 4),)
    found = audit(jobs.perceptron, 33, 2, 2, ranks=four_ranks, example=inputs)
    assert whole(found) == [("forward-refused", (0, 1, 2, 3))]
    assert not audit(jobs.perceptron, 32, 2, 2, ranks=four_ranks, example={"x": inputs[0]}).errors


def test_a_row_of_the_mesh_for_itself_and_pipeline_stages_are_tried(four_ranks):
    found = audit(jobs.rows_of_a_grid, ranks=four_ranks, example=torch.ones(2, 4))
    assert (found.errors, len(found.found), found.surprises) == (0, 4, ())
    staged = audit(jobs.stage, ranks=four_ranks)
    assert [one.spec.mesh.ranks for one in staged.found] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert staged.ok
    assert "forward and backward not tried: give example=" in staged.text


def test_ranks_that_disagree_are_a_finding_and_the_rest_is_tried(four_ranks):
    found = audit(jobs.disagreeing, ranks=four_ranks)
    assert whole(found) == [("ranks-disagree", (0, 1, 2, 3))]
    assert "(20, 3) on ranks 0-2, (8, 3) on rank 3" in found.text
    assert [one.name for one in found.found] == ["other"]
    assert "1 of 2 sharded parameters were tried" in found.text


def test_a_scalar_under_fsdp2_is_a_finding(four_ranks):
    found = audit(jobs.scaled, ranks=four_ranks)
    assert whole(found) == [("sharding-refused", (0, 1, 2, 3))]
    assert "Change scale to a 1D tensor" in found.text


def test_a_model_that_some_ranks_cannot_build_is_a_finding(four_ranks):
    found = audit(jobs.only_two_build, ranks=four_ranks)
    assert whole(found) == [("sharding-refused", (2, 3))]
    assert "ranks 2-3 raise ValueError: no room; ranks 0-1 wait, and were stopped" in found.text


def attempts(trials: Trials):
    """On a rank: one attempt that hangs, one that ends rank 1, one that goes well; and whether that was seen here."""
    rank = dist.get_rank()

    def one_hangs():
        if rank == 1:
            raise ValueError("no")
        dist.barrier()
        return ()

    trials("first", one_hangs)
    trials("second", (lambda: os._exit(7)) if rank == 1 else (lambda: ()))
    return trials("third", (lambda: ((1, 2),)) if rank else None)


def test_attempts_go_on_behind_one_that_hangs_and_one_that_ends_a_rank(four_ranks, tmp_path):
    answers, journal = try_on(four_ranks, attempts, (), str(tmp_path))
    assert answers == [True] * 4
    waits, wrong = Outcome(hangs=True), Outcome(wrong=((1, 2),))
    assert journal["first"] == [waits, Outcome("ValueError: no"), waits, waits]
    assert "exited with code 7" in journal["second"][1].refused
    assert journal["third"] == [Outcome(tried=False), wrong, wrong, wrong]
