"""Real ranks: started, used, broken in every way we know, and gone afterwards."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import ipyparallel as ipp
import nbclient
import nbformat
import psutil
import pytest
from programs import add_up, differ, exit_on, kill_on, pid, raise_on, raise_on_a_spec, stall_on, warn

from shardviz.core.errors import RankFailure, RanksError, RequestError
from shardviz.core.spec import parse
from shardviz.ranks import fleet
from shardviz.ranks.cluster import Ranks

pytestmark = pytest.mark.ranks

# The promises are a third of these: a busy machine is no fault.
CONTROL_BACK = 15.0
STOPPED = 15.0
NOTHING_LEFT = 30.0


def processes_of_ours() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if alive(p)]


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    until = time.monotonic() + seconds
    while (left := [p for p in processes if alive(p)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def works_again(ranks: Ranks) -> bool:
    return ranks.apply(add_up) == [(rank, sum(range(ranks.n))) for rank in range(ranks.n)]


# Use


def test_results_come_in_rank_order(four_ranks: Ranks):
    assert four_ranks.apply(add_up, x=1) == [(0, 10.0), (1, 10.0), (2, 10.0), (3, 10.0)]
    assert four_ranks.backend == "gloo"
    assert four_ranks.devices == ("cpu",) * 4
    assert four_ranks.running


def test_one_process_per_rank_and_the_same_ones_again(four_ranks: Ranks):
    first = four_ranks.apply(pid)
    assert len(set(first)) == 4
    assert four_ranks.apply(pid) == first


def test_the_torch_of_the_ranks_is_the_one_reported(four_ranks: Ranks):
    import torch

    assert four_ranks.torch == torch.__version__


def test_eight_ranks(eight_ranks: Ranks):
    assert works_again(eight_ranks)


def test_a_closure_and_its_captured_values(four_ranks: Ranks):
    offset = 10
    assert four_ranks.apply(lambda x: x + offset, 1) == [11] * 4


def test_inside_a_running_event_loop(four_ranks: Ranks):
    async def cell():
        return four_ranks.apply(add_up)

    assert len(asyncio.run(cell())) == 4


def test_from_a_worker_thread(four_ranks: Ranks):
    results = []
    thread = threading.Thread(target=lambda: results.extend(four_ranks.apply(add_up)))
    thread.start()
    thread.join(60)
    assert len(results) == 4


def test_nothing_the_ranks_say_reaches_the_user(four_ranks: Ranks, capfd):
    four_ranks.apply(warn)
    time.sleep(0.2)
    assert capfd.readouterr() == ("", "")


def test_every_socket_is_on_loopback_and_every_file_private(four_ranks: Ranks):
    four_ranks.apply(add_up)
    addresses = {
        connection.laddr.ip
        for process in processes_of_ours()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}
    for directory in Path(tempfile.gettempdir()).glob("shardviz-*"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_two_notebooks_at_once_each_with_a_function_of_a_cell():
    cells = (
        "from shardviz.ranks.cluster import Ranks\nimport math\nranks = Ranks(2).start()",
        "def half(x):\n    print('quiet')\n    return math.floor(x / 2)",
        "ranks.apply(half, 9)",
        "ranks.stop()",
    )

    def execute(_number: int) -> list[str]:
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbclient.NotebookClient(notebook, timeout=120).execute()
        return [output.data["text/plain"] for cell in notebook.cells for output in cell.outputs]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(execute, range(2))) == [["[4, 4]"], ["[4, 4]"]]


# Faults


@pytest.mark.parametrize("error", [ValueError, MemoryError, SystemExit, KeyboardInterrupt])
def test_a_rank_that_raises_is_named_first(four_ranks: Ranks, error):
    four_ranks.apply(pid)
    began = time.monotonic()
    with pytest.raises(RankFailure, match=rf"^rank 2 of 4 raised {error.__name__}: the shards do not fit") as caught:
        four_ranks.apply(raise_on, 2, error)
    assert time.monotonic() - began < CONTROL_BACK
    assert caught.value.rank == 2
    assert "in raise_on" in str(caught.value)
    assert str(caught.value).endswith("3 other ranks (ranks 0, 1, 3) had not finished and were stopped")
    assert works_again(four_ranks)


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (exit_on, (1, 3), "rank 1 of 4 exited with code 3"),
        (kill_on, (1,), "rank 1 of 4 was killed by SIGKILL"),
    ],
)
def test_a_rank_that_dies_is_named_with_its_end(four_ranks: Ranks, function, arguments, says):
    four_ranks.apply(pid)
    began = time.monotonic()
    with pytest.raises(RankFailure, match=f"^{says}") as caught:
        four_ranks.apply(function, *arguments)
    assert time.monotonic() - began < CONTROL_BACK
    if function is exit_on:
        assert "last words of this rank" in str(caught.value)
    assert works_again(four_ranks)


def test_a_rank_that_dies_between_calls_is_replaced(four_ranks: Ranks):
    before = four_ranks.apply(pid)
    os.kill(before[3], signal.SIGKILL)
    wait_gone([psutil.Process(before[3])] if psutil.pid_exists(before[3]) else [], 10)
    time.sleep(0.2)
    assert works_again(four_ranks)


def test_a_rank_that_never_comes_is_named(four_ranks: Ranks):
    four_ranks.apply(pid)
    began = time.monotonic()
    with pytest.raises(RankFailure, match=r"^rank 1 of 4 did not come to the collective in 2 s") as caught:
        four_ranks.apply(stall_on, 1, timeout=2)
    assert 2 <= time.monotonic() - began < 2 + CONTROL_BACK
    assert "rank 1: in stall_on (" in str(caught.value)
    assert "ranks 0, 2, 3: waiting in all_reduce, called by stall_on (" in str(caught.value)
    assert works_again(four_ranks)


@pytest.mark.parametrize(
    ("how", "odd", "others"),
    [
        ("shape", "all_reduce (sum) of float32 [1004]", "all_reduce (sum) of float32 [4]"),
        ("dtype", "all_reduce (sum) of float64 [4]", "all_reduce (sum) of float32 [4]"),
        ("order", "broadcast of float32 [2] with root 0", "all_reduce (sum) of float32 [3]"),
    ],
)
def test_ranks_that_call_different_collectives_are_told_apart(four_ranks: Ranks, how, odd, others):
    four_ranks.apply(pid)
    began = time.monotonic()
    with pytest.raises(RankFailure) as caught:
        four_ranks.apply(differ, how, timeout=1)
    assert time.monotonic() - began < 1 + CONTROL_BACK
    assert str(caught.value).splitlines()[:3] == [
        "the ranks called different collectives, as number 1 of ranks 0–3",
        f"rank 2: {odd}",
        f"ranks 0, 1, 3: {others}",
    ]
    assert caught.value.rank == 2


def test_a_failure_tells_the_coordinate_where_a_spec_is_known(four_ranks: Ranks):
    spec = parse("[5] on dp=2, tp=2: _S(0, 2), S(0)")
    with pytest.raises(RankFailure, match=r"^rank 2 of 4 \(dp=1, tp=0\) raised ValueError"):
        four_ranks.apply(raise_on_a_spec, spec, 2)


def test_an_interrupted_call_gives_control_back(four_ranks: Ranks):
    four_ranks.apply(pid)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        four_ranks.apply(stall_on, 1)
    assert time.monotonic() - began < CONTROL_BACK
    assert "rank 1: in stall_on" in caught.value.__notes__[0]
    assert works_again(four_ranks)


def test_interrupt_from_another_thread(four_ranks: Ranks):
    four_ranks.apply(pid)
    timer = threading.Timer(0.5, four_ranks.interrupt)
    began = time.monotonic()
    timer.start()
    with pytest.raises(RanksError, match="interrupted"):
        four_ranks.apply(stall_on, 1)
    assert time.monotonic() - began < CONTROL_BACK
    assert works_again(four_ranks)


def test_a_result_that_cannot_travel_is_the_ranks_failure(four_ranks: Ranks):
    with pytest.raises(RankFailure, match=r"^rank 0 of 4 raised TypeError: cannot pickle") as caught:
        four_ranks.apply(threading.Lock)
    assert str(caught.value).endswith("3 other ranks (ranks 1, 2, 3) raised the same")


def test_a_lost_controller_costs_one_call_at_most(four_ranks: Ranks):
    four_ranks.apply(pid)
    controllers = [p for p in processes_of_ours() if "shardviz.ranks.controller" in " ".join(p.cmdline())]
    killer = threading.Timer(0.5, lambda: [p.kill() for p in controllers])
    killer.start()
    with pytest.raises(RanksError, match="controller has ended"):
        four_ranks.apply(stall_on, 1)
    assert works_again(four_ranks)


# Life and death


def test_nothing_is_left_after_stop_even_of_blocked_ranks():
    ranks = Ranks(2)
    before = set(processes_of_ours())
    ranks.start()
    started = [p for p in processes_of_ours() if p not in before]
    assert len(started) == 5  # the controller and its heart monitor, the forking process, two ranks
    errors = []

    def call():
        try:
            ranks.apply(stall_on, 1)
        except RanksError as error:
            errors.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    time.sleep(0.5)
    began = time.monotonic()
    ranks.stop()
    assert time.monotonic() - began < STOPPED
    caller.join(10)
    assert "The run was interrupted." in errors[0]
    assert not wait_gone(started, 1)
    assert not ranks.running
    ranks.stop()
    with pytest.raises(RanksError, match="not running"):
        ranks.apply(pid)


def test_two_at_once_and_an_exception_inside_with():
    before = set(processes_of_ours())
    told: list[tuple[str, float]] = []
    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        Ranks(1, progress=lambda stage, fraction: told.append((stage, fraction))) as one,
        Ranks(2) as two,
    ):
        assert one.apply(add_up) == [(0, 0.0)]
        assert two.apply(add_up) == [(0, 1.0), (1, 1.0)]
        raise ZeroDivisionError
    assert not [p for p in processes_of_ours() if p not in before]
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)


def script(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(body)], stdout=subprocess.PIPE, text=True)


SCRIPT = """
    import os, psutil, sys, time
    from shardviz.ranks.cluster import Ranks

    def twice(x):  # of this script, and so not importable
        return 2 * numpy.int64(x)

    import numpy
    ranks = Ranks(2).start()
    assert ranks.apply(twice, 21) == [42, 42]
    assert "torch" not in sys.modules
    print(ranks.apply(os.getenv, "IPYTHONDIR")[0])
    print(*[p.pid for p in psutil.Process().children(recursive=True)], flush=True)
