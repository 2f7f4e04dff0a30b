"""The audit by arithmetic: what is known of releases 2.10 to 2.15 is found, nothing else is, and every check can fail."""

import itertools

import pytest

from shardviz.checks.audits import release as audit_release
from shardviz.checks.audits.audit import audit
from shardviz.checks.audits.coverage import Coverage
from shardviz.checks.audits.kinds import ERRORS, KINDS, NOTES, WARNINGS
from shardviz.checks.audits.lines import Question, in_sharding_order, left_to_right, tables
from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.parameter import findings_of, is_wrong
from shardviz.checks.audits.proof import torch_refuses
from shardviz.checks.audits.release import ask_torch, release
from shardviz.checks.audits.subjects import Subject
from shardviz.checks.audits.sweep import SIGNS, read_sweep, sweep
from shardviz.core.errors import SpecError, TorchError
from shardviz.core.layout import layout
from shardviz.core.spec import Spec, parse

DP = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)


def findings(text):
    return findings_of(parse(text), left_to_right)


def kinds(text, severity="error"):
    return [found.kind for found in findings(text) if found.severity == severity]


def of_kind(text, kind):
    return [found for found in findings(text) if found.kind == kind]


def two_cuts(rows, dp, tp):
    return Spec((rows,), {"dp": dp, "tp": tp}, f"_S(0, {tp}), S(0)", "fsdp2")


def on(rows, dp, tp):
    return findings_of(two_cuts(rows, dp, tp), left_to_right)


def failing_pairs(rows):
    pairs = {}
    for dp, tp in itertools.product(DP, (2, 4, 8)):
        if not is_wrong(two_cuts(rows, dp, tp), left_to_right):
            continue
        errors = {found.kind for found in on(rows, dp, tp) if found.severity == "error"}
        if errors & {"checkpoint-refused", "checkpoint-loses-elements"}:
            pairs[dp, tp] = errors
    return pairs


@pytest.mark.parametrize("rows", [32_000, 50_304, 128_256, 151_936])
def test_padded_vocabularies_raise_no_alarm(rows):
    assert [
        pair for pair in itertools.product(range(1, 1025), (2, 4, 8)) if is_wrong(two_cuts(rows, *pair), left_to_right)
    ] == []
    assert not any(found.severity == "error" for pair in ((3, 8), (96, 4), (7, 2)) for found in on(rows, *pair))


@pytest.mark.parametrize(
    "cut",
    [
        "_S(0, 2), S(0)",
        "_S(0, 4), S(0), S(0)",
        "_S(0, 4), _S(0, 2), S(0)",
        "S(0)",
        "S(0), _S(0, 2), S(0)",
        "_S(0, 2), _S(0, 2)",
    ],
)
def test_the_short_cut_is_the_long_way(cut):
    for mesh in itertools.product(*[(2, 3)] * cut.count("S(")):
        if cut.count("_S") == 2 and "S(0, 4)" not in cut and mesh != (2, 2):
            continue
        for rows in range(1, 40):
            spec = Spec((rows,), mesh, cut, "fsdp2")
            long_way = any(found.severity == "error" for found in findings_of(spec, left_to_right))
            assert is_wrong(spec, left_to_right) == long_way, spec


def test_the_quick_tables_are_the_layouts():
    for outer, inner, rows in itertools.product((1, 2, 3, 4, 7), (2, 3, 4), range(25)):
        spec = Spec((rows,), (outer, inner), f"_S(0, {inner}), S(0)")
        held, label = tables(Question(rows, (outer, inner), (inner, 1), True))
        assert held == {one.coordinate: one.runs[0] for one in layout(spec)}
        assert label == {one.coordinate: one.runs[0] for one in layout(spec, "left-to-right")}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        (50_257, 10),
        (32_001, 14),
        (32_002, 9),
        (128_257, 31),
        (49_155, 32),
        (122_753, 9),
        (51_865, 9),
        (50_265, 3),
        (49_153, 46),
    ],
)
def test_unpadded_vocabularies_fail_on_as_many_meshes_as_are_known(rows, count):
    assert len(failing_pairs(rows)) == count


