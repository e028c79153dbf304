"""The relay's two ends, over the pipes of one process, and as a step inside a job."""

from __future__ import annotations

import ast
import os
import random
import runpy
import socket
import struct
import subprocess
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
from jupyter_slurm.transport import relay_streams
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.transport.node_program import begin
from jupyter_slurm.transport.relay import Relay
from jupyter_slurm.wire import framing
from tests.cluster.plugin import SlurmCluster
from tests.node.held_line import held
from tests.ssh.processes import kill
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until
from tests.transport.carrier import echo, everything, sent, service

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
TEXT = (NODE / "relay.py").read_text(encoding="utf-8")
TWENTY_MEGABYTES = random.Random(2).randbytes(20_000_000)

Connect = Callable[..., socket.socket]


class Started:
    """A transport's `converse`, counted."""

    def __init__(self) -> None:
        self.channels: list[socket.socket] = []

    def converse(self, argv: Sequence[str]) -> socket.socket:
        self.channels.append(LocalTransport().converse(argv))
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
    relay = Relay(started.converse, here, sys.executable, "n1", request.param)
    yield relay
    relay.close()


def connected(relay: Relay, port: int, host: str = "127.0.0.1") -> socket.socket:
    """TCP to a port that leads there, as a tunnel's connection is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname(), 60)
        theirs, _ = listener.accept()
    try:
        relay.carry(theirs, host, port)
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


def test_both_ends_mean_the_same_by_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(NODE)
    far = runpy.run_path(str(NODE / "relay.py"))
    monkeypatch.delitem(sys.modules, "framing")
    assert far["NUMBER"].format == relay_streams._NUMBER.format
    assert far["WINDOW"] == relay_streams._WINDOW
    names = ("OPENED", "REFUSED", "DATA", "CREDIT", "EOF", "ABORT")
    assert b"".join(far[name] for name in names) == relay_streams._KINDS
    assert far["SILENCE_S"] > 2 * relay_streams._ALIVE_S
    assert far["framing"].ALIVE == framing.ALIVE
    assert far["framing"].frame(b"D", b"1", b"", b"23") == framing.frame(b"D", b"1", b"", b"23")


def test_twenty_megabytes_get_there_and_back(relay: Relay) -> None:
    with service(echo) as port, connected(relay, port) as sock, sent(sock, TWENTY_MEGABYTES):
        assert everything(sock) == TWENTY_MEGABYTES


def test_nothing_waits_for_an_acknowledgement_of_tcp(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held_from_now_on(*args: Any) -> tuple[socket.socket, bytes]:
        channel, after = begin(*args)
        return held(channel), after

    monkeypatch.setattr("jupyter_slurm.transport.relay.begin", held_from_now_on)
    message = TWENTY_MEGABYTES[:3000]
    with service(echo) as port, connected(relay, port) as sock:
        sock.settimeout(60)
        sock.sendall(message)
        assert sock.recv(3000, socket.MSG_WAITALL) == message


def test_end_from_the_far_side_leaves_the_near_one_open(relay: Relay) -> None:
    heard: SimpleQueue[bytes] = SimpleQueue()

    def first_say_goodbye(sock: socket.socket) -> None:
        sock.sendall(b"bye")
        sock.shutdown(socket.SHUT_WR)
        heard.put(everything(sock))

    with service(first_say_goodbye) as port, connected(relay, port) as sock:
        assert everything(sock) == b"bye"
        sock.sendall(b"so long")
        sock.shutdown(socket.SHUT_WR)
        assert heard.get(timeout=60) == b"so long"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_port_that_refuses_is_an_error_that_says_so(relay: Relay, host: str) -> None:
    port = free_port()
    with pytest.raises(ForwardError) as caught:
        connected(relay, port, host)
    assert str(caught.value.message) == (
        f"{host}:{port} cannot be reached from n1: Connection refused."
    )


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


def test_host_without_an_address_is_an_error_that_says_so(relay: Relay) -> None:
    with pytest.raises(ForwardError, match=r"nowhere\.invalid:80 .*Name or service not known|Temp"):
        connected(relay, 80, "nowhere.invalid")


def test_who_does_not_read_holds_up_nobody_else_and_fills_no_memory(relay: Relay) -> None:
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


def test_far_end_that_does_not_read_holds_up_nobody_else(relay: Relay) -> None:
    let_go = threading.Event()

    def never_read(sock: socket.socket) -> None:
        let_go.wait(60)

    with (
        service(never_read) as deaf,
        service(echo) as port,
        connected(relay, deaf) as stuck,
        connected(relay, port) as sock,
    ):
        stuck.setblocking(False)
        written = 0
        for _ in range(100):
            with suppress(BlockingIOError):
                while True:
                    written += stuck.send(bytes(65_536))
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        assert written < 16 << 20
        let_go.set()


def fifty_are_right(relay: Relay) -> None:
    """Fifty connections at once get back what each has sent."""
    results: list[bool] = []

    def talk(number: int, port: int) -> None:
        data = random.Random(number).randbytes(100_000)
        with connected(relay, port) as sock, sent(sock, data):
            results.append(everything(sock) == data)

    with service(echo) as port:
        threads = [threading.Thread(target=talk, args=(n, port)) for n in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 50


def test_fifty_connections_at_once_over_one_program(relay: Relay, started: Started) -> None:
    fifty_are_right(relay)
    assert len(started.channels) == 1


def test_one_connection_too_many_is_refused(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_streams, "_MOST_STREAMS", 1)
    full = pytest.raises(ForwardError, match="1 connections are open already")
    with service(echo) as port, connected(relay, port), full:
        connected(relay, port)


def test_reset_here_is_a_reset_there(relay: Relay) -> None:
    how: list[object] = []
    ended = threading.Event()

    def listen(sock: socket.socket) -> None:
        try:
            sock.sendall(b"x")
            how.append(sock.recv(1))
        except ConnectionResetError as exc:
            how.append(exc)
        ended.set()

    with service(listen) as port:
        sock = connected(relay, port)
        assert sock.recv(1) == b"x"
        reset(sock)
        assert ended.wait(60)
    assert isinstance(how[0], ConnectionResetError)


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


def test_closed_relay_breaks_its_connections_and_makes_no_more(relay: Relay) -> None:
    with service(echo) as port:
        with connected(relay, port) as sock:
            relay.close()
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        with pytest.raises(ForwardError, match="closed"):
            connected(relay, port)


def test_what_is_printed_before_the_far_end_is_passed_over(
    nothing_left: None, started: Started
) -> None:
    def noisy(argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", 'echo "Welcome to n1"; exec "$@"', "sh", *argv]

    relay = Relay(started.converse, noisy, sys.executable, "n1", nowhere)
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    relay.close()


def test_python_that_is_not_there_is_replaced_by_one_that_is(
    nothing_left: None, started: Started
) -> None:
    relay = Relay(started.converse, here, "/opt/no such/python", "n1", nowhere)
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    relay.close()


def test_program_that_cannot_start_is_an_error_with_its_own_words(
    nothing_left: None, started: Started
) -> None:
    def refused(argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", "echo half; echo 'srun: error: no such job' >&2; exit 1"]

    relay = Relay(started.converse, refused, sys.executable, "n1", nowhere)
    with pytest.raises(ForwardError) as caught:
        connected(relay, 1)
    assert str(caught.value.message) == "The relay could not be started on the cluster."
    assert caught.value.detail == "srun: error: no such job"
    relay.close()


@pytest.mark.parametrize("says", [b"", b"x" * 32, b"GET / HTTP/1.1\r\n\r\n"])
def test_who_comes_to_its_port_and_does_not_know_the_secret_is_sent_away(
    nothing_left: None, started: Started, says: bytes
) -> None:
    """And the relay's own near end comes after them."""
    strangers = []

    def after_a_stranger(port: int) -> socket.socket:
        strangers.append(to_port(port))
        strangers[0].sendall(says)
        strangers[0].shutdown(socket.SHUT_WR)
        return to_port(port)

    relay = Relay(started.converse, here, sys.executable, "n1", after_a_stranger)
    with service(echo) as port, connected(relay, port) as sock, sent(sock, b"hello"):
        assert everything(sock) == b"hello"
    with strangers[0] as stranger:
        assert everything(stranger) == b""
    relay.close()


