"""Addresses, free ports and messages for the launch of a job on many nodes (launch.py,
launch_node.py).

Runs on the cluster, Python 3.6 and later, standard library only.
"""

import array
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import random
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple

MOST_BYTES = 1 << 20
"""Maximum size of a message."""
SIOCGIFCONF, SIOCGIFADDR = 0x8912, 0x8915
IFREQ_BYTES = 40
MOST_INTERFACES = 256
LOWEST_PORT = 20000
"""The lowest port to use. Ray's workers and well-known services use ports below it."""
MOST_TRIES = 200
"""Maximum number of ports to try, because shuffling all ports takes 10 ms."""


def addresses(wanted: "Optional[str]") -> "List[str]":
    """Return this machine's IPv4 addresses, or the address of the interface `wanted`. Loopback is
    last, because it works only if all nodes are one machine. Raise OSError if the interface does
    not exist.
    """
    if wanted:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            name = struct.pack("256s", wanted.encode()[:15])
            return [socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, name)[20:24])]
    found = [address for _, address in interfaces()]
    return sorted(found, key=lambda address: address.startswith("127."))


def interfaces() -> "List[Tuple[str, str]]":
    """Return the names and IPv4 addresses of this machine's network interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # A struct ifconf holds the size and the address of a buffer (netdevice(7)).
        memory = array.array("B", bytes(IFREQ_BYTES * MOST_INTERFACES))
        conf = struct.pack("iP", len(memory), memory.buffer_info()[0])
        filled = struct.unpack("iP", fcntl.ioctl(probe, SIOCGIFCONF, conf))[0]
    data = memory.tobytes()[:filled]
    entries = [data[at : at + IFREQ_BYTES] for at in range(0, filled, IFREQ_BYTES)]
    return [
        (one[:16].partition(b"\0")[0].decode("ascii", "replace"), socket.inet_ntoa(one[20:24]))
        for one in entries
    ]


def password(job_dir: str) -> str:
    """Return the password that the job's programs share."""
    with open(os.path.join(job_dir, "key"), "rb") as file:
        return hmac.new(file.read().strip(), b"launch", hashlib.sha256).hexdigest()


def machine() -> str:
    """Return an ID of the network namespace that this program uses."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip() + os.readlink("/proc/self/ns/net")


def free_port() -> int:
    """Return a free port below Linux's local range (ip(7)). The kernel uses that range for outgoing
    connections, so another program could take such a port before the engine."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    ports = range(LOWEST_PORT, first if first > LOWEST_PORT else 1 << 16)
    for port in random.sample(ports, min(MOST_TRIES, len(ports))):
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("", port))
            return port
    raise OSError("no port is free")


def keep_alive(sock: socket.socket) -> None:
    """Make the connection detect a lost machine within about 20 s."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probes = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    # The probes stop while sent data is unacknowledged, so set TCP_USER_TIMEOUT as well.
    for name, value in probes + (("TCP_USER_TIMEOUT", 20000),):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def send(sock: socket.socket, message: "Dict[str, Any]") -> bool:
    """Send a message as a line of JSON. Return False if the connection is closed."""
    try:
        sock.sendall(json.dumps(message).encode("ascii") + b"\n")
    except OSError:
        return False
    return True


def receive(file: "Any") -> "Optional[Dict[str, Any]]":
    """Wait for the next message. Return None if the connection is closed or the message is
    invalid."""
    try:
        found = json.loads(file.readline(MOST_BYTES).decode("ascii"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def close(sock: socket.socket) -> None:
    """Close a socket, and wake a thread in `accept` or `recv`."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
