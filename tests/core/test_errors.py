"""What is refused, and what the message tells: the offending values and what would be right."""

import re

import pytest

from shardviz.core.errors import NotationError, ReadingError, ShardvizError, SpecError
from shardviz.core.layout import layout
from shardviz.core.mesh import LARGEST, Mesh
from shardviz.core.placements import Partial, Shard, StridedShard
from shardviz.core.spec import Spec, parse
from shardviz.core.unshuffle import unshuffle


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[5, 3] on dp=2, tp=2: S(0), S(2)",
            "S(2) on mesh dimension 'tp': the tensor has 2 dimensions, so tensor dimension 2 does not exist; "
            "right would be 0 to 1 (or -2 to -1)",
        ),
        (
            "[5] on dp=2, tp=2: _S(-2, 2), S(0)",
            "_S(-2, 2) on mesh dimension 'dp': the tensor has 1 dimension, so tensor dimension -2 does not exist; "
            "right would be 0 (or -1)",
        ),
        (
            "[] on dp=2: S(0)",
            "S(0) on mesh dimension 'dp': the tensor has 0 dimensions, so tensor dimension 0 does not exist; "
            "right would be none: a 0-dimensional tensor cannot be cut",
        ),
        (
            "[5] on dp=2, tp=2: S(0)",
            "1 placements for 2 mesh dimensions (dp=2, tp=2): give one placement per mesh dimension",
        ),
        ("[5] on dp=2: S(0), R", "2 placements for 1 mesh dimensions (dp=2): give one placement per mesh dimension"),
        ("[5, -3] on dp=2: R", "tensor dimension 1 has size -3: a size is a whole number of elements, 0 or more"),
        ("[5] on dp=0: R", "mesh dimension dp=0: its size is a whole number of ranks, 1 or more"),
        ("[5] on dp=-2: R", "mesh dimension dp=-2: its size is a whole number of ranks, 1 or more"),
        (
            "[5] on dp=1024, tp=2048: R, R",
            f"a mesh of 1024 x 2048 has 2097152 ranks; at most {LARGEST} can be described",
        ),
        ("[5] on dp=2, tp=2 (ranks 4-6): R, R", "a mesh of 2 x 2 has 4 coordinates, but 3 ranks were given"),
        ("[5] on dp=2 (ranks 4, 4): R", "the ranks of a mesh are distinct numbers, 0 or more; got (4, 4)"),
    ],
)
def test_specs_that_describe_nothing(text, message):
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("size", [2.0, "2", None, True, -1])
def test_sizes_of_a_tensor_are_whole_numbers(size):
    with pytest.raises(SpecError, match=re.escape(f"tensor dimension 1 has size {size!r}: a size is a whole number")):
        Spec((3, size), {"dp": 2}, "R")


@pytest.mark.parametrize("size", [2.0, "2", None, True, 0, -1])
def test_sizes_of_a_mesh_are_whole_numbers(size):
    with pytest.raises(SpecError, match=re.escape(f"mesh dimension tp={size!r}: its size is a whole number of ranks")):
        Mesh({"dp": 2, "tp": size})


def test_a_mesh_needs_a_dimension_and_names_that_can_be_written():
    with pytest.raises(SpecError, match=r"a mesh needs at least one dimension, such as \{'dp': 2\}"):
        Mesh({})
    for name in ("", "2d", "data parallel", "dp-shard"):
        with pytest.raises(SpecError, match=re.escape(f"mesh dimension {name!r}: a name is letters, digits and underscores")):
            Mesh({name: 2})


def test_a_split_factor_below_one():
    with pytest.raises(SpecError, match=r"_S\(0, 0\): a split factor is the number of pieces to cut into, so 1 or more"):
        StridedShard(0, 0)


@pytest.mark.parametrize("dim", [1.5, "0", None, True])
def test_tensor_dimensions_and_split_factors_are_whole_numbers(dim):
    with pytest.raises(SpecError, match="whole number"):
        Shard(dim)
    with pytest.raises(SpecError, match="whole number"):
        StridedShard(dim, 2)
    with pytest.raises(SpecError, match="whole number"):
        StridedShard(0, dim)


@pytest.mark.parametrize("op", ["", "my op", "sum)", None])
def test_a_pending_reduction_has_a_name(op):
    with pytest.raises(SpecError, match=r"a pending reduction is named"):
        Partial(op)


def test_things_that_are_no_placement():
    with pytest.raises(SpecError, match="3 is no placement: Replicate, Shard, StridedShard"):
        Spec((4,), {"dp": 2}, [3])
    with pytest.raises(SpecError, match="is 2 placements; in a sequence each item is one"):
        Spec((4,), {"dp": 2, "tp": 2}, ["S(0), R", "R"])
    with pytest.raises(SpecError, match="a DTensor was expected, with a shape, a device mesh and placements; got list"):
        Spec.of([1, 2])
    with pytest.raises(SpecError, match="made_by='magic': one of fsdp2-over-tp, fsdp2, "):
        Spec((4,), {"dp": 2}, "R", made_by="magic")


@pytest.mark.parametrize(
    ("text", "placement", "name", "fitting"),
    [
        ("[8] on tp=2: _S(0, 2)", "_S(0, 2)", "tp", "1"),
        ("[9] on dp=4, tp=2: _S(0, 3), S(0)", "_S(0, 3)", "dp", "1, 2"),
        ("[9] on pp=2, dp=4, tp=3: _S(0, 5), _S(0, 3), S(0)", "_S(0, 5)", "pp", "1, 3, 12"),
        ("[9] on pp=2, dp=4, tp=3: _S(0, 12), _S(0, 7), S(0)", "_S(0, 7)", "dp", "1, 3"),
        ("[9] on rep=5, dp=4, tp=2: R, _S(0, 5), S(0)", "_S(0, 5)", "dp", "1, 2"),
    ],
)
def test_a_factor_that_decodes_to_nothing_names_those_that_fit(text, placement, name, fitting):
    spec = parse(text)
    with pytest.raises(ReadingError) as caught:
        layout(spec, "sharding-order")
    message = str(caught.value)
    assert message.startswith(f"{placement} on mesh dimension {name!r} decodes to no sharding order on {spec.mesh}: ")
    assert message.endswith(f"factors that would fit: {fitting}")
    with pytest.raises(ReadingError):
        unshuffle(spec, reading="sharding-order")


def test_every_factor_that_is_said_to_fit_does():
    for factor in (1, 3, 12):
        assert set(layout(parse(f"[9] on pp=2, dp=4, tp=3: _S(0, {factor}), _S(0, 3), S(0)")).readings) == {"sharding-order"}


def test_outer_last_says_which_factor_fsdp2_would_have():
    with pytest.raises(ReadingError, match="has split factor 3, and FSDP2 over the later cuts would have 2"):
        layout(parse("[9] on dp=4, tp=2: _S(0, 3), S(0)"), "outer-last")


def test_a_reading_that_does_not_exist():
    with pytest.raises(
        SpecError, match="there is no reading 'right-to-left'; there are auto, sharding-order, left-to-right, outer"
    ):
        layout(parse("[9] on dp=4: R"), "right-to-left")


def test_one_except_clause_catches_everything():
    for kind in (SpecError, NotationError, ReadingError):
        assert issubclass(kind, ShardvizError)
        assert issubclass(kind, ValueError)
