"""Waiting for what happens soon, elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    true: Callable[[], bool], limit_s: float = 120, seen: Callable[[], object] = lambda: ""
) -> None:
    """Fails the test when that takes too long, and tells what is `seen` then.

    The pause is as long as a look, so that waiting takes half of a core at most.
    """
    deadline_s = (began_s := time.monotonic()) + limit_s
    while not true():
        now_s = time.monotonic()
        assert now_s < deadline_s, f"still not so after {limit_s:g} s\n{seen()}"
        time.sleep(max(0.02, now_s - began_s))
        began_s = time.monotonic()
