"""The relay's two ends, over the pipes of one process, and as a step inside a job."""

from __future__ import annotations

import ast
import random
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

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
    """A transport's `open_stream`, counted."""

    def __init__(self) -> None:
        self.channels: list[socket.socket] = []

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        self.channels.append(LocalTransport().open_stream(argv))
        return self.channels[-1]


def here(argv: Sequence[str]) -> Sequence[str]:
    """In place of srun: the far end runs on this machine."""
    return argv


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No thread and no process more than before."""
    threads = set(threading.enumerate())
    processes = set(psutil.Process().children(recursive=True))
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads)
    wait_until(lambda: set(psutil.Process().children(recursive=True)) <= processes)


@pytest.fixture
def started() -> Started:
    return Started()


def nowhere(port: int) -> None:
    """No port of the node is reached: all goes by the program's standard input and output."""


def to_port(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60)


@pytest.fixture(params=[nowhere, to_port], ids=["by its streams", "by its port"])
def relay(request: pytest.FixtureRequest, nothing_left: None, started: Started) -> Iterator[Relay]:
    relay = Relay(started.open_stream, here, sys.executable, "n1", request.param)
    yield relay
    relay.close()


def connected(relay: Relay, port: int, host: str = "127.0.0.1") -> socket.socket:
    """TCP to a port that leads there, as a tunnel's connection is."""
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


