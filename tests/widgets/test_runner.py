"""The runner: ranks stay warm, grow when they must, and end."""

import threading
import time

import pytest

from shardviz.core.errors import RanksError, RequestError
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import parse
from shardviz.core.unshuffle import unshuffle
from shardviz.widgets.runner import Runner

FOUR = parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")
EIGHT = parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")
SECONDS = 10


class FakeRanks:
    """Ranks that answer with the prediction; while `hold` is not set, a run waits."""

    def __init__(self, n, progress):
        self.n = n
        self.progress = progress
        self.calls = []
        self.hold = threading.Event()
        self.hold.set()
        self.interrupted = False
        self.running = threading.Event()
        self.starting = threading.Event()
        self.begun = threading.Event()
        self.begun.set()

    def start(self):
        self.calls.append("start")
        self.interrupted = False
        self.starting.set()
        assert self.begun.wait(SECONDS)
        self.progress(f"{self.n} ranks are ready", 1.0)

    def stop(self):
        self.calls.append("stop")
        self.interrupt()

    def run(self, spec):
        self.calls.append("run")
        self.running.set()
        assert self.hold.wait(SECONDS)
        if self.interrupted:
            raise RanksError("The run was interrupted.")
        return unshuffle(spec)

    def redistribute(self, spec, placements):
        self.calls.append(f"to {', '.join(map(str, placements))}")
        return redistribute(spec, placements)

    def interrupt(self):
        self.interrupted = True
        self.hold.set()


class Rig:
    """A runner over fake ranks, and what it told."""

    def __init__(self, most=16):
        self.made = []
        self.told = []
        self.results = []
        self.runner = Runner(most, self.make)

    def make(self, n, progress):
        self.made.append(FakeRanks(n, progress))
        return self.made[-1]

    def begin(self, spec, target=None):
        ended = threading.Event()
        told, results = self.told.append, self.results.append
        self.runner.run(spec, lambda *what: told(what), lambda found: (results(found), ended.set()), target)
        return ended

    def run(self, spec):
        assert self.begin(spec).wait(SECONDS)
        return self.results[-1]


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.runner.close()


def test_ranks_stay_warm(rig):
    assert rig.run(FOUR).spec == FOUR
    rig.run(parse("[4] on dp=2: S(0)"))
    assert [ranks.n for ranks in rig.made] == [4]
    assert rig.made[0].calls == ["start", "run", "start", "run"]
    assert ("4 ranks are ready", 1.0) in rig.told


def test_a_larger_mesh_starts_more(rig):
    rig.run(FOUR)
    rig.run(EIGHT)
    assert [ranks.n for ranks in rig.made] == [4, 8]
    assert rig.made[0].calls[-1] == "stop"


def test_a_sub_mesh_needs_its_highest_rank(rig):
    rig.run(parse("[4] on dp=2 (ranks 4-5): S(0)"))
    assert rig.made[0].n == 6


def test_more_than_the_bound_is_refused_before_anything_starts(rig):
    with pytest.raises(RequestError, match="needs 32 ranks, and this explorer starts at most 16"):
        rig.begin(parse("[64] on dp=32: S(0)"))
    assert rig.made == []
    assert not rig.runner.busy


def test_one_run_at_a_time_and_it_can_be_stopped(rig):
    rig.run(FOUR)
    ranks = rig.made[0]
    ranks.hold.clear()
    ranks.running.clear()
    ended = rig.begin(FOUR)
    assert ranks.running.wait(SECONDS)
    assert rig.runner.busy
    with pytest.raises(RequestError, match="A run is on its way"):
        rig.begin(FOUR)
    rig.runner.stop()
    assert ended.wait(SECONDS)
    assert isinstance(rig.results[-1], RanksError)
    assert rig.runner.stopping
    assert not rig.runner.busy


def test_a_stop_during_the_start_works_at_once(rig):
    ended = rig.begin(FOUR)
    assert ended.wait(SECONDS)
    slow = rig.make

    def make(n, progress):
        ranks = slow(n, progress)
        ranks.begun.clear()
        return ranks

    rig.runner = Runner(16, make)
    ended = rig.begin(FOUR)
    while len(rig.made) < 2:
        time.sleep(0.01)
    ranks = rig.made[1]
    assert ranks.starting.wait(SECONDS)
    rig.runner.stop()
    assert ended.is_set()
    assert isinstance(rig.results[-1], RanksError)
    assert not rig.runner.busy
    told = len(rig.told)
    again = rig.begin(FOUR)  # waits for the start that was stopped, which still goes on
    ranks.begun.set()
    assert again.wait(SECONDS)
    assert rig.results[-1].spec == FOUR
    assert ranks.calls == ["start", "stop", "start", "run"]
    assert ("ending the start that was stopped", 0.0) in rig.told[told:]


def test_a_run_may_lead_to_other_placements(rig):
    ended = rig.begin(FOUR, parse("[5] on dp=2, tp=2: R, S(0)"))
    assert ended.wait(SECONDS)
    assert rig.results[-1].target == parse("[5] on dp=2, tp=2: R, S(0)")
    assert rig.made[0].calls == ["start", "to R, S(0)"]


def test_a_failed_start_is_the_result(rig):
    def make(n, progress):
        raise RanksError("no room")

    rig.runner = Runner(16, make)
    assert str(rig.run(FOUR)) == "no room"


def test_closing_ends_the_ranks_even_during_a_run(rig):
    rig.run(FOUR)
    ranks = rig.made[0]
    ranks.hold.clear()
    rig.begin(FOUR)
    rig.runner.close()
    assert ranks.calls[-1] == "stop"
    assert not rig.runner.busy
