"""How meshes are read: by names that training frameworks use, or not at all."""

import pytest

from shardviz.checks.audits.audit import audit
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.model import Planned
from shardviz.core.errors import SpecError
from shardviz.core.placements import Shard, StridedShard

README = "_S(0, 2), S(0)"


@pytest.mark.parametrize(
    "mesh",
    [
        "dp=4, tp=2",
        "fsdp=4, tp=2",
        "dp_shard=2, cp=2, tp=2",
        "data_parallel=4, tensor_parallel=2",
        "DP=4, TP=2",
        "efsdp=4, ep=2",
        "ep_shard=4, ep=2",
        "dp_shard_mod_ep=4, ep=2",
        "pp=2, dp_shard=4, tp=2",
        "dp=4, pp=2, tp=2",
    ],
)
def test_the_same_nine_rows_under_every_frameworks_names(mesh):
    found = audit((9, 4), mesh=mesh)
    assert ", ".join(map(str, found.parameters[0].spec.placements)) == README
    assert "checkpoint-loses-elements" in {one.kind for one in found.parameters[0].errors}


@pytest.mark.parametrize(
    ("mesh", "spec", "words"),
    [
        ("dp=4, pp=2", "[9, 4] on dp=4 (ranks 0, 2, 4, 6): S(0)", "pp: its stages hold other layers, so it cuts nothing"),
        ("dp=2, dp_shard=4", "[9, 4] on dp=2, dp_shard=4: R, S(0)", "dp: it holds copies"),
        (
            "dp_replicate=2, dp_shard=2, sp=2",
            "[9, 4] on dp_replicate_sp=4, dp_shard=2 (ranks 0, 2, 1, 3-4, 6, 5, 7): R, S(0)",
            "sp",
        ),
    ],
)
def test_what_cuts_nothing_and_what_copies(mesh, spec, words):
    grid = Grid.of(mesh)
    assert str(grid.spec((9, 4), "")) == spec
    assert words in grid.reading
    assert f"read as: {grid.reading}" in audit((9, 4), mesh=mesh).text


def test_a_name_that_is_not_known_is_never_guessed():
    with pytest.raises(
        SpecError, match=r"the mesh dimension 'batch'.*Known are dp, dp_shard.*State another's role as batch=fsdp"
    ):
        audit((9, 4), mesh="batch=4, tp=2")
    stated = audit((9, 4), mesh="batch=4, tp=2", roles={"batch": "fsdp"})
    assert stated.json()["parameters"][0]["placements"] == README
    with pytest.raises(SpecError, match="the role of 'x' was stated, but the mesh has dp, tp"):
        audit((9, 4), mesh="dp=4, tp=2", roles={"x": "fsdp"})
    with pytest.raises(SpecError, match="pipeline stages alone"):
        audit((9, 4), mesh="pp=2")


def test_experts_alone_are_cut_by_ep():
    dense, expert = Planned("w", (6, 4), Shard(0)), Planned("e", (6, 4, 4), StridedShard(1, 2), Shard(0))
    grid = Grid.of("dp=4, ep=3")
    assert [str(one) for one in grid.planned(dense).placements] == ["S(0)", "R"]
    assert [str(one) for one in grid.planned(expert).placements] == ["_S(0, 3)", "S(0)"]
    both = Grid.of("dp=2, ep=3, tp=2")
    assert [str(one) for one in both.planned(expert).placements] == ["_S(0, 3)", "S(0)", "R"]
    assert [str(one) for one in Grid.of("dp=2, tp=2").planned(expert).placements] == ["S(0)", "_S(1, 2)"]
    with pytest.raises(SpecError, match="the model's plan cuts once"):
        Grid.of("tp=2, etp=2").planned(dense)


def test_a_parameter_without_dimensions_is_one_finding():
    found = audit((), mesh="dp=4")
    assert found.ok  # a shape alone is no parameter yet
