"""The hops that stand, one behind the other: completed, shortened, taken down.

Knows no states and no waiting; a login that goes on in one thread can be ended from another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import cast

from jupyter_slurm.errors import TransportError
from jupyter_slurm.readable import joined
from jupyter_slurm.transport.ask import Ask
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.route import Hop, has_openssh

_PING_S = 3.0


class Chain:
    """`cluster`: the name of the one that it leads to. `hint`: what to look at when the first hop
    cannot be reached."""

    def __init__(self, cluster: str, hops: Sequence[Hop], hint: str) -> None:
        self._cluster = cluster
        self._hops = tuple(hops)
        self._hint = hint
        self._lock = threading.Lock()
        self._links: tuple[Master, ...] = ()

    @property
    def links(self) -> tuple[Master, ...]:
        """The links, the nearest first."""
        return self._links

    @property
    def stands(self) -> bool:
        """Tell whether it stands up to the last hop, as far as is known."""
        links = self._links
        return bool(links) and links[-1].hop is self._hops[-1] and all(one.alive for one in links)

    def complete(self, ask: Ask, begun: Callable[[Master], None]) -> bool:
        """Log in to what is missing, and keep what still answers. `begun` is called with each new
        link before it is used. False: nothing was missing. TransportError."""
        broken = next((i for i, one in enumerate(self._links) if one.ping(_PING_S) is None), None)
        if broken is not None:
            end(self.take(broken))
        before = self._links
        for hop in self._hops[len(before) :]:
            previous = self._links[-1] if self._links else None
            try:
                self._add(self._link(hop, previous, ask, begun))
            except TransportError as exc:
                if previous is None and self._hint and type(exc) is TransportError:
                    exc.hint = joined(self._hint, exc.hint)
                raise
        return self._links != before

    def _link(
        self, hop: Hop, previous: Master | None, ask: Ask, begun: Callable[[Master], None]
    ) -> Master:
        """Go on with what another process has left, if it answers; else log in."""
        if not has_openssh():
            # 0.15 s to import, for those who need it.
            from jupyter_slurm.transport.ssh.fallback import ParamikoLink  # noqa: PLC0415

            before = cast("ParamikoLink | None", previous)
            made = ParamikoLink.log_in(
                hop, before, ask, cast("Callable[[ParamikoLink], None]", begun)
            )
            return cast("Master", made)
        found = Master.found(self._cluster, hop, previous)
        if found is not None:
            if found.ping(_PING_S) is not None:
                return found
            found.close()
        return Master.log_in(self._cluster, hop, previous, ask, begun)

    def take(self, first: int = 0) -> tuple[Master, ...]:
        """Take out the links from `first` on, for `end`. Do not wait."""
        with self._lock:
            gone, self._links = self._links[first:], self._links[:first]
        return gone

    def _add(self, made: Master) -> None:
        with self._lock:
            self._links = (*self._links, made)


def end(links: Sequence[Master]) -> None:
    """Close the links, and tell the calls that wait in them."""
    for one in reversed(links):
        one.close()


def leave(links: Sequence[Master]) -> None:
    """Leave the links for which a person had to answer or over which a terminal runs, and those
    before them, to the next process; close the others."""
    kept = max(
        (n for n, one in enumerate(links, 1) if one.needs_person or one.has_terminal()), default=0
    )
    end(links[kept:])
    for one in links[:kept]:
        one.leave()
