"""Remote kernels: kernelspecs for kernels that run in a job."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["RemoteKernel"]


class RemoteKernel(Struct, frozen=True, kw_only=True):
    """A remote kernel, existing or proposed."""

    name: str
    """Jupyter's name for the kernel."""
    display_name: str
    """The title in the launcher and the kernel picker."""
    words: tuple[str, ...]
    """The job's options, as typed after `kernel add`."""
    cluster: str | None = None
    """The cluster; None if the options are no longer valid."""
    exists: bool = True
    """The kernelspec exists on disk."""
