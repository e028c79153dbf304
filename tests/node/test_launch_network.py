"""The network of a job on many nodes: addresses, ports, and the launcher's listener."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
TWO_PORTS = f"""
import socket, sys
sys.path.insert(0, {str(NODE)!r})
import launch_network

launch_network.random.sample = lambda ports, count: list(ports)
one = launch_network.free_port()
with socket.create_server(("127.0.0.1", one)):
    print(one, launch_network.free_port())
"""


def test_ports_for_an_engine_are_free_and_none_of_those_that_linux_hands_out() -> None:
    local = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    words = [sys.executable, "-c", TWO_PORTS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    one, another = map(int, done.stdout.split())
    assert 20_000 <= one < another < int(local.split()[0])


@pytest.fixture(scope="module")
def network() -> Iterator[Any]:
    sys.path.insert(0, str(NODE))
    import launch_network  # noqa: PLC0415

    yield launch_network
    sys.path.remove(str(NODE))


def test_loopback_is_the_last_of_the_addresses(network: Any) -> None:
    found = network.addresses(None)
    assert found[-1].startswith("127.")
    assert network.addresses("lo") == ["127.0.0.1"]
    with pytest.raises(OSError, match="device"):
        network.addresses("nonesuch0")


PYXIS = "slurmstepd: error: pyxis: a container with name mine does not exist, aborting"
FAILS = f"""#!/bin/sh
echo '{PYXIS}' >&2
echo 'srun: error: n2: task 1: Exited with exit code 1' >&2
"""


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: Any) -> Any:
    """A launcher of the job 7 on n1 that waits for its nodes."""
    import launch  # noqa: PLC0415 - `network` has made it known

    (tmp_path / "key").write_bytes(b"0" * 64)
    plan = dict.fromkeys(("is_ranked", "mpi", "by_task", "interface", "step"))
    plan |= {"engine": "ray", "mpi_types": [], "has_overlap": True, "has_asked_for_gpus": True}
    (tmp_path / "launch.json").write_text(json.dumps(plan))
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\nexec sleep 60\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    launcher = launch.Launcher(str(tmp_path), "0")
    launcher.start()
    yield launcher
    for node in launcher.nodes.values():
        network.close(node.sock)
    network.close(launcher.listener)
    assert launcher.step is not None
    launcher.step.end(0.1)


def test_a_program_of_the_job_is_welcome(listening: Any, network: Any) -> None:
    hello = {"index": 0, "name": "n1", "step_id": "0", "reached": "127.0.0.1"}
    hello |= {"address": "127.0.0.1", "cpus": 2, "gpus": 0, "machine": "m"}
    password = network.password(listening.job_dir)
    with socket.create_connection(listening.listener.getsockname(), 10) as sock:
        network.send(sock, {**hello, "password": password})
        assert network.receive(sock.makefile("rb")) == {"job": "7"}
        listening.join()
    assert [node.name for node in listening.nodes.values()] == ["n1"]


def test_words_about_a_container_go_to_the_log_as_they_are(
    listening: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The verdict explains them."""
    import launch  # noqa: PLC0415

    (tmp_path / "srun").write_text(FAILS)
    listening.step.end(0.0)
    assert listening.next(None)[0] == "step"
    listening.names = ["n1", "n2"]
    listening.nodes[0] = SimpleNamespace(name="n1", is_lost=False, sock=socket.socket())
    listening.start_step()
    with pytest.raises(launch.Ended):
        listening.join()
    said = capfd.readouterr().err.splitlines()
    assert said == [PYXIS, "jupyter-slurm: On n2 alone the program ended with exit code 1."]


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.0\r\n\r\n", b'{"password": "0"}\n', b"[]\n", b"\n"]
)
def test_a_stranger_is_turned_away(listening: Any, said: bytes) -> None:
    with socket.create_connection(listening.listener.getsockname(), 10) as sock:
        sock.sendall(said)
        assert sock.recv(1) == b""
    assert listening.next(0.0) is None
