"""Fixtures of the tests of checkpoints."""

from collections.abc import Iterator
from functools import partial

import pytest

from shardviz.ranks.cluster import Ranks
from tests.checks import saved


@pytest.fixture
def checkpoint_verb(shardviz):
    """Run `shardviz checkpoint` in this process; its exit status, standard output and standard error."""
    return partial(shardviz, "checkpoint")


@pytest.fixture
def whole(tmp_path):
    return saved.save(tmp_path / "whole")


@pytest.fixture(scope="session")
def nine_ranks() -> Iterator[Ranks]:
    """Nine running ranks, for meshes of three by three."""
    with Ranks(9) as ranks:
        yield ranks