def test_whoever_has_taken_the_port_meanwhile_gets_nothing(
    nothing_left: None, started: Started
) -> None:
    heard: SimpleQueue[bytes] = SimpleQueue()

    def impostor(sock: socket.socket) -> None:
        sock.sendall(b"y" * 32)
        heard.put(everything(sock))

    with service(impostor) as other, service(echo) as port:
        relay = Relay(started.converse, here, sys.executable, "n1", lambda _: to_port(other))
        with connected(relay, port) as sock, sent(sock, b"hello"):
            assert everything(sock) == b"hello"
        relay.close()
    assert len(heard.get(timeout=60)) == 32


def test_far_end_that_hears_nothing_for_long_ends() -> None:
    text = TEXT.replace("SILENCE_S = 300.0", "SILENCE_S = 0.05")
    text = text.replace("OFFER_S = 60.0", "OFFER_S = 0.05")
    with subprocess.Popen(
        [sys.executable, "-c", text, "hello"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(NODE)},
    ) as process:
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read().startswith(b"hello")


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
        self.relay = Relay(transport.converse, self.beside, "python3", "n1", reach)

    def beside(self, argv: Sequence[str]) -> Sequence[str]:
        return beside_argv(self.id, argv, node=self.node, version=None)

    def processes(self, word: str) -> list[psutil.Process]:
        """Those that this job runs, or that run something in it, with `word` in their command."""
        return [process for process, _ in self._found(word)]

    def far_ends(self) -> list[psutil.Process]:
        return [process for process, env in self._found('"relay.py"') if "SLURMD_NODENAME" in env]

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


def test_fifty_connections_through_a_job_need_one_srun(in_job: InJob) -> None:
    fifty_are_right(in_job.relay)
    assert len(in_job.far_ends()) == 1


def test_port_that_refuses_inside_a_job_is_an_error_that_says_so(in_job: InJob) -> None:
    with pytest.raises(ForwardError, match="from n1: Connection refused"):
        connected(in_job.relay, free_port())


def test_job_cancelled_during_a_download_breaks_it_and_the_next_one_says_why(
    in_job: InJob,
) -> None:
    def write_for_ever(sock: socket.socket) -> None:
        while True:
            sock.sendall(bytes(65_536))

    with service(write_for_ever) as port:
        with connected(in_job.relay, port) as sock:
            assert sock.recv(65_536)
            in_job.cluster.run("scancel", in_job.id)
            with pytest.raises(ConnectionResetError):
                everything(sock)
        with pytest.raises(ForwardError, match="could not be started on the cluster") as caught:
            connected(in_job.relay, port)
    assert "srun: error:" in (caught.value.detail or "")
    in_job.until_gone()


def test_srun_that_is_ended_leaves_nothing_on_the_node(in_job: InJob) -> None:
    with service(echo) as port, connected(in_job.relay, port) as sock:
        left = in_job.far_ends()
        for process in in_job.processes(f"--jobid={in_job.id}"):
            with suppress(psutil.NoSuchProcess):
                if process.name() == "srun":
                    process.terminate()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive


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
