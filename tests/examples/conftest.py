"""Sites for the examples, one for each test."""

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
    """Yield a keeper of a site's processes. They end with the test, whatever happens."""
    if os.geteuid() != 0 or not rooms.possible():
        pytest.skip("Mounting a site's folders needs root and a machine that permits mounts.")
    with keeping() as keeper:
        yield keeper


@pytest.fixture
def site_folder(site_keeper: Keeper) -> Path:
    """Return the folder for a site's files. The site's users can read it."""
    return make_folder(site_keeper, "site-")


@pytest.fixture
def dressed(site_keeper: Keeper) -> Callable[[Dress], Dressed]:
    """Return a factory of running sites."""

    def make(dress: Dress) -> Dressed:
        return make_dressed(site_keeper, make_folder(site_keeper, "site-") / "s", dress)

    return make
