"""Live DTensors as they are held: drawn on one rank, by all ranks together, and after they were returned from the ranks."""

import pytest

import shardviz as sv
from shardviz.picture.scene import Text
from shardviz.ranks.scenarios import one_weight

pytestmark = pytest.mark.ranks

NINE = "[9] on dp=2, tp=2: _S(0, 2), S(0)"


def tensors():
    """On four ranks: one whose ranks believe in different shapes, one of which a rank holds too much, and a right one."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    given = {"shape": torch.Size((8, 3)), "stride": (3, 1), "run_check": False}
    return {
        "apart": DTensor.from_local(torch.zeros(2 if rank == 3 else 5, 3), mesh, [Shard(0)]),
        "more": DTensor.from_local(torch.zeros(3 if rank == 1 else 2, 3), mesh, [Shard(0)], **given),
        "right": one_weight(NINE).weight,
    }


def pictures():
    found = {}
    for name, tensor in tensors().items():
        alone, everywhere, held = sv.draw(tensor), sv.draw(tensor, everywhere=True), sv.draw_held(tensor, everywhere=True)
        drawn = {"alone": alone, "everywhere": everywhere, "held": held, "reported": sv.draw_held(tensor)}
        found[name] = {way: (picture.title, picture.text, _red(picture)) for way, picture in drawn.items()}
        found[name]["layout"] = sv.layout(tensor).misfits
    return found


def _red(picture):
    """The words that are drawn in the reserved red, one line after the other."""
    return " ".join(mark.text for mark in picture.scene.marks if isinstance(mark, Text) and mark.tone == "red")


@pytest.fixture(scope="module")
def drawn(four_ranks):
    return four_ranks.apply(pictures)


def test_another_local_shape_is_said_in_red_where_it_is(drawn):
    words = "holds (3, 3) where (2, 3) is computed"
    for rank, seen in enumerate(drawn):
        title, text, red = seen["more"]["alone"]
        assert (words in text, words in red) == (rank == 1, rank == 1)
        assert seen["more"]["layout"] == ({1: words} if rank == 1 else {})
        assert f"the local shape of rank {rank} seen, of 3 others not" in text
        assert (title == "[8, 3] on dp=4: where arithmetic and its ranks part") == (rank == 1)


@pytest.mark.parametrize("way", ["everywhere", "held"])
def test_asked_everywhere_every_rank_sees_what_one_holds(drawn, way):
    for seen in drawn:
        _, text, red = seen["more"][way]
        assert red == "holds (3, 3) where (2, 3) is computed"
        assert "all 4 local shapes seen" in text
    assert "rank 1: ?×3 x 0-2" in drawn[0]["more"]["held"][1]


def test_ranks_that_believe_in_different_shapes_are_drawn_as_they_hold_together(drawn):
    for seen in drawn:
        _, text, red = seen["apart"]["everywhere"]
        assert text.startswith("[17, 3] on dp=4: S(0)")
        assert "rank 3 (3,): 15 16 x 0-2" in text
        assert red == "takes the whole to be (20, 3) " * 3 + "takes the whole to be (8, 3)"
    assert drawn[3]["apart"]["alone"][1].startswith("[8, 3] on dp=4: S(0)")


@pytest.mark.parametrize("draw", [sv.draw, sv.draw_held])
def test_only_a_live_tensor_has_ranks_to_ask(draw):
    with pytest.raises(sv.ShardvizError, match=r"a DTensor was expected, .*; got Trace"):
        draw(sv.unshuffle(NINE), everywhere=True)


def test_what_is_right_has_no_red(drawn):
    for seen in drawn:
        assert all(seen["right"][way][2] == "" for way in ("alone", "everywhere", "held", "reported"))
        assert seen["right"]["layout"] == {}


def test_a_returned_dtensor_draws_itself(four_ranks):
    returned = four_ranks.apply(tensors)
    for each in returned:
        assert each["apart"].layout.spec == sv.parse("[17, 3] on dp=4: S(0)")
        assert each["more"].layout.misfits == {1: "holds (3, 3) where (2, 3) is computed"}
        assert each["right"].layout == sv.layout(NINE)
        assert "all 4 local shapes seen" in each["right"]._repr_mimebundle_()["text/plain"]
        assert "<svg" in each["right"]._repr_mimebundle_()["text/html"]
    assert repr(returned[0]["right"]) == f"<DTensor {NINE}, all 4 local shapes seen: print or draw it>"
    assert str(returned[0]["right"]).startswith(f"{NINE} (sharding-order, all 4 local shapes seen)")
    assert sv.draw(returned[2]["more"]).title == "[8, 3] on dp=4: where arithmetic and its ranks part"


def test_a_torch_that_reports_wrongly_is_seen_from_a_live_parameter(eight_ranks):
    (picture, *_) = eight_ranks.apply(held_nine)
    assert "rank 6 holds nothing; torch reports row 8" in picture
    assert "rank 7 holds row 8; torch reports nothing" in picture


def held_nine():
    return sv.draw_held(one_weight("[9] on dp=4, tp=2: _S(0, 2), S(0)").weight).text


def test_dtensors_on_some_ranks_and_deep_inside_come_back_too(four_ranks):
    returned = four_ranks.apply(mixed)
    assert [type(one).__name__ for one in returned] == ["HeldTensor", "int", "HeldTensor", "int"]
    assert returned[2].layout.seen_text == "the local shape of rank 2 seen, of 3 others not"
    deep = four_ranks.apply(mixed, deep=True)
    assert deep[1]["list"][1][0].layout.seen_text == "all 4 local shapes seen"
    assert deep[1]["plain"] == (1, "a")


def mixed(deep=False):
    import torch.distributed as dist

    weight = one_weight(NINE).weight
    if deep:
        return {"list": [dist.get_rank(), (weight,)], "plain": (1, "a")}
    return weight if dist.get_rank() % 2 == 0 else 7


def test_what_the_forward_pass_uses_in_one_call(four_ranks):
    trace = four_ranks.run(NINE)
    picture = sv.draw_used(trace)
    assert picture.title == "What the forward pass uses of 9 elements on 4 ranks"
    assert picture.text.splitlines()[1:] == ["rank 0: 0-4", "rank 1: 5-8", "rank 2: 0-4", "rank 3: 5-8"]
    with pytest.raises(sv.ShardvizError, match="only of what FSDP2 made a forward pass was recorded"):
        sv.draw_used(four_ranks.run("[9] on dp=2, tp=2: S(0), S(0)"))


def test_another_use_than_the_right_one_is_red():
    from dataclasses import replace

    from shardviz.core.trace import Source, whole_buffer

    trace = sv.unshuffle(NINE)
    recorded = replace(trace, source=Source("held", 4, "gloo", "2.13.0"), used=(whole_buffer((9,)),) * 4)
    picture = sv.draw_used(recorded)
    assert "rank 1 uses rows 0-8; right would be rows 5-8" in picture.text
    assert picture.title == "9 elements on dp=2, tp=2: where use and right part"
