"""The three routes from the login machine to the node of one running job, each made when needed.

Which of them is tried when is `tunnels.py`'s business.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.slurm import srun
from jupyter_slurm.transport.connect_callbacks import Answered, Greeting, call_back, wait_for
from jupyter_slurm.transport.relay import Relay

if TYPE_CHECKING:
    from jupyter_slurm.transport.node_login import NodeLogin

Route = Literal["direct", "hop", "relay"]
Verb = Callable[[socket.socket, str, int], None]
"""As `Transport.carry`, but waits: it returns when the connection stands, and raises."""


def is_loopback(host: str) -> bool:
    """Tell whether every machine means itself by `host`."""
    return host in {"localhost", "::1"} or host.startswith("127.")


class NodeRoutes:
    """`slurm_id` is the job's, `node` where its batch script runs."""

    def __init__(self, cluster: SlurmCluster, slurm_id: str, node: str) -> None:
        self.cluster = cluster
        self.slurm_id = slurm_id
        self.node = node
        self._lock = threading.Lock()
        self._login: NodeLogin | None = None
        self._relay: Relay | None = None
        self._closed = False

    def start_relay(self) -> None:
        """Start the relay and return once it runs. ForwardError: it does not start."""
        self._made_relay().start()

    def rest_relay(self) -> None:
        """End the relay where it carries nothing, which saves a step. Do not wait."""
        with self._lock:
            relay = self._relay
        if relay is not None:
            relay.rest()

    def verb(self, route: Route) -> Verb:
        """Return the call that carries by `route`. ForwardError: this node has no such route."""
        if route == "direct":
            return self._direct
        if route == "relay":
            return self._made_relay().carry
        return self._made_login().carry

    def carry_greeted(
        self,
        route: Route,
        sock: socket.socket,
        host: str,
        port: int,
        greeting: Greeting,
        answered: Answered,
    ) -> None:
        """Connect as `Transport.carry` does, by a route past the relay."""
        if route == "direct":
            self.cluster.transport.carry(sock, host, port, answered, greeting)
        else:
            call_back(lambda: self._made_login().carry(sock, host, port, greeting), answered)

    def _made_login(self) -> NodeLogin:
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            self._login = self._login or self._node_login()
            return self._login

    def _made_relay(self) -> Relay:
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            self._relay = self._relay or Relay(
                lambda argv: self.cluster.converse("srun", argv),
                self._beside,
                self.cluster.profile.python,
            )
            return self._relay

    def close(self) -> None:
        """End what goes through the node's login and the relay."""
        with self._lock:
            self._closed = True
            made = [one for one in (self._login, self._relay) if one is not None]
        for one in made:
            one.close()

    def _direct(self, sock: socket.socket, host: str, port: int) -> None:
        seen = self.node if is_loopback(host) else host
        wait_for(partial(self.cluster.transport.carry, sock, seen, port))

    def _node_login(self) -> NodeLogin:
        connection = self.cluster.access.connection
        if connection is None:
            raise ForwardError("The cluster is this machine: there is no login to go on from.")
        # With it comes paramiko, which users without a remote cluster need not import.
        from jupyter_slurm.transport.node_login import NodeLogin  # noqa: PLC0415

        return NodeLogin(self.node, lambda: connection.links[-1] if connection.links else None)

    def _beside(self, argv: Sequence[str]) -> Sequence[str]:
        version = self.cluster.srun_version()
        return srun.beside_argv(self.slurm_id, argv, node=self.node, version=version)