def test_the_smallest_meshes_of_gpt_2_and_the_silent_one_of_32001():
    assert list(failing_pairs(50_257))[:2] == [(3, 2), (4, 2)]
    silent = {pair for pair, errors in failing_pairs(32_001).items() if "checkpoint-loses-elements" in errors}
    assert silent == {(128, 2)}
    (lost,) = [found for found in on(32_001, 128, 2) if found.kind == "checkpoint-loses-elements"]
    assert (lost.elements, lost.indices, lost.ranks) == (63, ((31_938, 32_001),), (255,))


def test_nine_rows_lose_one():
    nine = "[9, 5] on dp=4, tp=2: _S(0, 2), S(0)"
    assert kinds(nine) == [
        "checkpoint-loses-elements",
        "checkpoint-unloadable",
        "load-shifts-rows",
        "load-refused",
        "export-wrong-shape",
    ]
    assert kinds(nine, "warning") == ["load-refused", "hangs-on-empty-rank", "ambiguous-label"]
    lost = of_kind(nine, "checkpoint-loses-elements")[0]
    assert (lost.elements, lost.indices, lost.ranks) == (5, ((8, 9),), (7,))
    assert lost.message == (
        "a checkpoint is saved and loaded without an error, and row 8 keeps its old value on rank 7, which holds row 8 "
        "and is reported none"
    )


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("[32001] on dp=4, tp=2: _S(0, 2), S(0)", 4000),
        ("[50257] on dp=4, tp=2: _S(0, 2), S(0)", 6282),
        ("[33] on dp=4, tp=2: _S(0, 2), S(0)", 4),
        ("[9] on dp=4, tp=2: _S(0, 2), S(0)", 1),
    ],
)
def test_as_many_rows_are_shifted_as_were_seen(text, rows):
    found = of_kind(text, "load-shifts-rows")[0]
    assert "on the meta device" in found.message
    assert found.elements == rows
    assert found.ranks == (1, 3, 5, 7)


def test_loading_into_real_parameters():
    (meta, real) = of_kind("[17] on dp=4, tp=2: _S(0, 2), S(0)", "load-shifts-rows")
    assert (real.indices, real.ranks) == (((15, 16),), (7,))
    assert meta.indices == ((15, 17),)
    refused = {rows: of_kind(f"[{rows}] on dp=4, tp=2: _S(0, 2), S(0)", "load-refused")[0] for rows in (9, 33)}
    assert all(found.severity == "error" and "real parameters" in found.message for found in refused.values())


@pytest.mark.parametrize(
    ("text", "grown"),
    [
        ("[9] on dp=4, tp=2: _S(0, 2), S(0)", 10),
        ("[17] on dp=4, tp=2: _S(0, 2), S(0)", 18),
        ("[5] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)", 6),
    ],
)
def test_exports_grow(text, grown):
    assert f"has {grown} instead of" in of_kind(text, "export-wrong-shape")[0].message


@pytest.mark.parametrize(
    ("text", "kind", "ranks"),
    [
        ("[2] on dp=2, tp=4: _S(0, 4), S(0)", "train-refused", (2, 3, 6, 7)),
        ("[4, 9] on dp=2, tp=2: _S(1, 2), S(1)", "sharding-refused", (0, 2)),
        ("[16] on dp=4, tp=2: _S(0, 2), _S(0, 2)", "full-tensor-wrong", tuple(range(8))),
        ("[6] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)", "checkpoint-loses-elements", None),
        ("[8] on tp=2: _S(0, 2)", "checkpoint-refused", (0, 1)),
    ],
)
def test_other_faults(text, kind, ranks):
    found = of_kind(text, kind)
    assert found
    assert ranks is None or found[0].ranks == ranks


def test_a_cut_refused_on_some_ranks_is_all_there_is_to_say():
    (only,) = findings("[4, 9] on dp=2, tp=2: _S(1, 2), S(1)")
    assert "on these ranks alone" in only.message
    assert "alone" not in findings("[4, 10] on dp=3, tp=2: _S(1, 2), S(1)")[0].message


