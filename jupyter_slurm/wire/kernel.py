"""A remote kernel that can be picked in Jupyter: a kernelspec whose cells run in a job."""

from __future__ import annotations

from msgspec import Struct


class RemoteKernel(Struct, frozen=True, kw_only=True):
    """One that is on disk, or that would be."""

    name: str
    """What Jupyter calls it."""
    display_name: str
    """Its title in launcher and picker."""
    words: tuple[str, ...]
    """What its job asks for, as it is typed after `kernel add`."""
    cluster: str | None = None
    """None: its words cannot be read any more."""
    exists: bool = True
    """Whether one of that name is on disk."""
