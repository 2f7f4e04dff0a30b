"""Ranks on clusters that somebody else started."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import ipyparallel as ipp
import pytest
from programs import add_up, kill_on, pid, raise_on, stall_on

from shardviz.core.errors import RankFailure, RanksError, RequestError
from shardviz.ranks.attached import bind
from shardviz.ranks.cluster import Ranks
from shardviz.ranks.meeting import EngineFacts


def engine(host="a", gpus=0, visible=None, cuda=True):
    return EngineFacts(host, "10.0.0.1", "2.13.0", cuda, gpus, visible)


@pytest.mark.parametrize(
    ("facts", "backend", "chosen", "on", "notice"),
    [
        ([engine(), engine()], "auto", "gloo", "cpu cpu", None),
        ([engine(gpus=2)] * 2, "auto", "nccl", "cuda:0 cuda:1", None),
        ([engine(gpus=1, visible="0"), engine(gpus=1, visible="1")], "auto", "nccl", "cuda:0 cuda:0", None),
        ([engine("a", 2), engine("b", 2), engine("a", 2), engine("b", 2)], "auto", "nccl", "cuda:0 cuda:0 cuda:1 cuda:1", None),
        ([engine(gpus=1)] * 2, "auto", "gloo", "cpu cpu", "more engines than GPUs"),
        ([engine("a", 1), engine("b", 0)], "auto", "gloo", "cpu cpu", "b has no GPU"),
        ([engine(gpus=2, cuda=False)] * 2, "auto", "gloo", "cpu cpu", "without CUDA"),
        ([engine(gpus=2)] * 2, "gloo", "gloo", "cpu cpu", None),
    ],
)
def test_which_card_each_engine_uses(facts, backend, chosen, on, notice):
    binding = bind(facts, backend)
    assert (binding.backend, " ".join(binding.devices)) == (chosen, on)
    assert binding.notice is None if notice is None else notice in str(binding.notice)


def test_nccl_that_cannot_be_had_is_refused():
    with pytest.raises(RequestError, match="a has no GPU"):
        bind([engine()], "nccl")
    with pytest.raises(RequestError, match="'mpi'"):
        bind([engine()], "mpi")


def cluster(n: int, **more: Any) -> ipp.Cluster:
    return ipp.Cluster(
        n=n,
        load_profile=False,
        delay=0,
        engine_timeout=60,
        controller_args=["--HeartMonitor.period=200"],
        shutdown_atexit=True,
        **more,
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[Any]:
    """A cluster started by hand, as ipyparallel's own guide does it."""
    before = os.environ.get("IPYTHONDIR")
    os.environ["IPYTHONDIR"] = str(tmp_path_factory.mktemp("ipython"))
    by_hand = cluster(3)
    try:
        yield by_hand.start_and_connect_sync()
    finally:
        by_hand.stop_cluster_sync()
        os.environ.pop("IPYTHONDIR")
        if before is not None:
            os.environ["IPYTHONDIR"] = before


@pytest.mark.ranks
def test_a_cluster_started_by_hand(client):
    def free() -> list[str]:
        return client[:].apply_sync(os.getcwd)

    with Ranks.attach(client, timeout=4) as ranks:
        assert ranks.apply(add_up) == [(0, 3.0), (1, 3.0), (2, 3.0)]
        assert ranks.run("[5] on tp=3: S(0)").right
        assert ranks.record(add_up).events[0].name == "all_reduce"
        with pytest.raises(RequestError, match="needs 4 ranks"):
            ranks.run("[5] on dp=2, tp=2: S(0), S(0)")
        with pytest.raises(RankFailure, match=r"^rank 1 of 3 raised ValueError"):
            ranks.apply(raise_on, 1)
        assert ranks.apply(add_up) == [(0, 3.0), (1, 3.0), (2, 3.0)]
    assert free()
    with Ranks.attach(client) as ranks:
        assert len(set(ranks.apply(pid))) == 3
    assert free()


@pytest.mark.ranks
def test_what_cannot_be_done_there_is_told(client):
    ranks = Ranks.attach(client, timeout=1)
    began = time.monotonic()
    with pytest.raises(RankFailure, match=r"ranks 0, 1, 2 of 3 did not finish in 1 s\n.*not known, on a cluster that"):
        ranks.apply(stall_on, 1)
    assert time.monotonic() - began < 15
    client.send_signal(signal.SIGINT, targets=[client.ids[1]], block=True)
    assert ranks.apply(add_up) == [(0, 3.0), (1, 3.0), (2, 3.0)]
    with pytest.raises(RanksError, match=r"rank 2 left the cluster, and shardviz starts no engines there|EngineError"):
        ranks.apply(kill_on, 2)
    with pytest.raises(RanksError, match="rank 2 left the cluster, and shardviz starts no engines there: attach again"):
        ranks.apply(add_up)
    with Ranks.attach(client, timeout=10) as fewer:
        assert fewer.apply(add_up) == [(0, 1.0), (1, 1.0)]


def test_a_cluster_without_engines_is_refused():
    class Empty:
        ids: tuple[int, ...] = ()

    with pytest.raises(RequestError, match="no engines"):
        Ranks.attach(Empty())


@pytest.mark.clusters
def test_a_cluster_started_by_mpiexec(monkeypatch, tmp_path):
    assert shutil.which("mpiexec"), "this test needs mpiexec and mpi4py"
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    by_mpi = cluster(4, engines="mpi")
    by_mpi.config.MPIEngineSetLauncher.mpi_args = ["--oversubscribe", "--allow-run-as-root"]
    by_mpi.config.MPIEngineSetLauncher.engine_cmd = [sys.executable, "-m", "ipyparallel.engine"]
    try:
        with Ranks.attach(by_mpi.start_and_connect_sync(), timeout=20) as ranks:
            assert ranks.apply(add_up) == [(rank, 6.0) for rank in range(4)]
            assert ranks.apply(os.getenv, "OMPI_COMM_WORLD_RANK") == ["0", "1", "2", "3"]
            assert ranks.run("[5] on dp=2, tp=2: _S(0, 2), S(0)").right
    finally:
        by_mpi.stop_cluster_sync()