@pytest.mark.parametrize(
    "text",
    [
        "[16, 8] on dp=2, tp=2: _S(0, 2), S(0)",
        "[16, 8] on dp=2, tp=2: S(0), S(1)",
        "[16] on dp=4: S(0)",
        "[0] on dp=4, tp=2: _S(0, 2), S(0)",
        "[] on dp=2: R",
        "[8, 8] on dp=2, tp=2: R, R",
    ],
)
def test_where_everything_divides_nothing_is_found(text):
    assert findings(text) == ()


def test_severities():
    assert (*ERRORS, *WARNINGS, *NOTES) == KINDS
    uneven = findings("[5] on dp=4: S(0)")
    assert {found.kind: found.severity for found in uneven} == {
        "hangs-on-empty-rank": "warning",
        "empty-ranks": "note",
        "padding": "note",
        "imbalance": "note",
    }
    assert "3 rows of padding" in next(found.message for found in uneven if found.kind == "padding")


def test_arithmetic_is_what_torch_reports():
    questions = [
        Question(size, cuts, factors, True)
        for size in (0, 1, 5, 9, 14, 31)
        for cuts, factors in (((4, 2), (2, 1)), ((3, 3), (3, 1)), ((2, 2, 2), (4, 2, 1)), ((2, 3), (3, 2)), ((4,), (2,)))
    ]
    assert [one for one in questions if ask_torch(one) != left_to_right(one)] == []


@pytest.mark.parametrize("meshes", [("dp=4, tp=2", "S(0)"), ("dp=3, tp=3", "S(0)"), ("dp=2, ep=2, tp=2", "S(0), S(0)")])
def test_torchs_own_planner_refuses_what_the_audit_says(meshes):
    mesh, placements = meshes
    for rows in range(1, 40):
        spec = Grid.of(mesh).spec((rows, 2), placements)
        said = "checkpoint-refused" in {found.kind for found in findings_of(spec, left_to_right)}
        assert bool(torch_refuses(spec)) == said, spec


def test_proof_agrees_and_can_disagree(monkeypatch):
    found = audit((33,), mesh="dp=4, tp=2", proof=True)
    assert found.known_by == "torch's own report and validator, for every rank"
    assert found.errors
    monkeypatch.setattr("shardviz.checks.audits.proof.torch_refuses", lambda spec: "")
    with pytest.raises(TorchError, match="says otherwise"):
        audit((33,), mesh="dp=4, tp=2", proof=True)


def test_an_unknown_release_is_asked(monkeypatch):
    assert release("2.13.0").known_by == "arithmetic"
    asked = release("2.99.0")
    assert asked.reports is left_to_right
    assert "does not know torch 2.99.0: asked at 54 sample coordinates" in asked.known_by
    monkeypatch.setattr(audit_release, "ask_torch", in_sharding_order)
    assert release("2.99.0").reports is in_sharding_order
    monkeypatch.setattr(audit_release, "ask_torch", lambda asked: {})
    assert "in a way of its own" in release("2.99.0").known_by


def test_right_offsets_leave_no_error_but_those_of_torch_itself():
    nine = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")
    assert [found.kind for found in findings_of(nine, in_sharding_order) if found.severity == "error"] == []


def test_cures():
    (found,) = audit((32_001, 8), mesh="dp=4, tp=2").parameters
    padding, meshes, mend = found.cures
    assert padding == "pad dimension 0 from 32001 to 32002, the next multiple of 2"
    assert meshes == "train as many ranks on dp=8 × tp=1, dp=2 × tp=4, dp=1 × tp=8"
    assert "corrected_offsets" in mend
    assert not audit((32_002, 8), mesh="dp=4, tp=2")
    for sizes in ({"dp": 8, "tp": 1}, {"dp": 2, "tp": 4}, {"dp": 1, "tp": 8}):
        assert not audit((32_001, 8), mesh=sizes)
    packed = audit("[15] on dp=4, tp=2: _S(0, 2), _S(0, 2)").parameters[0]
    assert any("corrected_offsets" in cure for cure in packed.cures)


