"""A remote kernel in Jupyter's picker: a kernelspec whose cells run in a job."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["RemoteKernel"]


class RemoteKernel(Struct, frozen=True, kw_only=True):
    """One that is on disk, or that would be."""

    name: str
    """Jupyter's name for it."""
    display_name: str
    """Its title in launcher and picker."""
    words: tuple[str, ...]
    """Its job's options, as typed after `kernel add`."""
    cluster: str | None = None
    """None: its words are no longer valid."""
    exists: bool = True
    """Whether a kernel of that name is on disk."""
