"""The routes to the node of one running job, or to Unix sockets of the login node, each made when
needed.

Which of them is tried when is `tunnels.py`'s business.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Literal

from jupyter_slurm.errors import ForwardError, JupyterSlurmError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.slurm import srun
from jupyter_slurm.transport.connect_callbacks import wait_for
from jupyter_slurm.transport.local import own_socket, splice
from jupyter_slurm.transport.relay import Relay, at_door

_REACH_S = 1.0

Route = Literal["direct", "relay"]
Verb = Callable[[socket.socket, str, int], None]
"""As `Transport.connect`, but waits: it returns when the connection stands, and raises."""


def is_loopback(host: str) -> bool:
    """Tell whether every machine means itself by `host`."""
    return host in {"localhost", "::1"} or host.startswith("127.")


def is_path(host: str) -> bool:
    """Tell whether it is the path of a Unix socket."""
    return host.startswith("/")


class NodeRoutes:
    """`slurm_id` is the job's, `node` where its batch script runs. None: the login node."""

    def __init__(self, cluster: SlurmCluster, slurm_id: str | None, node: str) -> None:
        self.cluster = cluster
        self.slurm_id = slurm_id
        self.node = node
        self._lock = threading.Lock()
        self._relay: Relay | None = None
        self._closed = False

    def verb(self, route: Route) -> Verb:
        """Return the call that carries by `route`."""
        return self._direct if route == "direct" else self._made_relay().connect

    def carry_to_door(self, sock: socket.socket, name: str) -> None:
        """Connect `sock` with the abstract socket of that name on the node, and wait. ForwardError:
        it is not there, or another user's."""
        there = self._here(name)
        if there is None:
            self._made_relay().connect(sock, *at_door(name))
        else:
            splice(sock, there)

    def prepare_door(self, name: str) -> None:
        """Return once `carry_to_door` need not wait for the relay. ForwardError: it does not
        start."""
        there = self._here(name)
        if there is None:
            self._made_relay().start()
        else:
            there.close()

    def _here(self, name: str) -> socket.socket | None:
        """Return a connection to that socket where the node is this machine."""
        return own_socket(name) if self.cluster.profile.host is None else None

    def _made_relay(self) -> Relay:
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            self._relay = self._relay or Relay(
                self._converse, self._beside, self.cluster.profile.python, self.node, self._reach
            )
            return self._relay

    def _reach(self, port: int) -> socket.socket | None:
        """Return a connection to a port of the job's node; None: there is none soon, as where a
        firewall drops what is sent there."""
        if self.slurm_id is None:
            return None
        near, far = socket.socketpair()
        answer: Future[JupyterSlurmError | None] = Future()
        answer.add_done_callback(lambda one: far.close() if one.result() else None)
        self.cluster.transport.connect(far, self.node, port, answer.set_result)
        with suppress(TimeoutError):
            if answer.result(_REACH_S) is None:
                return near
        near.close()
        return None

    def close(self) -> None:
        """End what goes through the relay."""
        with self._lock:
            self._closed = True
            relay = self._relay
        if relay is not None:
            relay.close()

    def _direct(self, sock: socket.socket, host: str, port: int) -> None:
        seen = self.node if is_loopback(host) else host
        wait_for(partial(self.cluster.transport.connect, sock, seen, port))

    def _converse(self, argv: Sequence[str]) -> socket.socket:
        if self.slurm_id is None:
            return self.cluster.transport.open_stream(argv)
        return self.cluster.open_stream("srun", argv)

    def _beside(self, argv: Sequence[str]) -> Sequence[str]:
        if self.slurm_id is None:
            return argv
        version = self.cluster.srun_version()
        return srun.beside_argv(self.slurm_id, argv, node=self.node, version=version)
