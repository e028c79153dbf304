"""The port of a lab's door: where on the node it is, and what a visitor has to know to be let in.

Runs on the cluster, Python 3.6 and later, standard library only. Everybody who can reach the node
can connect to a port, and take it when it is free. So, before anything else, each side shows the
other that it has the key, which is derived from the job's key and travels in no direction:

    visitor  32 random bytes
    node     32 random bytes, its proof
    visitor  its proof, and at once what it came for

A proof is the HMAC-SHA256 of the side that sends it, both random strings and the port's address: a
proof from another conversation, or for another port, is not valid. The visitor's half is in
jobs/access/lab_handshake.py.
"""

import contextlib
import hashlib
import hmac
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Iterator, List, Optional  # noqa: F401 - in comments

RANDOM_BYTES = 32
PROOF_BYTES = 32
KNOCK_S = 5.0
"""How long a visitor has to show that it knows the key."""
MOST_KNOCKS = 64
"""The most visitors that knock at a time; the one that has knocked longest goes when another
comes."""


class Port(object):
    """A listener at `address`, at any free port. Raises OSError when it cannot listen there."""

    def __init__(self, address: str, key: bytes) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.listener.bind((address, 0))
            self.listener.listen(128)
        except OSError:
            self.listener.close()
            raise
        self.listener.setblocking(False)
        self.where = [address, self.listener.getsockname()[1]]
        self.key = hmac.new(key, b"door", hashlib.sha256).digest()

    def proof(self, who: bytes, visitors: bytes, own: bytes) -> bytes:
        where = "{} {}".format(*self.where).encode("ascii")
        return hmac.new(self.key, who + visitors + own + where, hashlib.sha256).digest()


class Knock(object):
    """A visitor that has not been let in yet."""

    def __init__(self, port: Port, sock: socket.socket, until_s: float) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = port
        self.sock = sock
        self.until_s = until_s
        self.heard = b""
        self.visitors = b""
        self.own = b""

    def listen(self) -> bool:
        """Read what the visitor has sent, but not beyond its part of the handshake. Return True
        when it is let in. Raise OSError when it has gone or does not know the key."""
        wanted = PROOF_BYTES if self.own else RANDOM_BYTES
        with contextlib.suppress(BlockingIOError):
            data = self.sock.recv(wanted - len(self.heard))
            if not data:
                raise OSError("it has gone")
            self.heard += data
        if len(self.heard) < wanted:
            return False
        heard, self.heard = self.heard, b""
        if self.own:
            if not hmac.compare_digest(heard, self.port.proof(b"visitor", self.visitors, self.own)):
                raise OSError("it does not know the key")
            return True
        self.visitors, self.own = heard, os.urandom(RANDOM_BYTES)
        # They fit into the kernel's buffer of a connection to which nothing was written before.
        self.sock.send(self.own + self.port.proof(b"node", heard, self.own))
        return False


def opened(key: bytes) -> "Optional[Port]":
    """Open a port at the narrowest address that visitors can reach; return None when there is
    none."""
    for address in addresses():
        with contextlib.suppress(OSError):
            return Port(address, key)
    return None


def addresses() -> "Iterator[str]":
    """Yield this node's addresses: the one that the submitting machine sees, and the one that the
    other nodes know by its name. Only these: a port at all addresses would also be open in networks
    in which nobody looks for it."""
    for host in (os.environ.get("SLURM_SUBMIT_HOST"), os.environ.get("SLURMD_NODENAME")):
        for family, kind, protocol, _, at in looked_up(host):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(at)  # says nothing (UDP), but chooses the way
                yield probe.getsockname()[0]


def looked_up(host: "Optional[str]") -> "List[Any]":
    if host:
        with contextlib.suppress(OSError, UnicodeError):
            return socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    return []
