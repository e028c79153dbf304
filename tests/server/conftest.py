"""The server `served`, which tests of a module share, with an agent in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.served import Served, environment, memory_agent, running_server, short_home


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with short_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    """A server with a token, a password, and an agent in memory."""
    env = environment(home)
    with memory_agent(env), running_server(env, home) as started:
        yield started
