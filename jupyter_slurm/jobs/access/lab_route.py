"""The way to the door of one lab: to its port where that can be got to, else by the relay.

A way past the relay is used only when it has been seen to lead there, which is tried beside what
is carried meanwhile: a port that nobody may come to is often one that says nothing, and nobody is
to wait for that.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jupyter_slurm.errors import ForwardError, JupyterSlurmError
from jupyter_slurm.jobs.access.lab_handshake import DoorGreeting
from jupyter_slurm.jobs.access.node_routes import NodeRoutes, Route
from jupyter_slurm.transport.connect_callbacks import Answered, call_back, wait_for
from jupyter_slurm.transport.relay import at_door

_SEEN_S = 1.0
"""Seconds to look for another way, before the relay is begun."""
_PAST_THE_RELAY: tuple[Route, ...] = ("direct", "hop")

_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """The place of a door: the name of its socket on the node, and its port's address, if it has
    one; `key` is the job's."""

    name: str
    port: tuple[str, int] | None
    key: bytes | None


class LabRoute:
    """`remember` is told the way that leads there, once that is known. `usual` is what it was told
    last of the same cluster."""

    def __init__(
        self,
        node: NodeRoutes,
        place: Place,
        usual: Route | None,
        remember: Callable[[Route], None],
    ) -> None:
        self.node = node
        self.place = place
        self._usual = usual
        self._remember = remember
        self._lock = threading.Lock()
        self._past: Route | None = None
        """The way past the relay that was seen to lead there, and has since."""
        self._looked = threading.Event()
        """Nobody looks for one just now, or it has been looked for before."""
        self._known = False
        """A look has found whether there is one."""
        self._looking = False

    def carry(self, sock: socket.socket, answered: Answered) -> None:
        """Connect `sock` to the lab; see `Carry`."""
        past = self._past
        if past is None:
            call_back(partial(self._carry_first, sock), answered)
        else:
            self._carry_past(past, sock, partial(self._passed, past, sock, answered))

    def prepare(self) -> None:
        """Return once a way stands. ForwardError: none can be made."""
        if self._found() is not None:
            return
        self.node.start_relay()
        if self._past is not None:  # seen meanwhile
            self.node.rest_relay()

    def _carry_first(self, sock: socket.socket) -> None:
        """Connect `sock` past the relay if there is such a way, else by the relay. Block; raise."""
        past = self._found()
        if past is not None:
            try:
                wait_for(partial(self._carry_past, past, sock))
            except ForwardError as exc:
                self._leads_nowhere(past, exc)
            else:
                return
        self._carry_by_relay(sock)

    def _passed(
        self, past: Route, sock: socket.socket, answered: Answered, error: JupyterSlurmError | None
    ) -> None:
        if isinstance(error, ForwardError):
            self._leads_nowhere(past, error)
            call_back(partial(self._carry_by_relay, sock), answered)
        else:
            answered(error)

    def _carry_by_relay(self, sock: socket.socket) -> None:
        self.node.verb("relay")(sock, *at_door(self.place.name))

    def _carry_past(self, route: Route, sock: socket.socket, answered: Answered) -> None:
        assert self.place.port is not None
        assert self.place.key is not None
        host, port = self.place.port
        greeting = DoorGreeting(self.place.key, host, port)
        self.node.carry_greeted(route, sock, host, port, greeting, answered)

    # --- which way it is ---

    def _found(self) -> Route | None:
        """Return the way past the relay; None: there is none, or finding it takes longer than to
        begin the relay."""
        if self.place.port is None or self.place.key is None:
            return None
        with self._lock:
            if not self._looking:
                self._looking = True
                if not self._known:
                    self._looked.clear()
                threading.Thread(target=self._look, name="way to a lab", daemon=True).start()
        # Where it was the relay the last time it is begun at once.
        self._looked.wait(0.0 if self._usual == "relay" else _SEEN_S)
        return self._past

    def _look(self) -> None:
        try:
            order = sorted(_PAST_THE_RELAY, key=lambda route: route != self._usual)
            self._past = next((route for route in order if self._leads_there(route)), None)
            self._known = True
            if self._past is not None:
                self.node.rest_relay()
            self._remember(self._past or "relay")
        except JupyterSlurmError as exc:  # the line is lost: the next connection looks again
            _log.info("the way to the lab cannot be looked for: %s", exc)
            with self._lock:
                self._looking = False
        finally:
            self._looked.set()

    def _leads_there(self, route: Route) -> bool:
        """Tell whether the lab's door answers at the end of `route`."""
        near, far = socket.socketpair()
        with near:
            try:
                wait_for(partial(self._carry_past, route, far))
            except JupyterSlurmError as exc:
                far.close()
                if not isinstance(exc, ForwardError):
                    raise
                _log.info("no way to the lab's port (%s): %s", route, exc)
                return False
        return True

    def _leads_nowhere(self, route: Route, error: ForwardError) -> None:
        """Give up this way: later connections go by the relay, until a look finds it again."""
        _log.warning("the way to the lab's port (%s) is lost: %s", route, error)
        with self._lock:
            if self._past == route:
                self._past = None
                self._looking = False
