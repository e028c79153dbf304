"""The network of a multi-node job: addresses, ports, and the launcher's listener."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
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


def test_engine_ports_are_free_and_outside_the_local_range() -> None:
    local = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    words = [sys.executable, "-c", TWO_PORTS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    one, another = map(int, done.stdout.split())
    assert 20_000 <= one < another < int(local.split()[0])


@pytest.fixture(scope="module")
def network() -> Iterator[Any]:
    sys.path.insert(0, str(NODE))
    import launch_network

    yield launch_network
    sys.path.remove(str(NODE))


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: Any) -> Any:
    """Yield a launcher of job 7 on n1 that waits for its nodes."""
    import launch  # `network` has made it importable

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


def test_common_message_of_many_nodes_is_printed_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    network: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import launch_step  # `network` has made it importable

    lines = ("jupyter-slurm: no engine", "of the code", "jupyter-slurm: no engine", "of the code")
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\nprintf '%s\\n' >&2 \"$@\"\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(launch_step, "STEP_OPTIONS", ())
    events: queue.Queue[Any] = queue.Queue()
    step = launch_step.Step([], list(lines), events)
    assert events.get(timeout=30) == ("step", None, 0)
    assert capsys.readouterr().err.splitlines() == [*lines[:2], lines[3]]
    assert step.ours == ["no engine"]


def test_launcher_accepts_a_node_of_the_job(
    listening: Any, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher acknowledges the end of the node's program, and announces its own."""
    import launch  # `network` has made it importable

    hello = {"index": 0, "name": "n1", "step_id": "0", "reached": "127.0.0.1"}
    hello |= {"address": "127.0.0.1", "cpus": 2, "gpus": 0, "machine": "m"}
    password = network.password(listening.job_dir)
    with socket.create_connection(listening.listener.getsockname(), 10) as sock:
        network.send(sock, {**hello, "password": password})
        file = sock.makefile("rb")
        assert network.receive(file) == {"job": "7"}
        listening.join()
        assert [node.name for node in listening.nodes.values()] == ["n1"]
        network.send(sock, {"ended": 0, "tail": ""})
        assert network.receive(file) == {"heard": True}
        monkeypatch.setattr(launch, "END_S", 0.0)
        listening.close()
        assert network.receive(file) == {"over": True}
        assert network.receive(file) is None


@pytest.mark.parametrize("said", [b"GET / HTTP/1.0\r\n\r\n", b'{"password": "0"}\n'])
def test_launcher_rejects_other_clients(listening: Any, said: bytes) -> None:
    with socket.create_connection(listening.listener.getsockname(), 10) as sock:
        sock.sendall(said)
        assert sock.recv(1) == b""
    assert listening.next(0.0) is None


def test_grace_period_of_the_other_ranks_includes_the_duration_of_scancel(
    listening: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scancel waits for the lost node."""
    import launch  # `network` has made it importable

    called_s: list[float] = []
    monkeypatch.setattr(subprocess, "call", lambda *_, **__: called_s.append(monotonic()))
    lost = SimpleNamespace(index=0, step_id="0", sock=socket.socket())
    listening.engine, listening.nodes[0] = "torchrun", lost
    (tmp_path / "torchrun.0.0").touch()
    assert listening.end_others(lost) <= called_s[0] + launch.REST_S["torchrun"]
