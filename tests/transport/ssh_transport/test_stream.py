"""What flows through a SharedTransport: carried sockets, files and streams, both ways at once."""

from __future__ import annotations

import gc
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import psutil
import pytest

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport.ssh_transport import SharedTransport
from tests.ssh.plugin import Delayed, MakeSshd
from tests.ssh.sshd import Sshd, free_port
from tests.ssh.waiting import wait_until
from tests.transport.far import (
    KINDS,
    PATIENCE_S,
    at_once,
    carried,
    connected,
    echo,
    echo_through,
    run,
    serving,
)


@pytest.fixture(params=KINDS)
def transport(sshd: Sshd, request: pytest.FixtureRequest) -> Iterator[SharedTransport]:
    with connected(sshd, request.param) as transport:
        yield transport


@pytest.fixture
def echo_port() -> Iterator[int]:
    with serving(echo) as port:
        yield port


def read_all(sock: socket.socket) -> int:
    """How many bytes came before the end."""
    came = 0
    while data := sock.recv(1 << 18):
        came += len(data)
    return came


# --- carried sockets ---


def test_a_hundred_mb_come_back_as_they_were(transport: SharedTransport, echo_port: int) -> None:
    echo_through(transport, echo_port, 100)


def test_twelve_at_once_do_not_get_mixed_up(transport: SharedTransport, echo_port: int) -> None:
    at_once(12, lambda _: echo_through(transport, echo_port, 5))


def test_a_reader_that_does_not_read_holds_up_its_sender_and_nobody_else(
    transport: SharedTransport, echo_port: int
) -> None:
    sent = 0
    full = threading.Event()

    def flood(sock: socket.socket) -> None:
        nonlocal sent
        sock.settimeout(1.0)
        try:
            while True:
                sent += sock.send(bytes(1 << 16))
        except TimeoutError:
            full.set()
        sock.settimeout(PATIENCE_S)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)

    with serving(flood) as port, carried(transport, port) as near:
        assert full.wait(PATIENCE_S)
        assert sent < 64 << 20
        echo_through(transport, echo_port, 1)
        assert read_all(near) == sent


def test_our_end_may_end_first(transport: SharedTransport) -> None:
    def answer_after_the_end(sock: socket.socket) -> None:
        asked = bytearray()
        while data := sock.recv(100):
            asked += data
        sock.sendall(asked.upper())

    with serving(answer_after_the_end) as port, carried(transport, port) as near:
        near.sendall(b"question")
        near.shutdown(socket.SHUT_WR)
        assert near.recv(100) == b"QUESTION"
        assert near.recv(100) == b""


def test_their_end_may_end_first(transport: SharedTransport) -> None:
    heard: list[bytes] = []

    def end_and_listen(sock: socket.socket) -> None:
        sock.sendall(b"all there is")
        sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(100):
            heard.append(data)

    with serving(end_and_listen) as port:
        with carried(transport, port) as near:
            assert near.recv(100) == b"all there is"
            assert near.recv(100) == b""
            near.sendall(b"and yet")
        wait_until(lambda: b"".join(heard) == b"and yet")


def test_three_hundred_short_ones_leave_nothing_open(
    transport: SharedTransport, echo_port: int
) -> None:
    gc.collect()
    descriptors = psutil.Process().num_fds()
    for _ in range(12):
        at_once(25, lambda _: echo_through(transport, echo_port, 0))
    wait_until(lambda: len(transport._channels) == 0 and not transport._pump.carried)
    wait_until(lambda: psutil.Process().num_fds() <= descriptors)
    wait_until(lambda: not transport.packetizer.sinks and not transport._openings)


def test_a_port_that_nobody_listens_on_is_refused(transport: SharedTransport) -> None:
    near, far = socket.socketpair()
    with near, pytest.raises(paramiko.ChannelException) as refused:
        transport.carry(far, "127.0.0.1", free_port(), PATIENCE_S)
    assert refused.value.code == 2
    far.close()
    assert not transport.packetizer.sinks


def test_forwarding_that_the_server_forbids_is_told_apart(make_sshd: MakeSshd) -> None:
    near, far = socket.socketpair()
    with connected(make_sshd("AllowTcpForwarding no")) as transport, near:
        with pytest.raises(paramiko.ChannelException) as refused:
            transport.carry(far, "127.0.0.1", 22, PATIENCE_S)
        assert refused.value.code == 1
        far.close()
        assert run(transport, "echo on") == (0, b"on\n")


def test_a_download_cut_off_by_a_lost_connection_does_not_look_complete(
    make_sshd: MakeSshd,
) -> None:
    sshd = make_sshd()
    listener = socket.create_server(("127.0.0.1", 0))
    with (
        listener,
        serving(lambda sock: sock.sendall(bytes(1 << 28))) as port,
        connected(sshd) as transport,
    ):
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        transport.carry(far, "127.0.0.1", port, PATIENCE_S)
        assert near.recv(1)
        sshd.kill_sessions()
        with near, pytest.raises(ConnectionResetError):
            read_all(near)


