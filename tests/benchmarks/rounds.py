"""Alternating measurements, so that other load on the machine affects all candidates alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def alternating(
    ways: Mapping[str, Callable[[], float]],
    rounds: int,
    wait: Callable[[float], object] = lambda _: None,
) -> dict[str, list[float]]:
    """Return the result of each candidate in each round, after a warm-up. Call `wait` with the
    fraction of finished rounds before each measurement."""
    for once in ways.values():
        once()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name, way in ways.items():
            wait(turn / rounds)
            taken[name].append(way())
    return taken


def seconds(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s
