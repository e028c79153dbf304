"""The hops that stand, one behind the other: completed, shortened, taken down.

Knows no states and no waiting; a login that goes on in one thread can be ended from another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from jupyter_slurm.errors import TransportError
from jupyter_slurm.transport.ask import Ask
from jupyter_slurm.transport.connection import openssh
from jupyter_slurm.transport.connection.hops import OpenHop, link
from jupyter_slurm.transport.login.private_keys import UnlockedKeys
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_transport import SharedTransport
from jupyter_slurm.wire import together


class Chain:
    """`hint`: what to look at when the first hop cannot be reached."""

    def __init__(self, hops: Sequence[Hop], hint: str) -> None:
        self._hops = tuple(hops)
        self._hint = hint
        self._lock = threading.Lock()
        self._links: tuple[OpenHop, ...] = ()
        self._unlocked = UnlockedKeys()

    @property
    def links(self) -> tuple[OpenHop, ...]:
        """The links, the nearest first."""
        return self._links

    @property
    def stands(self) -> bool:
        """Tell whether it stands up to the last hop, as far as is known."""
        links = self._links
        return bool(links) and links[-1].hop is self._hops[-1] and all(one.alive for one in links)

    def complete(self, ask: Ask, begun: Callable[[SharedTransport], None]) -> bool:
        """Log in to what is missing, and keep what still answers. `begun` is called with each new
        transport before it is used. False: nothing was missing. TransportError."""
        broken = next((i for i, one in enumerate(self._links) if one.ping() is None), None)
        if broken is not None:
            end(self.take(broken))
        before = self._links
        if not before:
            self._add(self._from_openssh())
        links = self._links
        for hop in self._hops[self._hops.index(links[-1].hop) + 1 if links else 0 :]:
            previous = self._links[-1] if self._links else None
            try:
                self._add(link(hop, previous, ask, self._unlocked, begun))
            except TransportError as exc:
                if previous is None and self._hint and type(exc) is TransportError:
                    exc.hint = together(self._hint, exc.hint)
                raise
        return self._links != before

    def take(self, first: int = 0) -> tuple[OpenHop, ...]:
        """Take out the links from `first` on, for `end`. Do not wait."""
        with self._lock:
            gone, self._links = self._links[first:], self._links[:first]
        return gone

    def forget(self) -> None:
        """Forget all keys."""
        self._unlocked.clear()

    def _add(self, made: OpenHop | None) -> None:
        if made is not None:
            with self._lock:
                self._links = (*self._links, made)

    def _from_openssh(self) -> OpenHop | None:
        """Return the hop nearest to the cluster that OpenSSH has an open master for."""
        for hop in reversed(self._hops):
            transport = openssh.attach(hop)
            if transport is not None:
                return OpenHop(hop, transport, needs_person=True, sessions=True, stream=None)
        return None


def end(links: Sequence[OpenHop]) -> None:
    """Close the links, and tell the calls that wait in them."""
    for one in reversed(links):
        one.close()
