"""Fixture that runs a test in every installed shell."""

from __future__ import annotations

import shutil

import pytest

from tests.transport.shell.posix import SHELLS


@pytest.fixture(params=sorted(name for name in SHELLS if shutil.which(SHELLS[name][0])))
def shell(request: pytest.FixtureRequest) -> list[str]:
    return SHELLS[request.param]