def test_one_connection_runs_through_another(sshd: Sshd, make_sshd: MakeSshd) -> None:
    inner = make_sshd()
    with connected(sshd) as outer:
        near, far = socket.socketpair()
        outer.carry(far, inner.host, inner.port, PATIENCE_S)
        through = SharedTransport(near)
        try:
            through.start_client(timeout=PATIENCE_S)
            through.auth_publickey(inner.user, paramiko.PKey.from_path(inner.key))
            with serving(echo) as port:
                echo_through(through, port, 20)
        finally:
            through.close()
        wait_until(lambda: not outer._pump.carried)


def test_windows_follow_the_line(sshd: Sshd, delayed: Delayed) -> None:
    """How far is a matter of what the machine can do: test_window.py has a line of a known rate."""
    line = delayed(sshd.port, 0.1)
    with (
        connected(sshd, port=line.port) as transport,
        serving(without_end) as port,
        carried(transport, port) as near,
    ):
        (channel,) = transport._channels.values()
        first = channel.window.size_bytes
        while channel.window.size_bytes < 2 * first:
            assert near.recv(1 << 18)


def without_end(sock: socket.socket) -> None:
    while True:
        sock.sendall(bytes(1 << 20))


# --- files and streams ---


def test_a_file_goes_from_where_it_stands_to_its_end(
    transport: SharedTransport, tmp_path: Path
) -> None:
    content = os.urandom(3_000_001)
    path = tmp_path / "größe $HOME"
    path.write_bytes(content)
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("cat")
    into = tmp_path / "back"
    with path.open("rb") as source, into.open("wb") as sink:
        source.read(7)
        received: list[int] = []
        reader = threading.Thread(
            target=lambda: received.append(transport.receive_into(channel, sink))
        )
        reader.start()
        assert transport.send_all(channel, source) == len(content) - 7
        assert source.read() == b""
        channel.shutdown_write()
        reader.join(PATIENCE_S)
    assert received == [len(content) - 7]
    assert channel.recv_exit_status() == 0
    channel.close()
    assert into.read_bytes() == content[7:]


@pytest.mark.parametrize("make", [list, iter, lambda chunks: io.BytesIO(b"".join(chunks))])
def test_other_sources_are_sent_as_well(
    transport: SharedTransport, make: Callable[[list[bytes]], io.BytesIO]
) -> None:
    chunks = [b"", b"one", os.urandom(400_000), b"\n"]
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("wc -c")
    assert transport.send_all(channel, make(chunks)) == sum(map(len, chunks))
    channel.shutdown_write()
    assert int(channel.recv(100)) == sum(map(len, chunks))
    channel.close()


def test_what_has_come_before_is_part_of_what_is_received(
    transport: SharedTransport, tmp_path: Path
) -> None:
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("echo banner; head -c 2000000 /dev/zero; echo noise >&2; exit 5")
    assert channel.recv(7) == b"banner\n"
    wait_until(channel.recv_ready)
    with (tmp_path / "out").open("wb") as sink:
        assert transport.receive_into(channel, sink) == 2_000_000
    assert channel.recv_stderr(100) == b"noise\n"
    assert channel.recv_exit_status() == 5
    channel.close()


def test_a_channel_that_has_ended_already_gives_what_it_has(
    transport: SharedTransport, tmp_path: Path
) -> None:
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("echo hello")
    channel.recv_exit_status()
    wait_until(lambda: bool(channel.eof_received))
    with (tmp_path / "out").open("wb") as sink:
        assert transport.receive_into(channel, sink) == 6
    channel.close()


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_stop_ends_a_transfer_that_stands_still(
    transport: SharedTransport, tmp_path: Path, way: str
) -> None:
    stop = threading.Event()
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("sleep 1000")
    (tmp_path / "big").write_bytes(bytes(16 << 20))
    threading.Timer(0.1, stop.set).start()
    transfer = transport.receive_into if way == "in" else transport.send_all
    with (tmp_path / "big").open("r+b") as file, pytest.raises(ConnectionLostError):
        transfer(channel, file, stop)
    channel.close()
    assert run(transport, "echo on") == (0, b"on\n")


def test_a_program_that_stops_reading_ends_the_transfer(transport: SharedTransport) -> None:
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("head -c 1 > /dev/null")
    with pytest.raises(ConnectionLostError, match="stopped reading"):
        transport.send_all(channel, iter(lambda: bytes(1 << 18), b""))
    channel.close()
    assert run(transport, "echo on") == (0, b"on\n")


def test_a_full_disk_does_not_hurt_the_connection(transport: SharedTransport) -> None:
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("head -c 5000000 /dev/zero")
    with Path("/dev/full").open("wb") as sink, pytest.raises(OSError, match="No space"):
        transport.receive_into(channel, sink)
    channel.close()
    assert run(transport, "echo on") == (0, b"on\n")


def test_a_connection_lost_in_the_middle_is_told(make_sshd: MakeSshd, tmp_path: Path) -> None:
    sshd = make_sshd()
    with connected(sshd) as transport:
        channel = transport.open_stream(timeout_s=PATIENCE_S)
        channel.exec_command("echo start; sleep 1000")
        out = tmp_path / "out"
        out.touch()

        def kill_when_it_flows() -> None:
            wait_until(lambda: out.stat().st_size > 0)
            sshd.kill_sessions()

        killer = threading.Thread(target=kill_when_it_flows)
        killer.start()
        with out.open("wb") as sink, pytest.raises(ConnectionLostError):
            transport.receive_into(channel, sink)
        killer.join(PATIENCE_S)
        channel.close()
