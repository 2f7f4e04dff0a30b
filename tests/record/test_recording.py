"""Recordings as facts: what ranks wrote becomes one recording, and nothing else does."""

import json
import re
import time

import pytest

from shardviz.core.errors import FileError
from shardviz.core.files import load
from shardviz.core.recording import Call, Event, Piece, Recording
from shardviz.core.recording_lines import merge, read_lines


def begin(rank, world=2, **changed):
    about = {"shardviz": 2, "rank": rank, "world": world, "program": "train.py", "host": "node", "torch": "2.13.0"}
    return {"begin": {**about, "started": 100.0 + rank, **changed}}


def group(ranks, label="0"):
    return {"group": {"label": label, "ranks": ranks, "backend": "gloo"}}


def piece(*shape, values=None):
    return {"shape": shape, "dtype": "float32", "itemsize": 4, "values": values}


def called(number, at, name="all_reduce", label="0", given=None, **more):
    return {"call": {"group": label, "number": number, "name": name, "given": [given or piece(4)], "at": at, **more}}


def done(number, at, label="0", got=None):
    return {"done": {"group": label, "number": number, "got": [got or piece(4)], "at": at}}


END = {"end": {"error": ""}}


def lines(*documents):
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def write(directory, **files):
    for name, data in files.items():
        (directory / f"{name.replace('_', '-')}.jsonl").write_bytes(data)


def whole(rank, world=2, **more):
    return lines(begin(rank, world), group(list(range(world))), called(0, 0.5, **more), done(0, 0.75), END)


def test_calls_of_one_collective_are_put_side_by_side(tmp_path):
    write(tmp_path, rank_0=whole(0, reduction="sum", reason="redistribute P(sum) -> R", place="train.py:9"), rank_1=whole(1))
    recording = load(tmp_path)
    assert isinstance(recording, Recording)
    (event,) = recording.events
    assert (event.group, event.number, event.began) == ((0, 1), 0, 0.5)
    assert [call.at for call in event.calls] == [0.5, 1.5]  # the clocks of the ranks began a second apart
    assert event.seconds == 1.25
    assert event.bytes == (16, 16)
    assert recording.text.splitlines()[0] == "train.py: recorded on 2 gloo ranks, torch 2.13.0"


def test_each_group_is_counted_by_itself(tmp_path):
    def rank(me, pair):
        return lines(
            begin(me, 4),
            group(pair, f"pair-{pair[0]}"),
            called(0, 0.1, label=f"pair-{pair[0]}"),
            group([0, 1, 2, 3], "all"),
            called(0, 0.2, label="all"),
            called(1, 0.3, label="all"),
            END,
        )

    write(tmp_path, rank_0=rank(0, [0, 2]), rank_2=rank(2, [0, 2]), rank_1=rank(1, [1, 3]), rank_3=rank(3, [1, 3]))
    recording = load(tmp_path)
    assert sorted((event.group, event.number) for event in recording.events) == [
        ((0, 1, 2, 3), 0),
        ((0, 1, 2, 3), 1),
        ((0, 2), 0),
        ((1, 3), 0),
    ]
    assert recording.right


def test_ranks_that_call_different_things_are_told(tmp_path):
    write(tmp_path, rank_0=whole(0), rank_1=whole(1, given=piece(5)))
    recording = load(tmp_path)
    assert recording.events[0].differs
    assert not recording.right
    assert (
        recording.events[0].text
        == "different collectives on ranks 0, 1: rank 0: all_reduce of float32 [4]; rank 1: all_reduce of float32 [5]"
    )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (lines(begin(1), group([0, 1]), called(0, 0.5)), "rank 1 is cut short"),
        (lines(begin(1), group([0, 1]), called(0, 0.5)) + b'{"done":{"gr', "rank 1 is cut short"),
        (
            lines(begin(1), group([0, 1]), called(0, 0.5), {"end": {"error": "ValueError: no"}}),
            "rank 1 ended with ValueError: no",
        ),
        (lines(begin(1)), "rank 1 is cut short"),
        (b"", "rank 1 left no record"),
        (b'{"begin":{"sha', "rank 1 left no record"),
    ],
)
def test_a_rank_that_did_not_come_to_its_end_is_told(tmp_path, data, says):
    write(tmp_path, rank_0=whole(0), rank_1=data)
    recording = load(tmp_path)
    assert says in recording.text.splitlines()
    assert not recording.right


