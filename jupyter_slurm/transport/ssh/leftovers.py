"""What a connection that is lost has left over there: processes, until the host itself notices.

sshd does so after minutes, or never; the next login to the same machine ends them. Which they are
is kept here; `shell/far_shell.py` finds them out, and ends them.
"""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

from jupyter_slurm.transport.ssh.mux import Link

_MOST = 64
"""The most that are kept: of many machines behind one name, one may never be seen again."""


class RemoteProcess(NamedTuple):
    """So that no other is taken for it: numbers are given again, also to somebody else's, and one
    name may lead to several machines."""

    boot: str
    """Linux's id of the time for which the machine has run since it was started."""
    pid: int
    began: int
    """When it did, in clock ticks since then."""
    leads: bool
    """The process leads a group, and stands for all of it."""


class LeftoverProcesses:
    """The leftovers of one connection, whatever its logins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[RemoteProcess, weakref.ref[Link]] = {}

    def began(self, process: RemoteProcess, link: Link) -> None:
        """Note a process that ends with this login."""
        with self._lock:
            self._known[process] = weakref.ref(link)
            while len(self._known) > _MOST:
                del self._known[next(iter(self._known))]

    def channel_closed(self, process: RemoteProcess) -> None:
        """Forget a process that its closed channel has ended, where its login stands."""
        with self._lock:
            link = self._known.get(process)
            if link is not None and _stands(link()):
                del self._known[process]

    def ended(self, process: RemoteProcess) -> None:
        with self._lock:
            self._known.pop(process, None)

    def lost(self) -> list[RemoteProcess]:
        """Return the processes whose login has ended."""
        with self._lock:
            return [one for one, link in self._known.items() if not _stands(link())]


def _stands(link: Link | None) -> bool:
    return link is not None and link.alive
