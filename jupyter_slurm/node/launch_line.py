"""The lines between the launcher of a job on many nodes (launch.py) and its parts (launch_part.py).

Runs on the cluster, Python 3.6 and later, standard library only. Everybody who can reach a node can
connect to a port there. So each side of a connection first proves that it has the job's key, which
travels in no direction: it sends 32 random bytes, and then the HMAC-SHA256 of its own and the other
side's. After that come messages, each a frame (framing.py) with JSON. What
launcher, parts and engines ask of a node for that is here too: its addresses, a port that stays
free.
"""

import array
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import random
import re
import socket
import struct

import framing

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple  # noqa: F401 - in comments

MESSAGE = b"M"
PASSED_ON = "\1"
"""Begins a line on which a part hands on what a program has said, which may be another srun."""
MOST_BYTES = 4 << 20
"""The size of the longest message: the names and addresses of all nodes."""
RANDOM_BYTES = 32
PROOF_BYTES = 32
SHAKE_S = 5.0
"""How long the other side has to prove itself."""
SIOCGIFCONF, SIOCGIFADDR = 0x8912, 0x8915
IFREQ_BYTES = 40
MOST_INTERFACES = 256
LOWEST_PORT = 20000
"""Below it are the ports of Ray's workers, and of what many programs agree on."""


class StrangerError(Exception):
    """What is at the other end does not have the job's key."""


class Line(object):
    """A connection to another program of the same job; blocking."""

    def __init__(self, sock, key, side):
        # type: (socket.socket, bytes, bytes) -> None
        """Prove and check the key. Raise StrangerError, or OSError when it cannot be said or heard.
        `side` is b"launcher" or b"part": what is said by one cannot be said back to it."""
        sock.settimeout(SHAKE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other = b"part" if side == b"launcher" else b"launcher"
        own = os.urandom(RANDOM_BYTES)
        sock.sendall(own)
        theirs = receive(sock, RANDOM_BYTES)
        sock.sendall(hmac.new(key, side + own + theirs, hashlib.sha256).digest())
        expected = hmac.new(key, other + theirs + own, hashlib.sha256).digest()
        if not hmac.compare_digest(receive(sock, PROOF_BYTES), expected):
            raise StrangerError("what answers there does not belong to this job")
        sock.settimeout(None)
        self.sock = sock

    def send(self, message):
        # type: (Dict[str, Any]) -> bool
        """Send a message; return False when the other side has gone."""
        try:
            self.sock.sendall(framing.frame(MESSAGE, json.dumps(message).encode("ascii")))
        except OSError:
            return False
        return True

    def read(self):
        # type: () -> Optional[Dict[str, Any]]
        """Wait for the next message; return None when the other side has gone."""
        try:
            head = receive(self.sock, framing.HEAD.size)
            kind, size = framing.HEAD.unpack(head)
            if kind != MESSAGE or size > MOST_BYTES:
                return None
            message = json.loads(receive(self.sock, size).decode("ascii"))
        except (OSError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def keep_alive(self):
        # type: () -> None
        """Notice within about 20 s that the other machine has gone without a word."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            option = getattr(socket, name, None)
            if option is not None:
                self.sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def close(self):
        # type: () -> None
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


class Part(object):
    """The program on one node (launch_part.py), as the launcher knows it."""

    def __init__(self, hello, line):
        # type: (Dict[str, Any], Line) -> None
        self.index = int(hello["index"])
        self.name = str(hello["name"])
        self.address = str(hello["address"])
        self.port = int(hello["port"])
        self.cpus = int(hello["cpus"])
        self.gpus = int(hello["gpus"])
        self.machine = str(hello["machine"])
        self.line = line
        self.code = None  # type: Optional[int]
        """How the engine's program ended there; None: it has not."""
        self.tail = ""
        self.gone = False


def receive(sock, size):
    # type: (socket.socket, int) -> bytes
    """Receive `size` bytes. Raise OSError when the other side closes before."""
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise OSError("the connection was closed")
        data += more
    return data


def read_key(job_dir):
    # type: (str) -> bytes
    with open(os.path.join(job_dir, "key"), "rb") as file:
        return hmac.new(file.read().strip(), b"launch", hashlib.sha256).digest()


def machine():
    # type: () -> str
    """Return what is the same for two programs only if they share one network."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip() + os.readlink("/proc/self/ns/net")


def addresses(wanted):
    # type: (Optional[str]) -> List[str]
    """Return this machine's IPv4 addresses, loopback last, for a job whose nodes are one machine.
    `wanted`: the name of the one interface to use, or None. Raise OSError when there is no such
    interface."""
    if wanted:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            name = struct.pack("256s", wanted.encode()[:15])
            return [socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, name)[20:24])]
    found = [address for _, address in interfaces()]
    return sorted(found, key=lambda address: address.startswith("127."))


def interfaces():
    # type: () -> List[Tuple[str, str]]
    """Return the name and the IPv4 address of each of this machine's network interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # netdevice(7): a struct ifconf of the memory's size and its place.
        memory = array.array("B", bytes(IFREQ_BYTES * MOST_INTERFACES))
        conf = struct.pack("iP", len(memory), memory.buffer_info()[0])
        filled = struct.unpack("iP", fcntl.ioctl(probe, SIOCGIFCONF, conf))[0]
    data = memory.tobytes()[:filled]
    entries = [data[at : at + IFREQ_BYTES] for at in range(0, filled, IFREQ_BYTES)]
    return [
        (one[:16].partition(b"\0")[0].decode("ascii", "replace"), socket.inet_ntoa(one[20:24]))
        for one in entries
    ]


def expand(nodelist):
    # type: (str) -> List[str]
    """Return the names in a list of Slurm's, `n[1-3,07],login` (no `scontrol` is needed for it)."""
    names = []  # type: List[str]
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist):
        made = [""]
        for text, numbers in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            ends = [text] if text else [one for run in numbers.split(",") for one in _run(run)]
            made = [beginning + end for beginning in made for end in ends]
        names += made
    return names


def _run(run):
    # type: (str) -> List[str]
    first, _, last = run.partition("-")
    if not last:
        return [first]
    return ["%0*d" % (len(first), number) for number in range(int(first), int(last) + 1)]


def named(names):
    # type: (List[str]) -> str
    shown = ", ".join(names[:8]) + (" and %d more" % (len(names) - 8) if len(names) > 8 else "")
    return shown or "a node"


def read_json(path):
    # type: (str) -> Optional[Dict[str, Any]]
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def free_port():
    # type: () -> int
    """Return a port that nobody takes before whoever is given it does: Linux gives those who ask
    for any port, or open a connection, none below its local range (ip(7))."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    ports = range(LOWEST_PORT, first if first > LOWEST_PORT else 1 << 16)
    for port in random.sample(ports, len(ports)):
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("", port))
            return port
    raise OSError("no port is free")


def shut(listener):
    # type: (socket.socket) -> None
    """Close a listener, and let the thread return that waits in `accept`."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
