"""Fixtures of the tests of checkpoints."""

from collections.abc import Iterator

import pytest

from shardviz.cli.verbs import main
from shardviz.ranks.cluster import Ranks
from tests.checks import saved


@pytest.fixture
def shardviz(capsys):
    """Run the command line in this process; its exit status, standard output and standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["checkpoint", *map(str, arguments)])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


@pytest.fixture
def whole(tmp_path):
    return saved.save(tmp_path / "whole")


@pytest.fixture(scope="session")
def nine_ranks() -> Iterator[Ranks]:
    """Nine running ranks, for meshes of three by three."""
    with Ranks(9) as ranks:
        yield ranks