"""


def test_nothing_is_left_of_a_killed_notebook():
    with script(SCRIPT + "    time.sleep(600)\n") as kernel:
        assert kernel.stdout is not None
        directory = kernel.stdout.readline().strip()
        started = [psutil.Process(int(number)) for number in kernel.stdout.readline().split()]
        assert len(started) == 5
        kernel.kill()
        assert not wait_gone(started, NOTHING_LEFT)
    assert not os.path.exists(directory)


def test_nothing_is_left_of_a_script_that_forgets_to_stop():
    with script(SCRIPT) as program:
        output, _ = program.communicate(timeout=120)
        directory, numbers = output.splitlines()
        started = [int(number) for number in numbers.split()]
        assert program.returncode == 0
        assert len(started) == 5
        assert not wait_gone([psutil.Process(number) for number in started if psutil.pid_exists(number)], 1)
        assert not os.path.exists(directory)


def test_a_start_that_fails_says_why_and_leaves_nothing(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('this torch is broken')")
    ranks = Ranks(2)
    before = set(processes_of_ours())
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RanksError, match="this torch is broken"):
        ranks.start()
    assert not ranks.running
    assert not [p for p in processes_of_ours() if p not in before]


def test_a_message_that_an_engine_never_got_is_sent_again(monkeypatch):
    sent = []
    apply_async = ipp.DirectView.apply_async

    def dropped_at_first(view, function, *args, **kwargs):
        sent.append((view.targets, function))
        if sent.count(sent[-1]) == 1 and function is os.getpid:
            return Future()  # which nobody ever fulfils
        return apply_async(view, function, *args, **kwargs)

    monkeypatch.setattr(ipp.DirectView, "apply_async", dropped_at_first)
    with Ranks(2) as ranks:
        assert ranks.apply(add_up) == [(0, 1.0), (1, 1.0)]
    assert sum(function is os.getpid for _, function in sent) == 4  # twice to each


def test_nowhere_to_write_is_one_clear_error(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(RanksError, match=r"could not be started: .*No such file"):
        Ranks(2).start()


def test_a_port_that_is_taken_is_one_clear_error(monkeypatch):
    before = set(processes_of_ours())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(fleet, "CONTROLLER_ARGS", [*fleet.CONTROLLER_ARGS, f"--IPController.regport={port}"])
        monkeypatch.setattr(fleet, "CONTROLLER_ATTEMPTS", 1)
        with pytest.raises(RanksError, match=r"controller of the ranks could not be started(?s:.*)Address already in use"):
            Ranks(2).start()
    assert not [p for p in processes_of_ours() if p not in before]


FULL_DISK = """
    import os, sys
    sys.path.insert(0, sys.argv[1])
    from programs import add_up, fill_the_log
    from shardviz.core.errors import RanksError
    from shardviz.ranks.cluster import Ranks

    ranks = Ranks(2)
    try:
        ranks.start()
        try:
            ranks.apply(fill_the_log)
        except RanksError as error:
            print(error)
        print(ranks.apply(add_up))
    except RanksError as error:
        print(error)
    ranks.stop()
    print([name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("shardviz")])
