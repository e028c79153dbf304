"""Waiting for what happens soon, elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    true: Callable[[], bool], limit_s: float = 120, seen: Callable[[], object] = lambda: ""
) -> None:
    """Fails the test when that takes too long, and tells what is `seen` then.

    The pause is twice as long as a look, or a tenth of what was waited: who runs a program to look
    takes little from what is waited for, and comes a tenth late at most.
    """
    first_s = began_s = time.monotonic()
    while not true():
        now_s = time.monotonic()
        waited_s = now_s - first_s
        assert waited_s < limit_s, f"still not so after {limit_s:g} s\n{seen()}"
        time.sleep(max(0.02, 2 * (now_s - began_s), min(waited_s / 10, 0.2)))
        began_s = time.monotonic()
