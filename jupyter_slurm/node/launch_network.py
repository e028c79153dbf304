"""The network of a job on many nodes: addresses, free ports, and lines of JSON between the launcher
(launch.py) and its program on each node (launch_node.py).

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
"""Limits the length of a line."""
SIOCGIFCONF, SIOCGIFADDR = 0x8912, 0x8915
IFREQ_BYTES = 40
MOST_INTERFACES = 256
LOWEST_PORT = 20000
"""Ray's workers and many well-known services use ports below it."""


def addresses(wanted: "Optional[str]") -> "List[str]":
    """Return this machine's IPv4 addresses, loopback last: it serves jobs whose nodes are one
    machine. `wanted`: the only interface to use; None: all. Raise OSError when it does not
    exist."""
    if wanted:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            name = struct.pack("256s", wanted.encode()[:15])
            return [socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, name)[20:24])]
    found = [address for _, address in interfaces()]
    return sorted(found, key=lambda address: address.startswith("127."))


def interfaces() -> "List[Tuple[str, str]]":
    """Return the name and the IPv4 address of each of this machine's network interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # netdevice(7): a struct ifconf holds the size and the address of a buffer.
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
    """Return a word by which the launcher knows the programs of its own job."""
    with open(os.path.join(job_dir, "key"), "rb") as file:
        return hmac.new(file.read().strip(), b"launch", hashlib.sha256).hexdigest()


def machine() -> str:
    """Return an ID that two programs share only if they use the same network."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip() + os.readlink("/proc/self/ns/net")


def free_port() -> int:
    """Return a free port below Linux's local range (ip(7)), from which the kernel gives ports to
    outgoing connections: another program seldom takes it before the engine does."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    ports = range(LOWEST_PORT, first if first > LOWEST_PORT else 1 << 16)
    for port in random.sample(ports, len(ports)):
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("", port))
            return port
    raise OSError("no port is free")


def keep_alive(sock: socket.socket) -> None:
    """Notice within about 20 s that the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def send(sock: socket.socket, message: "Dict[str, Any]") -> bool:
    """Send a line; return False when the connection is gone."""
    try:
        sock.sendall(json.dumps(message).encode("ascii") + b"\n")
    except OSError:
        return False
    return True


def receive(file: "Any") -> "Optional[Dict[str, Any]]":
    """Wait for the next line and return it; None: the connection is gone, or that was no line of
    ours."""
    try:
        found = json.loads(file.readline(MOST_BYTES).decode("ascii"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def close(sock: socket.socket) -> None:
    """Close a socket, and wake the thread that waits in `accept` or `recv`."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
