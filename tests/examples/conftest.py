"""Sites for the examples, each of one test's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import rooms
from tests.cluster.dressed import Dress, Dressed, make_dressed
from tests.ssh.accounts import make_folder
from tests.ssh.kept import Keeper, keeping


@pytest.fixture
def site_keeper() -> Iterator[Keeper]:
    """What a site runs; it is gone after the test, whatever happens."""
    if os.geteuid() != 0 or not rooms.possible():
        pytest.skip("Only root can mount what a site has, where the machine lets it.")
    with keeping() as keeper:
        yield keeper


@pytest.fixture
def site_folder(site_keeper: Keeper) -> Path:
    """For what a site has; its users may look into it."""
    return make_folder(site_keeper, "site-")


@pytest.fixture
def dressed(site_keeper: Keeper) -> Callable[[Dress], Dressed]:
    """A factory; everything of a site runs when it returns."""

    def make(dress: Dress) -> Dressed:
        return make_dressed(site_keeper, make_folder(site_keeper, "site-") / "s", dress)

    return make
