from __future__ import annotations

import pytest


@pytest.fixture
def count(pytestconfig: pytest.Config) -> int:
    """Return how many hostile inputs each reader gets: a tenth where the answer is wanted fast."""
    return 1_000 if pytestconfig.getoption("fast") else 10_000
