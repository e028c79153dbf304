"""The relay's two ends, connected by a process's pipes, and as a step in a job."""

from __future__ import annotations

import ast
import random
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.slurm.srun import beside_argv
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.transport.relay import Relay
from tests.cluster.plugin import SlurmCluster
from tests.ssh.processes import kill
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until
from tests.transport.carrier import echo, everything, sent, service

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
TEXT = (NODE / "relay.py").read_text(encoding="utf-8")
TWENTY_MEGABYTES = random.Random(2).randbytes(20_000_000)


class Started:
    """Recorder of the streams that a transport opens."""

    def __init__(self) -> None:
        self.channels: list[socket.socket] = []

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        self.channels.append(LocalTransport().open_stream(argv))
        return self.channels[-1]


def here(argv: Sequence[str]) -> Sequence[str]:
    """Run the remote end on this machine, without srun."""
    return argv


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that no thread and no process is left."""
    threads = set(threading.enumerate())
    processes = set(psutil.Process().children(recursive=True))
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads)
    wait_until(lambda: set(psutil.Process().children(recursive=True)) <= processes)


@pytest.fixture
def started() -> Started:
    return Started()


@pytest.fixture
def relay(nothing_left: None, started: Started) -> Iterator[Relay]:
    relay = Relay(started.open_stream, here, sys.executable, "n1")
    yield relay
    relay.close()


def connected(relay: Relay, port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a TCP connection through the relay, like a tunnel's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname(), 60)
        theirs, _ = listener.accept()
    try:
        relay.connect(theirs, host, port)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return ours


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_relay_supports_python_3_6_and_imports_only_the_standard_library() -> None:
    for text in (TEXT, (NODE / "framing.py").read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(text, feature_version=(3, 6))):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
                assert names <= {"framing", *sys.stdlib_module_names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module in sys.stdlib_module_names


def test_twenty_megabytes_pass_in_both_directions(relay: Relay) -> None:
    with service(echo) as port, connected(relay, port) as sock, sent(sock, TWENTY_MEGABYTES):
        assert everything(sock) == TWENTY_MEGABYTES


def test_refusing_port_is_reported(relay: Relay) -> None:
    with pytest.raises(ForwardError, match=r"Cannot reach .* from n1: Connection refused"):
        connected(relay, free_port())


def test_unix_socket_path_replaces_host_and_port(relay: Relay, tmp_path: Path) -> None:
    path = tmp_path / "a tool's socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with connected(relay, 0, str(path)) as sock:
            there, _ = listener.accept()
            with there:
                sock.sendall(b"hello")
                assert there.recv(5) == b"hello"
    with pytest.raises(ForwardError, match=f"Cannot reach {path} from n1: Connection refused"):
        connected(relay, 0, str(path))


def test_slow_reader_does_not_delay_other_connections(relay: Relay) -> None:
    written = 0

    def write_for_ever(sock: socket.socket) -> None:
        nonlocal written
        while True:
            written += sock.send(bytes(65_536))

    with (
        service(write_for_ever) as endless,
        service(echo) as port,
        connected(relay, endless) as unread,
        connected(relay, port) as sock,
    ):
        for number in range(100):
            message = number.to_bytes(1000, "big")
            sock.sendall(message)
            assert sock.recv(1000, socket.MSG_WAITALL) == message
        with sent(sock, TWENTY_MEGABYTES):
            assert everything(sock) == TWENTY_MEGABYTES
        # The limit is the size of the system's buffers and one window, less than the whole data.
        assert written < 16 << 20
        reset(unread)


def test_remote_reset_resets_the_client(relay: Relay) -> None:
    def reset_when_asked(sock: socket.socket) -> None:
        sock.recv(1)
        reset(sock)

    broken = pytest.raises(ConnectionResetError)
    with service(reset_when_asked) as port, connected(relay, port) as sock, broken:
        sock.sendall(b"x")
        sock.recv(1)


def test_dead_relay_resets_connections_and_is_restarted(relay: Relay, started: Started) -> None:
    before = set(psutil.Process().children(recursive=True))
    with service(echo) as port:
        with connected(relay, port) as sock:
            for process in set(psutil.Process().children(recursive=True)) - before:
                kill(process)
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        with connected(relay, port) as sock, sent(sock, b"hello"):
            assert everything(sock) == b"hello"
    assert len(started.channels) == 2


def test_output_before_the_start_of_the_relay_is_skipped(
    nothing_left: None, started: Started
) -> None:
    def noisy(argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", 'echo "Welcome to n1"; exec "$@"', "sh", *argv]

    relay = Relay(started.open_stream, noisy, sys.executable, "n1")
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    relay.close()


def test_relay_uses_another_python_if_the_given_python_is_missing(
    nothing_left: None, started: Started
) -> None:
    relay = Relay(started.open_stream, here, "/opt/no such/python", "n1")
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    relay.close()


def test_failed_start_is_reported_with_the_programs_output(
    nothing_left: None, started: Started
) -> None:
    def refused(argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", "echo half; echo 'srun: error: no such job' >&2; exit 1"]

    relay = Relay(started.open_stream, refused, sys.executable, "n1")
    with pytest.raises(ForwardError) as caught:
        connected(relay, 1)
    assert str(caught.value.message) == "Cannot start the relay on the cluster."
    assert caught.value.detail == "srun: error: no such job"
    relay.close()


# --- inside a job -----------------------------------------------------------------------------


class InJob:
    """A running job, and a relay into it."""

    def __init__(self, cluster: SlurmCluster, *options: str) -> None:
        self.cluster = cluster
        self.id = cluster.submit("-o", "/dev/null", *options, "--wrap", "sleep 600")
        cluster.wait_for(self.id, "RUNNING")
        self.node = cluster.run("squeue", "-h", "-o", "%N", "-j", self.id).stdout.strip()
        transport = LocalTransport(
            path=[str(cluster.folder / "bin")], env={"SLURM_CONF": str(cluster.conf)}
        )
        self.relay = Relay(transport.open_stream, self.beside, "python3", "n1")

    def beside(self, argv: Sequence[str]) -> Sequence[str]:
        return beside_argv(self.id, argv, node=self.node, version=None)

    def processes(self, word: str) -> list[psutil.Process]:
        """Return processes in this job, or srun processes for it, with `word` in their command
        line."""
        return [process for process, _ in self._found(word)]

    def nodes(self) -> list[str]:
        """Return the nodes of the remote ends."""
        found = self._found('"relay.py"')
        return [env["SLURMD_NODENAME"] for _, env in found if "SLURMD_NODENAME" in env]

    def _found(self, word: str) -> list[tuple[psutil.Process, dict[str, str]]]:
        """Return these processes with their environments."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                env, words = process.environ(), process.cmdline()
                ours = self.id == env.get("SLURM_JOB_ID") or f"--jobid={self.id}" in words
                same = env.get("SLURM_CONF") == str(self.cluster.conf)
                if ours and same and any(word in one for one in words):
                    found.append((process, env))
        return found

    def until_gone(self) -> None:
        """Wait until no process of the relay is left."""
        wait_until(lambda: not self.processes('"relay.py"'))


@pytest.fixture
def in_job(slurm_cluster: SlurmCluster) -> Iterator[InJob]:
    job = InJob(slurm_cluster, "--ntasks=1", "--gres=gpu:1", "--mem=100")
    yield job
    job.relay.close()
    slurm_cluster.run("scancel", job.id, check=False)
    job.until_gone()


def test_twenty_megabytes_pass_in_both_directions_through_a_job(in_job: InJob) -> None:
    with service(echo) as port, connected(in_job.relay, port) as sock:
        assert in_job.nodes() == [in_job.node]
        with sent(sock, TWENTY_MEGABYTES):
            assert everything(sock) == TWENTY_MEGABYTES
    in_job.relay.close()
    in_job.until_gone()


def test_ending_job_does_not_wait_for_the_relay(
    slurm_cluster: SlurmCluster,
) -> None:
    job = InJob(slurm_cluster)
    with service(echo) as port, connected(job.relay, port):
        wait_until(lambda: bool(job.processes("sleep")))
        for process in job.processes("sleep"):
            process.terminate()
        assert job.cluster.wait_for(job.id, "COMPLETED", "FAILED", limit_s=60)
    job.relay.close()
    job.until_gone()
