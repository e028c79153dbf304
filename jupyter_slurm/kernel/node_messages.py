"""PURE. What `node/kernel.py` tells of itself, read: its welcome, and what happens to its kernel.

It comes from a cluster, so that whatever is not as it should be is a MalformedError, a ValueError.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jupyter_slurm.foreign import read_json


class Welcome(msgspec.Struct, frozen=True):
    """The first message on a line."""

    boot: str
    """Another one is another `node/kernel.py`, which knows nothing of what was before."""
    got: int
    """The number of the last message that it has from here."""
    next: int
    """The number of the next message that it will send."""
    info: dict[str, Any] | None
    """The answer to kernel_info_request; None: the kernel does not listen yet."""
    count: int
    """How often an ipykernel has been started in this job."""
    busy: bool
    packs: bool = False


class _Event(msgspec.Struct, frozen=True, tag_field="event"):
    pass


class Ready(_Event, frozen=True, tag="ready"):
    info: dict[str, Any]


class Restarting(_Event, frozen=True, tag="restarting"):
    pass


class Died(_Event, frozen=True, tag="died"):
    status: int
    """As subprocess gives it: the exit code, or minus the signal."""
    again: bool
    """Another is started."""


class LeftOut(_Event, frozen=True, tag="left out"):
    messages: int
    bytes: int


class Ending(_Event, frozen=True, tag="ending"):
    signal: str


class Warned(_Event, frozen=True, tag="signal"):
    signal: str


Event = Ready | Restarting | Died | LeftOut | Ending | Warned


def welcome(body: bytes) -> Welcome:
    return read_json(body, Welcome)


def event(body: bytes) -> Event:
    return read_json(body, Event)  # type: ignore[arg-type]  # a union is a form too