def test_a_recording_is_saved_and_read_back(tmp_path):
    values = [1.5, "nan", "inf", 2, True]
    write(tmp_path, rank_0=whole(0, given=piece(5, values=values)), rank_1=whole(1, given=piece(5)))
    recording = load(tmp_path)
    assert isinstance(recording, Recording)
    assert recording.events[0].first.given[0].values == (1.5, "nan", "inf", 2, True)
    assert load(recording.save(tmp_path / "deep" / "recording.json")) == recording


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{}\n", 'must be an object with "begin"'),
        (b"\x80\x04pickle\n", "not a record of shardviz"),
        (b"[" * 100_000 + b"\n", "not a record of shardviz"),
        (lines(begin(0, shardviz=3)), r"has version 3; this shardviz reads versions up to 2"),
        (lines(begin(0, shardviz="one")), "must be an object"),
        (lines(begin(5)), "rank 5 of 2"),
        (lines(begin(0, host=7)), "first line is not as it should be"),
        (lines(begin(0), called(0, 0.1)), "a call 0 of a group '0' that it does not describe"),
        (lines(begin(0), group([0, 7]), END), r"group '0' has the ranks \[0, 7\]"),
        (lines(begin(0), group([0, 0]), END), r"group '0' has the ranks \[0, 0\]"),
        (lines(begin(0), group([1]), END), "without the rank 0"),
        (lines(begin(0), group([0, 1]), called(0, 0.1, given=piece(-4)), END), "negative size"),
        (lines(begin(0), {"call": {"group": 3}}, END), "line 2 is no line of a record"),
        (lines(begin(0)) + b"nonsense\n" + lines(END), "line 2 is no line of a record"),
    ],
)
def test_a_record_that_is_none_is_refused_with_a_sentence(tmp_path, data, says):
    write(tmp_path, rank_0=data)
    with pytest.raises(FileError, match=f"rank-0.jsonl: .*{says}"):
        load(tmp_path)


def test_records_that_do_not_belong_together_are_refused(tmp_path):
    write(tmp_path, rank_0=whole(0), rank_1=whole(1, 4))
    with pytest.raises(FileError, match="different runs: rank 0 of 2 and rank 1 of 4"):
        load(tmp_path)
    write(tmp_path, rank_1=whole(0))
    with pytest.raises(FileError, match="2 of the records are of rank 0"):
        load(tmp_path)


def test_a_directory_without_records_is_refused(tmp_path):
    with pytest.raises(FileError, match="holds no records"):
        load(tmp_path)


CALL = {"name": "barrier", "given": [], "got": [], "at": 0.0}


@pytest.mark.parametrize(
    ("recording", "says"),
    [
        ({"program": "x"}, "not as it should be"),
        ({"participants": []}, "no ranks"),
        ({"events": [{"group": [0, 1], "label": "0", "number": 0, "calls": [CALL]}]}, r"1 calls for the ranks \[0, 1\]"),
        ({"events": [{"group": [0], "label": "0", "number": 0, "calls": [None]}]}, "1 calls"),
        ({"events": [{"group": [0], "label": "0", "number": 0, "calls": [{**CALL, "given": [piece(-1)]}]}]}, "negative size"),
    ],
)
def test_a_document_that_is_no_recording_is_refused(tmp_path, recording, says):
    good = {"backend": "gloo", "participants": [{"rank": 0, "host": "", "torch": ""}], "events": [], "program": "x"}
    document = {"shardviz": 2, "recording": recording if "program" in recording else {**good, **recording}}
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(FileError, match=says):
        load(tmp_path / "bad.json")


def test_a_record_of_an_earlier_version_is_read_and_said_to_be_blind(tmp_path):
    earlier = lines(begin(0, 1, shardviz=1), group([0]), called(0, 0.5), done(0, 0.75), END)
    write(tmp_path, rank_0=earlier)
    recording = load(tmp_path)
    assert isinstance(recording, Recording)
    assert len(recording.events) == 1
    assert not recording.right
    assert "incomplete: rank 0: it was recorded by a shardviz that saw no messages" in recording.text
    text = recording.save(tmp_path / "now.json").read_text()
    (tmp_path / "then.json").write_text(re.sub(r'"gaps":\[.*?\]', '"gaps":[]', text).replace('"shardviz":2', '"shardviz":1'))
    assert load(tmp_path / "then.json") == recording


