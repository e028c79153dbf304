"""A tunnel, compared with `ssh -L`: throughput, latency of other connections during a transfer, and
many connections at once."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.ssh_ground import NARROW, Ground, Way
from tests.benchmarks.table import Row
from tests.benchmarks.tunnel_end import BLOCK_BYTES, HEAD, take
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

ROOT = Path(__file__).parents[2]
END = Path(__file__).with_name("tunnel_end.py")

_AT_MOST = 1.15
_AT_ONCE = 100
_AT_ONCE_BYTES = 64 * 1024
_PING_BYTES = 1024
_PINGS = 150
_SETTLE_S = {"narrow": 3.0}


def tunnels(ground: Ground, way: Way, rounds: int, megabytes: int) -> list[Row]:
    with _both(ground, way) as (ours, theirs, process):
        size = megabytes * 10**6

        def compared(measure: Callable[[int], float], times: int = rounds) -> tuple[float, float]:
            taken = alternating(
                {"ours": lambda: measure(ours), "theirs": lambda: measure(theirs)}, times
            )
            return median(taken["ours"]), median(taken["theirs"])

        before_s = _cpu_s(process)
        down = compared(lambda port: _down(port, size))
        cpu_s = (_cpu_s(process) - before_s) / rounds * 10**9 / size
        up = compared(lambda port: _up(port, size))
        ping = compared(lambda port: _ping_under_load(port, way))
        many = compared(lambda port: seconds(lambda: asyncio.run(_at_once(port))))
    name = "ssh -L"
    return [
        Row(f"tunnel: {megabytes} MB down", down[0], name, down[1], _AT_MOST),
        Row(f"tunnel: {megabytes} MB up", up[0], name, up[1], _AT_MOST),
        Row("tunnel: our CPU for 1 GB down", cpu_s, "the transfer", down[0] * 10**9 / size, 0.05),
        Row("tunnel: 1 kB there and back under load", ping[0], name, ping[1], 1.2, "ms"),
        Row(f"tunnel: {_AT_ONCE} connections at once", many[0], name, many[1], 1.3),
    ]


def narrow_line(ground: Ground, rounds: int) -> list[Row]:
    """Measure how much a download delays other round trips on a narrow line."""
    with _both(ground, NARROW) as (ours, theirs, _):
        ways = {
            "ours": lambda: _ping_under_load(ours, NARROW),
            "idle": lambda: _ping(ours),
            "theirs": lambda: _ping_under_load(theirs, NARROW),
        }
        taken = alternating(ways, rounds)
    mine, idle, other = (median(taken[name]) for name in ("ours", "idle", "theirs"))
    what = "tunnel on a line of 10 MB/s: added for others"
    return [Row(what, mine - idle, "ssh -L", other - idle, _AT_MOST, "ms")]


@contextmanager
def _both(ground: Ground, way: Way) -> Iterator[tuple[int, int, psutil.Process]]:
    """Yield the local ports of our tunnel and of OpenSSH's tunnel to the same server, and our
    process."""
    with ExitStack() as stack:
        server, _ = stack.enter_context(_process([sys.executable, str(END), "serve"]))
        module = [sys.executable, "-m", "tests.benchmarks.tunnel_ours"]
        ours, process = stack.enter_context(_process([*module, way.alias, str(server)]))
        theirs = free_port()
        forward = f"127.0.0.1:{theirs}:127.0.0.1:{server}"
        argv = ground.ssh("-N", "-L", forward, "-o", "ExitOnForwardFailure=yes", way.alias)
        # The process has its own session, like a user's `ssh` in a terminal and our master: Linux
        # shares the CPU between sessions (sched_autogroup).
        stack.enter_context(_ended(subprocess.Popen(argv, start_new_session=True)))
        wait_until(lambda: _answers(theirs))
        yield ours, theirs, process


@contextmanager
def _process(argv: list[str]) -> Iterator[tuple[int, psutil.Process]]:
    """Run a program. Yield the number that it prints when ready, and its process."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    with _ended(process):
        assert process.stdout is not None
        yield int(process.stdout.readline()), psutil.Process(process.pid)


@contextmanager
def _ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    with process:
        try:
            yield
        finally:
            process.kill()


def _cpu_s(process: psutil.Process) -> float:
    """Return the CPU time that a process has used, without OpenSSH's master."""
    times = process.cpu_times()
    return times.user + times.system


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def _down(port: int, size: int) -> float:
    with _connected(port) as sock:
        began_s = time.perf_counter()
        sock.sendall(HEAD.pack(b"D", size))
        take(sock, size)
        return time.perf_counter() - began_s


def _up(port: int, size: int) -> float:
    block = memoryview(bytes(BLOCK_BYTES))
    with _connected(port) as sock:
        began_s = time.perf_counter()
        sock.sendall(HEAD.pack(b"U", size))
        left = size
        while left:
            left -= sock.send(block[: min(left, BLOCK_BYTES)])
        assert sock.recv(1) == b"!"
        return time.perf_counter() - began_s


def _ping_under_load(port: int, way: Way) -> float:
    """Return the round trip in ms during a full-speed download on another connection."""
    # A separate process, so that its work does not disturb the measurement.
    with _ended(subprocess.Popen([sys.executable, str(END), "drain", str(port)])):
        time.sleep(_SETTLE_S.get(way.alias, 0.5))
        return _ping(port)


def _ping(port: int) -> float:
    """Return the median of many round trips, in ms."""
    message = HEAD.pack(b"E", _PING_BYTES) + bytes(_PING_BYTES)
    taken: list[float] = []
    with _connected(port) as sock:

        def there_and_back() -> None:
            sock.sendall(message)
            take(sock, _PING_BYTES)

        for _ in range(_PINGS):
            taken.append(seconds(there_and_back) * 1000)
            time.sleep(0.005)
    return median(taken)


async def _at_once(port: int) -> None:
    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD.pack(b"D", _AT_ONCE_BYTES))
        await reader.readexactly(_AT_ONCE_BYTES)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one() for _ in range(_AT_ONCE)))
