"""Waiting for what happens soon, elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    true: Callable[[], bool], limit_s: float = 120, seen: Callable[[], object] = lambda: ""
) -> None:
    """Fails the test when that takes too long, and tells what is `seen` then."""
    deadline_s = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline_s, f"still not so after {limit_s:g} s\n{seen()}"
        time.sleep(0.02)