def test_far_end_is_python_3_6_and_imports_the_standard_library_alone() -> None:
    for text in (TEXT, (NODE / "framing.py").read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(text, feature_version=(3, 6))):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
                assert names <= {"framing", *sys.stdlib_module_names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module in sys.stdlib_module_names


def test_twenty_megabytes_get_there_and_back(relay: Relay) -> None:
    with service(echo) as port, connected(relay, port) as sock, sent(sock, TWENTY_MEGABYTES):
        assert everything(sock) == TWENTY_MEGABYTES


def test_port_that_refuses_is_an_error_that_says_so(relay: Relay) -> None:
    with pytest.raises(ForwardError, match="cannot be reached from n1: Connection refused"):
        connected(relay, free_port())


def test_the_path_of_a_unix_socket_takes_the_place_of_host_and_port(
    relay: Relay, tmp_path: Path
) -> None:
    path = tmp_path / "a tool's socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with connected(relay, 0, str(path)) as sock:
            there, _ = listener.accept()
            with there:
                sock.sendall(b"hello")
                assert there.recv(5) == b"hello"
    with pytest.raises(ForwardError, match=f"{path} cannot be reached from n1: Connection refused"):
        connected(relay, 0, str(path))


def test_slow_reader_delays_no_other_connection_and_fills_no_memory(relay: Relay) -> None:
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
        # What the kernel's buffers and one window hold, not what could have been sent.
        assert written < 16 << 20
        reset(unread)


def test_reset_there_is_a_reset_here(relay: Relay) -> None:
    def reset_when_asked(sock: socket.socket) -> None:
        sock.recv(1)
        reset(sock)

    broken = pytest.raises(ConnectionResetError)
    with service(reset_when_asked) as port, connected(relay, port) as sock, broken:
        sock.sendall(b"x")
        sock.recv(1)


def test_program_that_dies_breaks_its_connections_and_the_next_one_starts_another(
    relay: Relay, started: Started
) -> None:
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


def test_what_is_printed_before_the_far_end_is_passed_over(
    nothing_left: None, started: Started
) -> None:
    def noisy(argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", 'echo "Welcome to n1"; exec "$@"', "sh", *argv]

    relay = Relay(started.open_stream, noisy, sys.executable, "n1", nowhere)
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    relay.close()


def test_python_that_is_not_there_is_replaced_by_one_that_is(
    nothing_left: None, started: Started
) -> None:
    relay = Relay(started.open_stream, here, "/opt/no such/python", "n1", nowhere)
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    relay.close()


def test_program_that_cannot_start_is_an_error_with_its_own_words(
    nothing_left: None, started: Started
) -> None:
    def refused(argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", "echo half; echo 'srun: error: no such job' >&2; exit 1"]

    relay = Relay(started.open_stream, refused, sys.executable, "n1", nowhere)
    with pytest.raises(ForwardError) as caught:
        connected(relay, 1)
    assert str(caught.value.message) == "The relay could not be started on the cluster."
    assert caught.value.detail == "srun: error: no such job"
    relay.close()


@pytest.mark.parametrize("says", [b"", b"x" * 32])
def test_stranger_without_the_secret_is_disconnected(
    nothing_left: None, started: Started, says: bytes
) -> None:
    """And the relay's own near end comes after them."""
    strangers = []

    def after_a_stranger(port: int) -> socket.socket:
        strangers.append(to_port(port))
        strangers[0].sendall(says)
        strangers[0].shutdown(socket.SHUT_WR)
        return to_port(port)

    relay = Relay(started.open_stream, here, sys.executable, "n1", after_a_stranger)
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    with strangers[0] as stranger:
        assert everything(stranger) == b""
    relay.close()


def test_impostor_at_the_port_gets_nothing(nothing_left: None, started: Started) -> None:
    heard: SimpleQueue[bytes] = SimpleQueue()

    def impostor(sock: socket.socket) -> None:
        sock.sendall(b"y" * 32)
        heard.put(everything(sock))

    with service(impostor) as other, service(echo) as port:
        relay = Relay(started.open_stream, here, sys.executable, "n1", lambda _: to_port(other))
        with connected(relay, port) as sock, sent(sock, b"hello"):
            assert everything(sock) == b"hello"
        relay.close()
    assert len(heard.get(timeout=60)) == 32


# --- inside a job -----------------------------------------------------------------------------


class InJob:
    """A job that runs, and a relay into it."""

    def __init__(
        self, cluster: SlurmCluster, *options: str, reach: Callable[[int], Any] = nowhere
    ) -> None:
        self.cluster = cluster
        self.id = cluster.submit("-o", "/dev/null", *options, "--wrap", "sleep 600")
        cluster.wait_for(self.id, "RUNNING")
        self.node = cluster.run("squeue", "-h", "-o", "%N", "-j", self.id).stdout.strip()
        transport = LocalTransport(
            path=[str(cluster.folder / "bin")], env={"SLURM_CONF": str(cluster.conf)}
        )
        self.relay = Relay(transport.open_stream, self.beside, "python3", "n1", reach)

    def beside(self, argv: Sequence[str]) -> Sequence[str]:
        return beside_argv(self.id, argv, node=self.node, version=None)

    def processes(self, word: str) -> list[psutil.Process]:
        """Those that this job runs, or that run something in it, with `word` in their command."""
        return [process for process, _ in self._found(word)]

    def nodes(self) -> list[str]:
        """Where the far ends run."""
        found = self._found('"relay.py"')
        return [env["SLURMD_NODENAME"] for _, env in found if "SLURMD_NODENAME" in env]

    def _found(self, word: str) -> list[tuple[psutil.Process, dict[str, str]]]:
        """With their environments."""
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
        """Nothing of the relay is left."""
        wait_until(lambda: not self.processes('"relay.py"'))


@pytest.fixture(params=[nowhere, to_port], ids=["by srun", "by its port"])
def in_job(request: pytest.FixtureRequest, slurm_cluster: SlurmCluster) -> Iterator[InJob]:
    options = ("--ntasks=1", "--gres=gpu:1", "--mem=100")
    job = InJob(slurm_cluster, *options, reach=request.param)
    yield job
    job.relay.close()
    slurm_cluster.run("scancel", job.id, check=False)
    job.until_gone()


def test_twenty_megabytes_through_a_job_get_there_and_back(in_job: InJob) -> None:
    with service(echo) as port, connected(in_job.relay, port) as sock:
        assert in_job.nodes() == [in_job.node]
        with sent(sock, TWENTY_MEGABYTES):
            assert everything(sock) == TWENTY_MEGABYTES
    in_job.relay.close()
    in_job.until_gone()


def test_job_that_comes_to_its_end_does_not_wait_for_the_relay(
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
