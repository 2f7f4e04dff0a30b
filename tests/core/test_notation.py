"""The notation: what torch prints is read, and what shardviz prints is read back."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardviz.core.errors import NotationError, SpecError
from shardviz.core.layout import layout
from shardviz.core.mesh import Mesh
from shardviz.core.order import cutting_order
from shardviz.core.placements import Partial, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec, parse
from tests.core.cases import cases, decodable_cases

NAMES = st.text(min_size=1, max_size=8).filter(str.isidentifier) | st.sampled_from(["on", "ranks", "S", "R", "_S", "dé"])


@given(cases())
def test_a_printed_spec_is_read_back_equal(case):
    assert parse(str(case.spec)) == case.spec
    assert str(parse(str(case.spec))) == str(case.spec)


@given(st.lists(NAMES, min_size=1, max_size=3, unique=True))
def test_any_name_a_mesh_takes_is_read_back(names):
    try:
        mesh = Mesh(dict.fromkeys(names, 2))
    except SpecError:
        return
    spec = Spec((4,), mesh, ["R"] * len(names))
    assert parse(str(spec)) == spec


@given(st.sets(st.integers(0, 40), min_size=6, max_size=6), st.randoms(use_true_random=False))
def test_any_ranks_of_a_mesh_are_read_back(ranks, random):
    members = sorted(ranks)
    random.shuffle(members)
    spec = Spec((7,), Mesh({"dp": 3, "tp": 2}, members), "_S(0, 2), S(0)")
    assert parse(str(spec)).mesh.ranks == tuple(members)
    assert parse(str(spec)) == spec


def test_ranks_are_written_as_ranges():
    spec = parse("[5] on dp=2, tp=2 (ranks 4-7): _S(0, 2), S(0)")
    assert spec.mesh.ranks == (4, 5, 6, 7)
    assert str(spec) == "[5] on dp=2, tp=2 (ranks 4-7): _S(0, 2), S(0)"
    assert parse("[5] on tp=3 (ranks 9, 4-5): R").mesh.ranks == (9, 4, 5)
    assert str(parse("[5] on tp=3 (ranks 0-2): R")) == "[5] on tp=3: R"


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        ("R", Replicate()),
        ("Replicate()", Replicate()),
        ("Replicate", Replicate()),
        ("S(0)", Shard(0)),
        ("Shard(0)", Shard(0)),
        ("Shard(dim=0)", Shard(0)),
        ("S(-1)", Shard(1)),
        ("Shard(dim=-2)", Shard(0)),
        ("_S(0, 2)", StridedShard(0, 2)),
        ("_S(0,2)", StridedShard(0, 2)),
        ("_StridedShard(dim=0, sf=2)", StridedShard(0, 2)),
        ("_StridedShard(dim=0, split_factor=2)", StridedShard(0, 2)),
        ("_StridedShard(sf=2, dim=0)", StridedShard(0, 2)),
        ("StridedShard(dim=1, split_factor=3)", StridedShard(1, 3)),
        ("P", Partial("sum")),
        ("P(sum)", Partial("sum")),
        ("P(avg)", Partial("avg")),
        ("Partial()", Partial("sum")),
        ("Partial(sum)", Partial("sum")),
        ("Partial(max)", Partial("max")),
        ("Partial(reduce_op=sum)", Partial("sum")),
    ],
)
def test_placements_as_people_and_torch_write_them(text, placement):
    assert parse(f"[4, 4] on tp=2: {text}").placements == (placement,)
    assert Spec((4, 4), {"tp": 2}, text).placements == (placement,)
    assert Spec((4, 4), {"tp": 2}, [text]).placements == (placement,)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("S(0)[1]S(0)[0]", "_S(0, 2), S(0)"),
        ("S(0)[0]S(0)[1]", "S(0), S(0)"),
        ("S(0)[1], S(0)[0]", "_S(0, 2), S(0)"),
        ("RS(0)", "R, S(0)"),
        ("RR", "R, R"),
        ("S(0)R", "S(0), R"),
        ("P(sum)R", "P(sum), R"),
        ("S(1)S(0)", "S(1), S(0)"),
    ],
)
def test_the_order_notation_of_torch(text, same):
    assert parse(f"[9, 3] on dp=4, tp=2: {text}") == parse(f"[9, 3] on dp=4, tp=2: {same}")
    assert Spec((9, 3), {"dp": 4, "tp": 2}, text) == Spec((9, 3), {"dp": 4, "tp": 2}, same)


def test_the_order_of_cuts_holds_in_a_list_of_placements_too():
    assert str(Spec((9,), {"dp": 4, "tp": 2}, ["S(0)[1]", "S(0)[0]"])) == "[9] on dp=4, tp=2: _S(0, 2), S(0)"


@given(decodable_cases())
def test_order_numbers_and_split_factors_say_the_same(case):
    """Write the order that the factors decode to as torch does; the layout does not change."""
    spec = case.spec
    words = list(map(str, spec.placements))
    for dim in range(spec.ndim):
        for place, mesh_dim in enumerate(cutting_order(spec, dim)):
            words[mesh_dim] = f"S({dim})[{place}]"
    assert layout(Spec(spec.shape, spec.mesh, "".join(words))).ranks == layout(spec).ranks


def test_bare_sizes_get_names():
    assert str(parse("[5] on 2, 2: _S(0, 2), S(0)")) == "[5] on dim0=2, dim1=2: _S(0, 2), S(0)"


def test_spaces_do_not_matter():
    assert parse(" [ 5 ]on dp = 2,tp=2 :_S( 0 ,2 ) ,S(0) ") == parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")


def test_a_scalar_and_an_empty_tensor():
    assert parse("[] on dp=2: R").shape == ()
    assert parse("[0, 3] on dp=2: S(0)").shape == (0, 3)


@pytest.mark.parametrize(
    ("text", "offending"),
    [
        ("", ""),
        ("5 on dp=2: S(0)", "5"),
        ("[5 on dp=2: S(0)", "on"),
        ("[5] dp=2: S(0)", "dp"),
        ("[5] on dp: S(0)", ":"),
        ("[5] on dp=two: S(0)", "two"),
        ("[5] on dp=2, dp=2: S(0), R", "dp=2: S"),
        ("[5] on dp=2, 2: S(0), R", "2: S"),
        ("[5] on dp=2 S(0)", "S(0)"),
        ("[5] on dp=2:", ""),
        ("[5] on dp=2: S(0),", ""),
        ("[5] on dp=2: X(0)", "X(0)"),
        ("[5] on dp=2: S", ""),
        ("[5] on dp=2: S()", ")"),
        ("[5] on dp=2: S(0", ""),
        ("[5] on dp=2: S(x)", "x)"),
        ("[5] on dp=2: S(0, 1)", "1)"),
        ("[5] on dp=2: S(dim=0, dim=0)", "0)"),
        ("[5] on dp=2: S(size=0)", "size"),
        ("[5] on dp=2: _S(0)", ")"),
        ("[5] on dp=2: _S(0, 0)", "0)"),
        ("[5] on dp=2: _S(0, -2)", "-2"),
        ("[5] on dp=2: P(3)", "3"),
        ("[5] on dp=2: RX", "RX"),
        ("[5] on dp=2: S(0) ; R", ";"),
        ("[5.5] on dp=2: S(0)", ".5"),
        ("[5] on dp=2 (rank 4): S(0)", "rank"),
        ("[5] on dp=2 (ranks 7-4): S(0)", "-4"),
        ("[5] on dp=2, tp=2: S(0)[0]S(0)[0]", "S(0)[0]S"),
        ("[5] on dp=2, tp=2: S(0)[0]S(0)[2]", "S(0)[2]"),
        ("[5] on dp=2, tp=2: S(0)[0]S(0)", "S(0)"),
        ("[5] on dp=2, tp=2: _S(0, 2)[0]S(0)[1]", "_S"),
        ("[" + "9" * 5000 + "] on dp=2: S(0)", "9" * 5000),
        ("[5] on dp=2: S(" + "9" * 5000 + ")", "9" * 5000),
    ],
)
def test_nonsense_is_refused_where_it_stands(text, offending):
    with pytest.raises(NotationError) as caught:
        parse(text)
    error = caught.value
    assert error.text == text
    assert text[error.position :].startswith(offending)
    assert offending or error.position == len(text.rstrip())
    assert f"at position {error.position} of " in str(error)
    hint = re.search(r"\(right would be: (.*)\)$", str(error), re.DOTALL)
    assert str(parse(hint[1])) == hint[1]  # what is right can be read


PIECES = st.sampled_from(
    [*"[](),:=-", " ", "0", "2", "7", "on", "dp", "tp", "ranks", "R", "S", "_S", "P", "sum", "dim", "é", "²"]
)


@given(st.lists(PIECES, max_size=14) | st.text(max_size=30).map(list))
def test_any_text_is_either_a_spec_or_refused(pieces):
    for text in ("".join(pieces), "[5] on dp=2: " + "".join(pieces), "[5] on " + "".join(pieces) + ": S(0)"):
        try:
            spec = parse(text)
        except SpecError:
            continue
        assert parse(str(spec)) == spec


def test_a_message_about_a_long_text_stays_short():
    with pytest.raises(NotationError) as refused:
        parse("[5] on dp=2: S(0)" + " " * 5_000 + "?")
    assert len(str(refused.value)) < 600
    assert "at position 5017 of 5,018 characters, around it" in str(refused.value)
    assert refused.value.text.endswith("?")


@pytest.mark.parametrize(
    ("text", "named", "right"),
    [
        ("[5] on x=2: Ragged(0)", "Ragged", "[5] on x=2: S(0)"),
        ("[5] on x=2: Rep", "Rep", "[5] on x=2: R"),
        ("[7, 3] on x=2: Row(1)", "Row", "[7, 3] on x=2: S(1)"),
        ("[7] on dp=2, tp=3: _S(0), S(0)", "_S", "[7] on dp=2, tp=3: _S(0, 3), S(0)"),
        ("[7] on x=2 S(0)", "", "[7] on x=2: S(0)"),
        ("7 on 2: S(0)", "", "[7] on 2: S(0)"),
        ("[7] x=2 (ranks 4-5): S(0)", "", "[7] on x=2 (ranks 4-5): S(0)"),
    ],
)
def test_a_wrong_word_is_refused_by_its_name_and_the_hint_repairs_what_was_typed(text, named, right):
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert named in str(caught.value).partition("; found")[0]
    assert f"(right would be: {right})" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[5] on x=2: " + " " * 10_000 + "S(0)",
        "[" + "1," * 6000 + "] on x=2: R",
        "[5] on x=2 (ranks " + ", ".join(["0-1048574"] * 500) + "): R",  # would list 500 million ranks
    ],
)
def test_what_is_too_much_is_refused_before_it_is_built(text):
    began = time.monotonic()
    with pytest.raises(NotationError, match=r"at most"):
        parse(text)
    assert time.monotonic() - began < 5