def message(number, at, name, peer, **more):
    return called(number, at, name, message=True, peer=peer, **more)


def test_messages_are_matched_by_who_sends_to_whom_with_which_tag(tmp_path):
    def received(number, peer=None):
        return {"done": {**done(number, 0.9)["done"], "message": True, "peer": peer}}

    sends = [message(0, 0.1, "send", 1), message(1, 0.2, "send", 1, tag=7), message(2, 0.3, "send", 1)]
    receives = [message(0, 0.1, "recv", 0, tag=7), message(1, 0.2, "recv", None), message(2, 0.3, "recv", 0)]
    over = [received(0), received(1, 0), received(2)]
    write(
        tmp_path,
        rank_0=lines(begin(0), group([0, 1]), *sends, *map(received, range(3)), called(0, 0.4), done(0, 0.5), END),
        rank_1=lines(begin(1), group([0, 1]), *receives, *over, called(0, 0.4), done(0, 0.5), END),
    )
    recording = load(tmp_path)
    assert isinstance(recording, Recording)
    assert recording.right
    assert [(e.group, e.number, e.first.tag) for e in recording.events if e.is_message] == [
        ((0, 1), 0, 0),
        ((0, 1), 0, 7),
        ((0, 1), 1, 0),
    ]
    assert recording.counts == "1 collectives, 3 messages"
    assert sum(sum(event.bytes) for event in recording.events if event.is_message) == 3 * 16


def test_a_message_that_nobody_receives_and_a_rank_that_waits_in_vain_are_told(tmp_path):
    write(
        tmp_path,
        rank_0=lines(begin(0), group([0, 1]), message(0, 0.1, "recv", 1, place="train.py:9")),
        rank_1=lines(begin(1), END),
    )
    text = load(tmp_path).text.splitlines()
    assert "rank 0 is in recv of float32 [4] from rank 1, called by train.py:9" in text
    assert "rank 1 returned" in text


def test_bytes_of_uneven_parts_and_of_padding():
    piece_ = Piece((6, 2), "float32", 4)
    calls = [Call("all_to_all", (piece_,), (), 0.0, parts=parts, padding=(0, 8)) for parts in ((8, 40), (48, 0))]
    event = Event((0, 1), "0", 0, tuple(calls))
    assert event.bytes == (40, 48)
    assert event.padding == 8  # rank 0 sends eight bytes of padding to rank 1; what is for oneself is not sent


def test_a_later_version_of_a_recording_is_refused(tmp_path):
    (tmp_path / "later.json").write_text('{"shardviz": 9, "recording": {}}')
    with pytest.raises(FileError, match="version 9"):
        load(tmp_path / "later.json")


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("all_gather", (48, 48, 48, 48)),
        ("all_reduce", (24, 24, 24, 24)),
        ("reduce_scatter", (12, 12, 12, 12)),
        ("all_to_all", (12, 12, 12, 12)),
        ("broadcast", (0, 48, 0, 0)),
        ("reduce", (16, 0, 16, 16)),
        ("gather", (16, 0, 16, 16)),
        ("scatter", (0, 12, 0, 0)),
    ],
)
def test_what_each_rank_sends(name, sent):
    root = 1 if name in ("broadcast", "reduce", "gather", "scatter") else None
    call = Call(name, (Piece((4,), "float32", 4),), (), 0.0, root=root)
    assert Event((0, 1, 2, 3), "0", 0, (call,) * 4).bytes == sent


def test_sixty_four_ranks_and_a_thousand_steps_load_in_time(tmp_path):
    ranks = list(range(64))
    for rank in ranks:
        steps = (part for n in range(1000) for part in (called(n, n / 100, reduction="sum"), done(n, n / 100 + 0.001)))
        write(tmp_path, **{f"rank_{rank}": lines(begin(rank, 64), group(ranks), *steps, END)})
    began = time.process_time()  # a busy machine is no fault
    recording = load(tmp_path)
    text = recording.text
    took = time.process_time() - began
    assert isinstance(recording, Recording)
    assert len(recording.events) == 1000
    assert "… and 800 more" in text
    assert took < 3


def test_reading_lines_needs_no_directory():
    assert len(merge([read_lines(whole(0, 1))]).events) == 1
