"""Waiting for what happens soon, elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    true: Callable[[], object], limit_s: float = 120, seen: Callable[[], object] = lambda: ""
) -> None:
    """Fails the test when that takes too long, and tells what is `seen` then.

    The pause between looks grows with the time that a look takes and the time that has passed: a
    test that runs a program to look leaves the processor to what it waits for.
    """
    first_s = began_s = time.monotonic()
    while not true():
        now_s = time.monotonic()
        waited_s = now_s - first_s
        assert waited_s < limit_s, f"still not so after {limit_s:g} s\n{seen()}"
        time.sleep(max(0.02, 2 * (now_s - began_s), min(waited_s / 10, 0.2)))
        began_s = time.monotonic()
