"""Fixtures that all tests share: running ranks, hypothesis profiles, and the counts of the sweeps in pytest's summary."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from shardviz.cli.verbs import main
from shardviz.ranks.cluster import Ranks
from tests import leftovers

settings.register_profile("here", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("thorough", max_examples=3000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "here"))

COUNTS = pytest.StashKey[list[str]]()

RUN = leftovers.mark()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Nothing that the tests started may outlive them; where several processes test (-n 2), the one that started them looks."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counts"] = session.config.stash.get(COUNTS, [])
        return
    if left := leftovers.left_behind(RUN):
        session.config.stash.setdefault(COUNTS, []).extend(f"left behind: {line}" for line in left)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """What one of several processes counted."""
    node.config.stash.setdefault(COUNTS, []).extend(getattr(node, "workeroutput", {}).get("counts", []))


@pytest.fixture
def count(request):
    """Call it with a line to have it printed under "sweeps" at the end of the run."""
    return request.config.stash.setdefault(COUNTS, []).append


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash.get(COUNTS, [])
    if lines:
        terminalreporter.section("sweeps")
        terminalreporter.write("".join(f"{line}\n" for line in lines))


@pytest.fixture
def shardviz(capsys):
    """Run the command line in this process; its exit status, standard output and standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


@pytest.fixture(scope="session")
def four_ranks() -> Iterator[Ranks]:
    """Four running ranks, started for the first test that asks."""
    with Ranks(4) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def eight_ranks() -> Iterator[Ranks]:
    """Eight running ranks, started for the first test that asks."""
    with Ranks(8) as ranks:
        yield ranks