"""


@pytest.mark.parametrize(
    ("size", "says"),
    [pytest.param("8k", "The controller of the ranks could not", marks=pytest.mark.slow), ("1m", "rank 0 of 2 raised OSError")],
)
def test_a_full_disk_is_one_clear_error(tmp_path, size, says):
    command = f'mount -t tmpfs -o size={size} none {tmp_path} && TMPDIR={tmp_path} exec $0 -c "$2" $1'
    run = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, sys.executable, os.path.dirname(__file__), textwrap.dedent(FULL_DISK)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "unshare failed" in run.stderr or "mount" in run.stderr:
        pytest.skip(f"no small file system can be made here: {run.stderr.strip()}")
    lines = run.stdout.splitlines()
    assert lines[0].startswith(says)
    assert "No space left on device" in run.stdout
    assert lines[-1] == "[]"
    if size == "1m":  # the log that filled the disk went with its rank
        assert lines[-2] == "[(0, 1.0), (1, 1.0)]"


def test_impossible_requests_start_nothing():
    before = set(processes_of_ours())
    with pytest.raises(RequestError):
        Ranks(0)
    with pytest.raises(RequestError):
        Ranks(2, devices=["cpu"])
    with pytest.raises(RequestError, match=r"ipp.Cluster\(engines='slurm', n=4\).*Ranks.attach"):
        Ranks(4, launcher="slurm")
    assert set(processes_of_ours()) <= before


@pytest.mark.slow
@pytest.mark.parametrize("times", [20])
def test_repeated_starts_leak_nothing(monkeypatch, tmp_path, times):
    def handles() -> tuple[int, int]:
        return psutil.Process().num_fds(), threading.active_count()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Ranks(1):
        pass
    before, processes, ports = handles(), processes_of_ours(), psutil.Process().net_connections("inet")
    for _ in range(times):
        with Ranks(1) as ranks:
            ranks.apply(pid)
    files, threads = handles()
    assert files <= before[0] + 2
    assert threads <= before[1] + 1
    assert processes_of_ours() == processes
    assert len(psutil.Process().net_connections("inet")) <= len(ports)
    assert not [*tmp_path.glob("shardviz-*")]
