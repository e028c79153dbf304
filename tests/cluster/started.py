"""Start of shared fixtures, with one retry and a short error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

_Made = TypeVar("_Made")


def started(what: str, start: Callable[[], _Made]) -> _Made:
    """Return the result of `start`. On failure, fail with one message without a traceback: pytest
    repeats it for every test that needs the fixture, although none of these tests has failed
    itself."""
    try:
        return start()
    except Exception as exc:
        first = _error_text(exc)
    try:
        return start()
    except Exception as exc:
        again = _error_text(exc)
    why = again if again == first else f"{first}; and once more: {again}"
    pytest.fail(f"{what} could not be started: {why}", pytrace=False)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
