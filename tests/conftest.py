"""Fixtures that all tests share."""

from collections.abc import Iterator

import pytest

from shardviz.ranks.cluster import Ranks


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