def test_meshes_as_fsdp2_sees_them():
    hsdp = Grid.of("dp_replicate=2, dp_shard=2, cp=2, tp=2")
    assert str(hsdp.spec((8, 4), "S(0)")) == "[8, 4] on dp_replicate=2, dp_shard_cp=4, tp=2: R, _S(0, 2), S(0)"
    assert str(Grid.of("tp=2, dp=2").spec((8,), "S(0)").mesh) == "dp=2, tp=2 (ranks 0, 2, 1, 3)"
    assert str(Grid.of("tp=2").spec((8,), "S(0)")) == "[8] on tp=2: S(0)"
    assert str(Grid.of("dp=4").spec((), "")) == "[] on dp=4: R"
    with pytest.raises(SpecError, match="'dp=x' is no new name=size"):
        Grid.of("tp=2, dp=x")
    with pytest.raises(SpecError, match="1 placements"):
        Grid.of("dp=2, ep=2, tp=2").spec((8,), "S(0)")


def test_a_mesh_and_its_replicas_name_the_same_ranks():
    once = audit((9,), mesh="dp=4, tp=2").parameters[0].errors[0]
    twice = audit((9,), mesh="dp_replicate=2, dp_shard=4, tp=2").parameters[0].errors[0]
    assert twice.ranks == (*once.ranks, *(rank + 8 for rank in once.ranks))
    assert twice.elements == once.elements


def test_a_report_in_words_and_as_data():
    found = audit((9,), mesh="dp=4, tp=2")
    document = found.json()
    assert (document["mesh"], document["errors"]) == ("dp=4, tp=2", 5)
    first = document["parameters"][0]
    assert (first["shape"], first["placements"]) == ([9], "_S(0, 2), S(0)")
    assert first["findings"][0]["indices"] == [[8, 9]]
    assert set(first["findings"][0]) == {"kind", "severity", "elements", "indices", "ranks", "message"}
    assert "5 errors in 1 of 1 parameters" in str(found)
    assert "checkpoint-loses-elements" in found._repr_html_()
    assert "torch reports row 8" in found.parameters[0].draw().text
    assert bool(found)
    assert not audit("[8] on dp=4: S(0)")


def test_the_map_of_meshes():
    found = sweep(
        lambda mesh: Subject((("", Grid.of(mesh).spec((9,), "S(0)")),), Coverage(1)),
        read_sweep("dp=3..4, tp=1|2"),
        audit_release.installed_release(),
    )
    assert found.bad == ((4, 2),)
    assert found.text.splitlines()[1:4] == ["     tp  1 2", "dp=3     · ·", "dp=4     · L"]
    with pytest.raises(SpecError, match=r"right would be 'dp=1..16, tp=1..8'"):
        read_sweep("dp=4..1")


def test_every_error_has_a_letter_on_the_map():
    assert set(SIGNS) == set(ERRORS)
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_a_sweep_that_no_map_could_show_is_refused_at_once():
    ranges = read_sweep("dp=1..999999999999, tp=1..8")
    with pytest.raises(SpecError, match=r"a sweep over 7,999,999,999,992 meshes; a map shows at most 10,000"):
        sweep(lambda mesh: Subject((), Coverage(0)), ranges, audit_release.installed_release())


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        ((9,), {}, "needs a mesh"),
        ("[9] on dp=2: S(1)", {}, "tensor dimension 1 does not exist"),
        ((9,), {"mesh": "dp=2, tp=2", "placements": "S(0)"}, "1 placements for 2 mesh dimensions"),
    ],
)
def test_a_wrong_request_says_what_is_missing(target, more, said):
    with pytest.raises(SpecError, match=said):
        audit(target, **more)


def test_the_audit_knows_fsdp2_by_its_split_factor():
    by_hand = Spec((2,), {"a": 2, "b": 4}, "S(0), S(0)")
    assert "train-refused" not in {found.kind for found in findings_of(by_hand, left_to_right)}
