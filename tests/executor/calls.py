"""Functions for the tests to call; the fake runs them in this process."""

from __future__ import annotations

import threading
import uuid
from typing import Any

_EVENTS: dict[str, threading.Event] = {}


class Gate:
    """A gate. The call `gate.wait` runs until the test calls `open`. Its pickle refers to the same
    gate."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        _EVENTS[self.name] = threading.Event()

    def open(self) -> None:
        _EVENTS[self.name].set()

    def wait(self, value: object = None) -> object:
        assert _EVENTS[self.name].wait(60)
        return value


class Odd(Exception):
    """An exception whose pickle cannot be read, as in many libraries."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


class Thing:
    """A value that allows weak references."""

    def method(self) -> None:
        pass


def thing(_number: int) -> Thing:
    return Thing()


def captured(*args: object, **kwargs: object) -> tuple[Any, Any]:
    return args, kwargs


def divided(one: int, other: int) -> float:
    return one / other


def odd() -> None:
    raise Odd("not", "whole")
