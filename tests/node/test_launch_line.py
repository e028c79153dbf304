"""The ports that the launcher gives to an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
TWO_PORTS = f"""
import socket, sys
sys.path.insert(0, {str(NODE)!r})
import launch_line

launch_line.random.sample = lambda ports, count: list(ports)
one = launch_line.free_port()
with socket.create_server(("127.0.0.1", one)):
    print(one, launch_line.free_port())
"""


def test_ports_for_an_engine_are_free_and_none_of_those_that_linux_hands_out() -> None:
    local = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    words = [sys.executable, "-c", TWO_PORTS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    one, another = map(int, done.stdout.split())
    assert 20_000 <= one < another < int(local.split()[0])
