"""Traces as JSON: what is saved is read back, and what is no trace is refused in words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardviz.core.errors import FileError
from shardviz.core.files import VERSION, from_json, load, save, to_json
from shardviz.core.spec import parse
from shardviz.core.trace import Buffer, Report, Source, Step, Trace
from shardviz.core.unshuffle import unshuffle
from tests.core.cases import cases

STORY = unshuffle(parse("[5] on dp=2, tp=2 (ranks 4-7): _S(0, 2), S(0)"))


def changed(**fields):
    document = json.loads(to_json(STORY))
    document.update(fields)
    return json.dumps(document).encode()


@given(cases())
@settings(max_examples=50)
def test_a_predicted_trace_is_read_back_equal(case):
    story = unshuffle(case.spec)
    assert from_json(to_json(story)) == story


def test_a_recorded_trace_is_read_back_equal():
    spec = parse("[4] on tp=2: S(0)").with_made_by("fsdp2")
    source = Source("held", 2, "gloo", "2.13.0", ("cpu", "cpu"), "fsdp2", "ranks on the CPU")
    odd = Buffer((), (3,), cells=((0, 2), (-2, -1)), pending=(0,))
    step = Step("all-gather", "collective", "…", (odd, odd), ((0, 1),), (8, 8), 0, 0)
    torch = Trace(spec, source, "full_tensor", (step,), end="rank 1 died")
    reports = (Report(0, (2,), (0,)), Report(1, error="AssertionError"))
    trace = Trace(spec, source, "exact", (step,), reports, torch, used=(odd, odd))
    back = from_json(to_json(trace))
    assert back == trace
    assert back.torch == torch
    assert back.spec.made_by == "fsdp2"


def test_save_makes_the_folders_and_load_reads(tmp_path):
    path = STORY.save(tmp_path / "some" / "where" / "trace.json")
    assert load(path) == STORY
    assert load(str(path)).spec.mesh.ranks == (4, 5, 6, 7)
    assert json.loads(path.read_text())["shardviz"] == VERSION


@given(st.integers(0, len(to_json(STORY).rstrip()) - 1))
def test_a_truncated_trace_is_refused(length):
    with pytest.raises(FileError, match="not a trace of shardviz"):
        from_json(to_json(STORY)[:length])


def test_a_later_version_is_refused_by_its_number():
    with pytest.raises(FileError, match=f"the trace has version {VERSION + 1}; this shardviz reads versions up to {VERSION}"):
        from_json(changed(shardviz=VERSION + 1, trace="of a form nobody knows yet"))


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"1",
        b"\xff\xfe",
        b'{"shardviz": "1"}',
        b'{"shardviz": null}',
        b'{"shardviz": -1}',
        b'{"shardviz": 1.5}',
        b'{"shardviz": 1}',
        b'{"shardviz": 1, "trace": []}',
        b'{"shardviz": 1, "trace": {"spec": 5}}',
        b'{"shardviz": ' + b"9" * 5000 + b"}",
        b'{"shardviz": ' + b"[" * 100_000,
        b'{"shardviz": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda document: repr(document[:36]),
)
def test_nonsense_is_refused(document):
    with pytest.raises(FileError, match="trace"):
        from_json(document)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_refused(document):
    with pytest.raises(FileError):
        from_json(document)


def story(**fields):
    return {**json.loads(to_json(STORY))["trace"], **fields}


def first_step(**fields):
    steps = json.loads(to_json(STORY))["trace"]["steps"]
    return [{**steps[0], **fields}, *steps[1:]]


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (story(spec="[5] on dp=2: X"), "'X' at position 13"),
        (story(spec="[5] on dp=2: S(0)"), "step 'local shards' has 4 buffers for 2 ranks"),
        (story(used=first_step()[0]["buffers"][:3]), "what is used has 3 buffers for 4 ranks"),
        (story(steps=[]), "it has no steps"),
        (story(steps=first_step(kind="magic")), "kind"),
        (story(steps=first_step(kind="collective", bytes=[8])), "step 'local shards' has 1 byte counts for 4 ranks"),
        (story(steps=first_step(buffers="none")), "buffers"),
        (story(steps=first_step(buffers=[{"axes": [[[0, 2, 3]]], "shape": [2]}] * 4)), "axes"),
        (story(source={"answer": "guessed"}), "answer"),
    ],
)
def test_a_trace_that_contradicts_itself_is_refused(trace, message):
    with pytest.raises(FileError, match="the trace is not as it should be") as caught:
        from_json(changed(trace=trace))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "buffer",
    [
        {"axes": [], "shape": [2]},
        {"axes": [[[0, 2]], [[0, 1]]], "shape": [2, 1]},
        {"axes": [[[0, 2]]], "shape": [3]},
        {"axes": [[[0, 9]]], "shape": [9]},
        {"axes": [[[2, 0]]], "shape": [-2]},
        {"axes": [], "shape": [2], "cells": [[0, 9]]},
    ],
    ids=str,
)
def test_buffers_that_no_rank_can_hold_are_refused(buffer):
    with pytest.raises(FileError, match="step 'local shards'"):
        from_json(changed(trace=story(steps=first_step(buffers=[buffer] * 4))))


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    missing = tmp_path / "missing.json"
    with pytest.raises(FileError, match=r"missing\.json cannot be read: No such file"):
        load(missing)
    with pytest.raises(FileError, match=r"holds no records"):
        load(tmp_path)
    with pytest.raises(FileError, match="the trace cannot be written to"):
        save(STORY, tmp_path)
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"{")
    with pytest.raises(FileError, match=r"bad\.json: not a trace of shardviz, or cut short"):
        load(bad)


def test_byte_counts_past_a_machine_word_are_kept():
    huge = unshuffle(parse("[1000000000000, 1000000000000] on tp=2: S(0)"))
    assert max(huge.steps[1].bytes) > 2**64
    assert from_json(to_json(huge)) == huge
