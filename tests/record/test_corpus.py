"""Programs of every kind, with and without the recorder: it changes nothing, and it misses nothing."""

import pytest

from shardviz.core.errors import RankFailure
from shardviz.core.recording_lines import merge, read_lines
from shardviz.ranks.cluster import Ranks
from tests.record import corpus

pytestmark = pytest.mark.ranks

QUICK = [name for name in corpus.PROGRAMS if name not in corpus.SLOW]
UNCOUNTED = {
    "another_thread": "the profiler counts in its own thread alone",
    "a_mode_that_counts": "the profiler counts again what a mode passes on",
}
"""Programs that torch's profiler counts wrongly."""


@pytest.fixture(scope="module")
def plain():
    """What the programs do on ranks without any recorder."""
    with Ranks(4) as ranks:
        return ranks.apply(without_a_recorder, QUICK, timeout=200)


@pytest.fixture(scope="module")
def recorded(four_ranks):
    """What they do when they are recorded, their recordings, and what torch's profiler counted on each rank."""
    return four_ranks.apply(corpus.recorded, QUICK, timeout=200)


def without_a_recorder(names):
    from shardviz.ranks import watch

    for one in watch._watches:  # ranks of ours are always watched
        one.listening.close()
    return corpus.run(names)


def recording(recorded, name):
    return merge([read_lines(records[name]) for _, records, _ in recorded])


def test_there_are_programs_of_every_kind():
    assert len(QUICK) > 45


def test_a_recorded_program_does_what_it_does_without(plain, recorded):
    for alone, (heard, _, _) in zip(plain, recorded, strict=True):
        assert repr(heard) == repr(alone)
    failed = {name for name, outcome in plain[0].items() if isinstance(outcome, str)}
    assert failed == {
        *("a_wrong_dtype", "a_wrong_argument", "a_wrong_layout", "a_wrong_size", "a_wrong_peer", "no_such_group"),
        "a_compiled_function_that_polls",
    }


def test_every_communication_that_torch_counts_is_recorded(recorded):
    for name in QUICK:
        if name not in UNCOUNTED:
            events = recording(recorded, name).events
            for rank, (_, _, counts) in enumerate(recorded):
                seen = [
                    call for event in events for at, call in zip(event.group, event.calls, strict=True) if call and at == rank
                ]
                assert len(seen) == counts[name], (name, rank)


@pytest.mark.parametrize("name", QUICK)
def test_the_recording_of_a_program_is_right_and_every_call_is_seen_to_end(recorded, name):
    found = recording(recorded, name)
    assert found.gaps == ()
    assert found.right, found.text
    assert all(call.over for event in found.events for call in event.calls if call), found.text
    if name != "another_thread":  # whose first function is torch's
        assert all(event.first.place.startswith("corpus.py:") for event in found.events), found.text


def test_bytes_of_an_uneven_all_to_all(recorded):
    (event,) = recording(recorded, "all_to_all_single_uneven").events
    rows = [sum(corpus.uneven(rank, 4)[0]) - corpus.uneven(rank, 4)[0][rank] for rank in range(4)]
    assert event.bytes == tuple(8 * count for count in rows)


def test_padding_of_dtensor_and_fsdp2(recorded):
    whole = recording(recorded, "dtensors").events[-1]
    assert whole.padding == 3 * 2 * 4  # ten elements as 3, 3, 3 and 1: the last rank sends two of padding to three others
    events = recording(recorded, "fsdp2").events
    first = next(event for event in events if event.first.reason == "FSDP2 gathers parameters")
    assert first.padding == 3 * (2 * 5 + 2) * 4  # six rows and six biases as 2, 2, 2 and none
    reduced = next(event for event in events if event.first.reason == "FSDP2 reduces gradients" and event.first.module == "0")
    assert reduced.padding == first.padding


def test_modules_are_told_forward_and_backward(recorded):
    events = recording(recorded, "fsdp2").events
    gathered = {event.first.module for event in events if event.first.reason == "FSDP2 gathers parameters"}
    assert gathered == {"0", "2"}
    assert [event.first.module for event in events if event.name == "reduce_scatter"] == ["2", "0"] * 2


def test_messages_of_a_pipeline_tell_who_sends_to_whom(recorded):
    events = recording(recorded, "pipeline").events
    assert all(event.is_message for event in events)
    assert {event.group for event in events} == {(0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2)}
    (tagged,) = recording(recorded, "send_and_recv").events
    assert tagged.first.text == "send of float32 [3] to rank 1 with tag 3"
    (anyone,) = recording(recorded, "recv_from_any").events
    assert anyone.calls[1] is not None
    assert (anyone.group, anyone.calls[1].peer) == ((0, 1), 0)


def test_gradients_that_ddp_reduces_are_seen(recorded):
    events = recording(recorded, "ddp").events
    reduced = [event for event in events if "as DDP does" in event.first.reason]
    assert [(event.name, event.first.reduction) for event in reduced] == [("all_reduce", "sum")] * 2


@pytest.mark.slow
def test_a_program_that_inductor_compiles(four_ranks):
    (name,) = corpus.SLOW
    heard = four_ranks.apply(corpus.recorded, [name], timeout=280)
    assert heard[0][0] == four_ranks.apply(corpus.run, [name], timeout=280)[0]
    assert [event.name for event in recording(heard, name).events] == ["all_reduce"]
    assert recording(heard, name).right


def test_the_recorder_s_own_faults_are_gaps_and_no_fault_of_the_program(four_ranks):
    def broken():
        import torch
        import torch.distributed as dist

        from shardviz.ranks import listening

        listening.caller = None  # whatever goes wrong
        total = torch.ones(2)
        dist.all_reduce(total)
        assert total.tolist() == [4.0, 4.0]

    try:
        found = four_ranks.record(broken)
    finally:
        four_ranks.restart()
    assert found.events == ()
    assert not found.right
    assert "incomplete: ranks 0–3: a call (TypeError: 'NoneType' object is not callable)" in found.text


def test_a_hang_tells_of_a_receive_and_of_a_rank_that_returned(four_ranks):
    def receives_in_vain():
        import torch
        import torch.distributed as dist

        if dist.get_rank() == 0:
            dist.recv(torch.empty(2), src=1)

    with pytest.raises(RankFailure) as caught:
        four_ranks.apply(receives_in_vain, timeout=1)
    assert "rank 0: waiting in recv, called by receives_in_vain" in str(caught.value)
    assert "ranks 1, 2, 3: returned" in str(caught.value)


def test_a_function_that_names_torch_ops_goes_to_ranks(four_ranks):
    import torch

    operator = torch.ops._c10d_functional.all_reduce.default

    def calls():
        import torch.distributed as dist

        out = operator(torch.ones(2), "sum", dist.group.WORLD.group_name)
        return torch.ops._c10d_functional.wait_tensor(out).tolist()

    calls.__module__ = "__main__"
    assert four_ranks.apply(calls) == [[4.0, 4.0]] * 4
