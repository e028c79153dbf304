"""A login one hop beyond a cluster's own, onto a node, for the connections that go through it.

Nobody is ever asked anything for it: where the node wants more than a key that is at hand, or
nobody has vouched for its host key, this login fails. What it is for is known above.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import paramiko

from jupyter_slurm.errors import ConfigError, ConnectionLostError, ForwardError, TransportError
from jupyter_slurm.transport.ask import nobody
from jupyter_slurm.transport.connect_callbacks import Greeting
from jupyter_slurm.transport.connection.hops import OpenHop, link
from jupyter_slurm.transport.login.private_keys import UnlockedKeys
from jupyter_slurm.transport.ssh_config import Hop, route

_CONNECT_S = 8.0
_OPEN_S = 20.0
_REFUSED_FOR_S = 600.0
"""A node that has refused is not asked again so soon: hosts count failed logins."""


class NodeLogin:
    """`previous`: the cluster's own login as it is now; None: it is lost.
    `port`: of the node's sshd; None: what
    the user's configuration says."""

    def __init__(
        self, node: str, previous: Callable[[], OpenHop | None], port: int | None = None
    ) -> None:
        self._node = node
        self._port = port
        self._previous = previous
        self._lock = threading.Lock()
        self._link: OpenHop | None = None
        self._refused: TransportError | ConfigError | None = None
        self._refused_at_s = 0.0

    def carry(
        self, sock: socket.socket, host: str, port: int, greeting: Greeting | None = None
    ) -> None:
        """Connect as `Transport.carry` does, seen from the node, but wait. ForwardError: also for
        want of a login; `sock` is as it was."""
        try:
            self._standing().transport.carry(sock, host, port, _OPEN_S, greeting)
        except (paramiko.ChannelException, TimeoutError) as exc:
            raise ForwardError(
                "{host}:{port} cannot be reached from {node}.",
                detail=str(exc) or None,
                host=host,
                port=port,
                node=self._node,
            ) from exc
        except ConnectionLostError as exc:
            raise ForwardError("The login on {node} has ended.", node=self._node) from exc

    def close(self) -> None:
        with self._lock:
            standing, self._link = self._link, None
        if standing is not None:
            standing.close()

    def _standing(self) -> OpenHop:
        with self._lock:
            if self._link is not None and self._link.alive:
                return self._link
            if self._link is not None:
                self._link.close()
                self._link = None
            refused_s = time.monotonic() - self._refused_at_s
            if self._refused is not None and refused_s < _REFUSED_FOR_S:
                raise _unusable(self._node, self._refused)
            previous = self._previous()
            if previous is None:
                raise ForwardError("The cluster's own login is lost.")
            try:
                self._link = self._log_in(previous)
            except (TransportError, ConfigError) as exc:
                if previous.alive:
                    self._refused, self._refused_at_s = exc, time.monotonic()
                raise _unusable(self._node, exc) from exc
            return self._link

    def _log_in(self, previous: OpenHop) -> OpenHop:
        hop = _hop(self._node, self._port, previous.hop)
        return link(hop, previous, nobody, UnlockedKeys(), lambda transport: None)


def _hop(node: str, port: int | None, login: Hop) -> Hop:
    """Return what the user's configuration says of the node, with the keys that opened the cluster
    too; it is reached from there, whatever way the configuration knows."""
    own = route(node, user=login.user, port=port, jump=("none",))[-1]
    return replace(
        own,
        identity_files=tuple(dict.fromkeys((*login.identity_files, *own.identity_files))),
        certificate_files=tuple(dict.fromkeys((*login.certificate_files, *own.certificate_files))),
        identities_only=login.identities_only or own.identities_only,
        known_hosts=tuple(dict.fromkeys((*own.known_hosts, *login.known_hosts))),
        proxy_command=None,
        control_path=None,
        connect_timeout_s=min(_CONNECT_S, own.connect_timeout_s),
    )


def _unusable(node: str, error: TransportError | ConfigError) -> ForwardError:
    return ForwardError(
        "There is no login on {node} without a question.", detail=str(error.message), node=node
    )
