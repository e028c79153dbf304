"""Waits for conditions that other processes fulfil."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    true: Callable[[], object], limit_s: float = 120, seen: Callable[[], object] = lambda: ""
) -> None:
    """Wait for a condition. On timeout, fail the test with the value of `seen`.

    The pause between checks grows with their duration and the elapsed time, so that a check that
    runs a program does not slow down the awaited process.
    """
    first_s = began_s = time.monotonic()
    while not true():
        now_s = time.monotonic()
        waited_s = now_s - first_s
        assert waited_s < limit_s, f"the condition is not met after {limit_s:g} s\n{seen()}"
        time.sleep(max(0.02, 2 * (now_s - began_s), min(waited_s / 10, 0.2)))
        began_s = time.monotonic()
