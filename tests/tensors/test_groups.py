"""The functions on tensors, on real process groups."""

import itertools
import time

import pytest
import torch

from shardviz.core.mesh import Mesh
from shardviz.core.spec import Spec, parse
from shardviz.core.unshuffle import unshuffle
from tests.tensors import programs

pytestmark = pytest.mark.ranks

FIVE = parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")


def fsdp_over_tp():
    """Those of the 975 combinations that eight ranks can hold."""
    for dp, tp, n in itertools.product((1, 2, 3, 4, 8), (2, 3, 4), range(65)):
        if dp * tp <= 8:
            yield Spec((n,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), S(0)", "fsdp2")


def three_cuts():
    for text, n in itertools.product(("_S(0, 4), S(0), S(0)", "_S(0, 4), _S(0, 2), S(0)", "S(0), _S(0, 2), S(0)"), range(65)):
        yield Spec((n,), {"dp": 2, "ep": 2, "tp": 2}, text, "fsdp2")


def packed():
    for (dp, tp), parts, n in itertools.product(((2, 2), (4, 2), (2, 3), (3, 2)), (2, 3, 4), range(0, 60, 3)):
        yield Spec((n,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), _S(0, {parts})", "fsdp2")


def shapes():
    """Every tensor dimension, several at once, tensors of none, empty ones, mesh dimensions of size 1, replicas."""
    for text in (
        "[] on a=2, b=2: R, R",
        "[0] on a=2, b=2: _S(0, 2), S(0)",
        "[0, 5] on a=2, b=2: _S(1, 2), S(1)",
        "[5, 0] on a=2, b=2: _S(0, 2), S(0)",
        "[4, 7] on a=2, b=3: S(1), S(0)",
        "[3, 5, 4] on a=2, b=2, c=2: _S(1, 2), S(1), S(2)",
        "[3, 5, 2] on a=2, b=2, c=2: S(2), _S(1, 3), S(0)",
        "[7, 2] on a=8: _S(0, 3)",
        "[9, 2] on a=1, b=4, c=1: _S(0, 4), S(0), S(1)",
        "[7, 3] on a=2, b=2, c=2: R, _S(0, 2), S(0)",
        "[7, 3] on a=2, b=2, c=2: _S(0, 2), R, S(0)",
        "[7, 3] on a=2, b=2, c=2: _S(1, 2), S(1), R",
        "[7] on a=1: S(0)",
        "[7] on a=2: R",
        "[9, 2] on a=2, b=2 (ranks 4-7): _S(0, 2), S(0)",
    ):
        yield parse(text)
    # A process group numbers its ranks in ascending order, whatever the mesh does.
    yield Spec((9, 2), Mesh({"a": 2, "b": 2}, (6, 1, 3, 0)), "_S(0, 2), S(0)")
    yield Spec((11,), Mesh({"a": 3, "b": 2}, (5, 4, 3, 2, 1, 0)), "_S(0, 2), S(0)")
    yield Spec((11,), Mesh({"a": 3, "b": 2}, (7, 0, 6, 1, 5, 2)), "S(0), R")


@pytest.mark.parametrize(
    ("what", "specs", "least"),
    [
        ("FSDP2 over TP", fsdp_over_tp, 520),
        ("three cuts", three_cuts, 195),
        ("FSDP2 over a packed weight", packed, 240),
        ("other shapes and meshes", shapes, 18),
    ],
)
def test_cut_reconstruct_and_scatter_on_real_ranks(eight_ranks, count, what, specs, least):
    specs, began = list(specs()), time.monotonic()
    wrong = [line for lines in eight_ranks.apply(programs.sweep, specs, timeout=200) for line in lines]
    count(
        f"{what} on real ranks: {len(specs)} cut, reconstructed and scattered, {len(wrong)} wrong, "
        f"{time.monotonic() - began:.0f} s"
    )
    assert len(specs) >= least
    assert wrong == []


PLACEMENTS = (
    "_S(0, 2), S(0)",
    "S(0), S(0)",
    "R, S(0)",
    "S(0), R",
    "R, R",
    "S(1), S(0)",
    "S(0), S(1)",
    "_S(1, 2), S(1)",
    "_S(0, 2), _S(0, 3)",
)


def test_reshard_between_any_two(four_ranks, count):
    specs = [[Spec(shape, (2, 2), text) for text in PLACEMENTS] for shape in ((9, 3), (5, 6), (2, 1), (0, 4))]
    pairs = [pair for group in specs for pair in itertools.product(group, repeat=2)]
    wrong = [line for lines in four_ranks.apply(programs.reshard_all, pairs, timeout=100) for line in lines]
    count(f"resharding on real ranks: {len(pairs)} pairs, {len(wrong)} wrong")
    assert wrong == []


@pytest.mark.parametrize(
    ("before", "after", "collectives"),
    [
        ("R, R", "_S(0, 2), S(0)", 0),
        ("R, S(0)", "_S(0, 2), S(0)", 0),
        ("_S(0, 2), S(0)", "_S(0, 2), S(0)", 0),
        ("P(sum), S(0)", "P(sum), S(0)", 0),
        ("P(sum), R", "P(sum), S(0)", 0),
        ("R, R", "P(sum), P(max)", 0),
        ("_S(0, 2), S(0)", "R, S(0)", 1),
        ("S(0), S(1)", "R, S(1)", 1),
        ("P(sum), S(0)", "S(1), S(0)", 1),
        ("P(sum), P(sum)", "P(sum), S(0)", 1),
        ("_S(0, 2), S(0)", "S(0), S(0)", 2),
        ("P(sum), S(0)", "_S(0, 2), S(0)", 1),
    ],
)
def test_reshard_sends_no_more_than_needed(before, after, collectives):
    made, wanted = (parse(f"[9, 3] on dp=2, tp=2: {text}") for text in (before, after))
    assert programs.collectives_in(made, wanted) == collectives


@pytest.mark.parametrize(
    "after", ["_S(0, 2), S(0)", "R, R", "P(sum), S(0)", "P(max), S(1)", "P(product), P(avg)", "S(1), P(sum)"]
)
@pytest.mark.parametrize("before", ["P(sum), S(0)", "P(max), P(max)", "P(sum), P(sum)"])
def test_reshard_from_and_to_pending_reductions(four_ranks, before, after):
    specs = [parse(f"[5, 3] on dp=2, tp=2: {text}") for text in (before, after)]
    assert four_ranks.apply(programs.reshard_sums, *specs) == [True] * 4


WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SENT_ONLY = [torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]


@pytest.mark.parametrize("text", ["_S(0, 2), S(0)", "_S(1, 2), S(1)", "R, S(1)", "R, R"])
def test_every_dtype_not_contiguous(four_ranks, text):
    spec = parse(f"[5, 3] on dp=2, tp=2: {text}")
    dtypes = [*WHOLE, *REAL, *SENT_ONLY, torch.complex128]
    assert four_ranks.apply(programs.types, spec, dtypes) == [[]] * 4


@pytest.mark.parametrize("text", ["[5, 3] on dp=2, tp=2: _S(0, 2), S(0)", "[4] on a=4: S(0)", "[] on a=4: R"])
def test_tensors_travel_as_what_they_read_as(four_ranks, text):
    assert four_ranks.apply(programs.in_odd_memory, parse(text)) == [[]] * 4


@pytest.mark.parametrize("op", ["sum", "product", "max", "min", "avg"])
def test_pending_reductions_of_every_dtype(four_ranks, op):
    spec = parse(f"[5, 2] on dp=2, tp=2: P({op}), S(0)")
    dtypes = [torch.uint8, torch.int16, torch.int32, torch.uint16, torch.uint32, torch.int64, *REAL, torch.float8_e5m2]
    if op in ("sum", "avg"):
        dtypes.append(torch.complex64)
    if op != "product":  # 13 squared is more than a signed byte holds
        dtypes.append(torch.int8)
    assert four_ranks.apply(programs.sums, spec, dtypes, op) == [[]] * 4


def test_a_pending_sum_keeps_negative_zero(four_ranks):
    spec = parse("[1] on dp=2, tp=2: P(sum), P(sum)")
    assert four_ranks.apply(programs.negative_zero, spec) == [True] * 4


def test_gradients_of_reconstruction_are_those_of_one_process_and_of_dtensor(four_ranks):
    texts = ("[5, 3] on dp=2, tp=2: _S(0, 2), S(0)", "[4, 3] on dp=2, tp=2: R, S(1)", "[4, 4] on dp=2, tp=2: S(1), S(0)",
             "[3, 2] on dp=2, tp=2: P(sum), S(0)", "[] on dp=2, tp=2: R, R", "[1] on a=4: S(0)")  # fmt: skip
    assert four_ranks.apply(programs.reconstruction_gradients, [parse(text) for text in texts]) == [[]] * 4


def test_second_gradients(four_ranks):
    assert four_ranks.apply(programs.second_gradients, FIVE) == [True] * 4


def test_the_gradient_of_an_average_is_shared(four_ranks):
    assert four_ranks.apply(programs.average_gradient, parse("[2] on dp=4: P(avg)")) == [[0.25, 0.25]] * 4


def test_gradients_do_not_pass_through_other_reductions(four_ranks):
    said = four_ranks.apply(programs.gradient_refusal, parse("[2] on dp=4: P(max)"))
    assert said == ["[2] on dp=4: P(max): gradients pass through a pending sum or avg; through P(max) they do not"] * 4


@pytest.mark.parametrize(
    ("before", "after"),
    [("_S(0, 2), S(0)", "S(1), S(0)"), ("S(0), S(0)", "R, R"), ("R, R", "_S(0, 2), S(0)"), ("S(0), S(1)", "_S(0, 2), S(0)")],
)
def test_gradients_of_resharding(four_ranks, before, after):
    specs = [parse(f"[5, 3] on dp=2, tp=2: {text}") for text in (before, after)]
    assert four_ranks.apply(programs.reshard_gradients, *specs) == [True] * 4


def test_the_recorded_story_is_the_predicted_one(eight_ranks):
    for text in (
        "[5] on dp=2, tp=2: _S(0, 2), S(0)",
        "[5, 3] on a=2, b=2, c=2: _S(0, 4), _S(0, 2), S(0)",
        "[4, 3] on dp=2, tp=2: P(sum), S(1)",
        "[3] on a=2, b=2: P(product), S(0)",
        "[9] on a=2, b=2: _S(0, 2), _S(0, 3)",
    ):
        recorded = eight_ranks.run(text)
        predicted = unshuffle(recorded.spec)
        assert [step.name for step in recorded.steps] == [step.name for step in predicted.steps]
        assert [step.buffers for step in recorded.steps] == [step.buffers for step in predicted.steps], text


def test_what_is_refused(four_ranks):
    other = parse("[9] on dp=4: S(0)")
    for said in four_ranks.apply(programs.refusal, FIVE, other):
        wrong_shape, wrong_mesh, no_dtype, no_source, other_tensor, whole = said
        assert "holds a shard of shape (5,), but by [5] on dp=2, tp=2: _S(0, 2), S(0) it holds" in wrong_shape
        assert wrong_mesh == "the layout is on dp=4, and the device mesh is dim0=2, dim1=2"
        assert no_dtype.endswith("has no tensor that tells the dtype: give dtype=")
        assert no_source == "rank 7 is not in the mesh, whose ranks are 0-3"
        assert other_tensor.endswith("cannot become [9] on dp=4: S(0): resharding keeps the shape and the mesh")
        assert whole == wrong_shape


# Where the installed torch is wrong. Each of these fails when a release mends it: then the museum is to say so too.


def test_torch_cannot_distribute_uneven_strided_shards(four_ranks):
    assert four_ranks.apply(programs.distribute_uneven, FIVE) == ["AssertionError()"] * 4, (
        f"mended in torch {torch.__version__}"
    )


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("[16] on dp=2, tp=2: _S(0, 2), _S(0, 2)", [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]),
        ("[12] on dp=2, tp=2: _S(0, 2), _S(0, 3)", [0, 1, 2, 5, 8, 7, 3, 4, 0, 10, 9, 0]),
    ],
)
def test_torch_puts_fsdp2_over_packed_weights_together_wrongly(four_ranks, text, theirs):
    spec = parse(text).with_made_by("fsdp2")
    for found, ours in four_ranks.apply(programs.full_tensor, spec):
        assert ours == list(range(spec.numel))
        assert found == theirs, f"other than recorded in torch {torch.__version__}"
