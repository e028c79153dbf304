"""The server that these tests attack, as in tests/server."""

from __future__ import annotations

from tests.server.conftest import home, served  # noqa: F401 - fixtures
