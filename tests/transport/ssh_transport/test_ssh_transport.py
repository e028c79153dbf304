"""SharedTransport against a real sshd: algorithms, channels, keys changed under load, the end."""

from __future__ import annotations

import gc
import hashlib
import os
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator

import paramiko
import psutil
import pytest
from paramiko.packet import Packetizer

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport.connection import SshConnection
from jupyter_slurm.transport.ssh_transport import SharedTransport
from jupyter_slurm.transport.ssh_transport.frames import OutgoingPackets
from jupyter_slurm.transport.ssh_transport.packets import (
    _PRIVATE_PARTS,
    SharedPacketizer,
    check_paramiko,
    takes_whole_packets,
)
from jupyter_slurm.transport.ssh_transport.pump import Pump
from jupyter_slurm.transport.ssh_transport.queue import QueuedTransport
from jupyter_slurm.transport.ssh_transport.stream import SharedChannel
from tests.ssh.plugin import Delayed, MakeSshd
from tests.ssh.sshd import Sshd
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

KEYS_EVERY_BYTES = 2 << 20


@pytest.fixture
def transport(sshd: Sshd) -> Iterator[SharedTransport]:
    with connected(sshd) as transport:
        yield transport


def has_free_session(transport: SharedTransport) -> bool:
    try:
        transport.open_stream(timeout_s=PATIENCE_S).close()
    except paramiko.ChannelException:
        return False
    return True


def connection_threads() -> set[threading.Thread]:
    return {
        one
        for one in threading.enumerate()
        if isinstance(one, SharedTransport) or one.name == "ssh-pump"
    }


# --- the beginning ---


def test_paramiko_of_this_environment_is_as_expected() -> None:
    check_paramiko()
    assert takes_whole_packets()


@pytest.mark.parametrize(
    ("of", "part"),
    [
        (Packetizer, "_trigger_rekey"),
        (paramiko.Channel, "_feed"),
        (paramiko.Transport, "_kex_info"),
    ],
)
def test_a_paramiko_that_lacks_a_part_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, of: type, part: str
) -> None:
    monkeypatch.delattr(of, part)
    with pytest.raises(TransportError, match=rf"lacks {of.__name__}\.{part}, so no SSH"):
        SshConnection([], name="far").open()


def test_every_private_part_that_is_replaced_is_looked_for() -> None:
    replaced = {
        (base, name)
        for ours, base in (
            (SharedTransport, paramiko.Transport),
            (QueuedTransport, paramiko.Transport),
            (SharedChannel, paramiko.Channel),
            (SharedPacketizer, Packetizer),
        )
        for name in vars(ours)
        if name.startswith("_") and not name.startswith("__") and hasattr(base, name)
    }
    looked_for = {(of, name) for of, names in _PRIVATE_PARTS.items() for name in names.split()}
    assert replaced <= looked_for


def test_weak_algorithms_are_not_offered(transport: SharedTransport) -> None:
    offered = [*transport.preferred_ciphers, *transport.preferred_macs, *transport.preferred_kex]
    assert offered[0] == "aes128-gcm@openssh.com"
    assert not [name for name in offered if "cbc" in name or "3des" in name or "md5" in name]
    assert not [name for name in offered if "sha1" in name and "sha2" not in name]


@pytest.mark.parametrize(
    "line",
    [
        "KexAlgorithms curve25519-sha256",
        "MACs umac-128-etm@openssh.com",
        "Ciphers aes256-gcm@openssh.com",
        "Ciphers aes256-ctr",
        "HostKeyAlgorithms ecdsa-sha2-nistp256",
    ],
)
def test_logs_in_where_the_server_has_little_to_choose_from(make_sshd: MakeSshd, line: str) -> None:
    sshd = make_sshd(line)
    kind = "ctr" if line.endswith("ctr") else "gcm"
    transport = SharedTransport(socket.create_connection((sshd.host, sshd.port)))
    try:
        transport.start_client(timeout=PATIENCE_S)
        transport.auth_publickey(sshd.user, paramiko.PKey.from_path(sshd.key))
        assert transport.fast is (kind == "gcm")
        assert run(transport, "echo hello; exit 3") == (3, b"hello\n")
    finally:
        transport.close()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_host_certificates_are_agreed_on_where_they_are_preferred(
    make_sshd: MakeSshd, kind: str
) -> None:
    sshd = make_sshd()
    folder = sshd.folder
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "ca")], check=True
    )
    public = folder / f"host_{kind}.pub"
    sign = ["ssh-keygen", "-q", "-s", str(folder / "ca"), "-h", "-I", "host", "-n", sshd.host]
    subprocess.run([*sign, str(public)], check=True)
    sshd.lines = [f"HostCertificate {folder}/host_{kind}-cert.pub"]
    sshd.restart()
    name = {"ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256"}[kind]
    for first in (f"{name}-cert-v01@openssh.com", name):
        transport = SharedTransport(socket.create_connection((sshd.host, sshd.port)))
        try:
            transport.prefer_host_keys(["no-such-algorithm", first])
            transport.start_client(timeout=PATIENCE_S)
            assert transport.host_key_type == first
            assert transport.get_remote_server_key().get_name() == name
        finally:
            transport.close()


def test_a_server_that_says_nothing_is_given_up() -> None:
    before = connection_threads()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = SharedTransport(socket.create_connection(silent.getsockname()))
        transport.banner_timeout = 0.2
        with pytest.raises(paramiko.SSHException, match="banner"):
            transport.start_client(timeout=PATIENCE_S)
        transport.close()
    assert connection_threads() == before


# --- channels ---


def test_sessions_beyond_the_server_s_limit_are_refused_and_come_free_again(
    make_sshd: MakeSshd,
) -> None:
    with connected(make_sshd("MaxSessions 1")) as transport:
        first = transport.open_stream(timeout_s=PATIENCE_S)
        with pytest.raises(paramiko.ChannelException) as refused:
            transport.open_stream(timeout_s=PATIENCE_S)
        assert refused.value.code == 2
        first.close()
        assert first.gone.wait(PATIENCE_S)
        transport.open_stream(timeout_s=PATIENCE_S).close()


def test_a_channel_that_is_dropped_unclosed_is_closed_at_the_server(make_sshd: MakeSshd) -> None:
    with connected(make_sshd("MaxSessions 1")) as transport:
        channel = transport.open_stream(timeout_s=PATIENCE_S)
        del channel
        gc.collect()

        wait_until(lambda: has_free_session(transport))


def test_a_channel_that_nobody_waits_for_any_more_is_closed(
    make_sshd: MakeSshd, delayed: Delayed
) -> None:
    sshd = make_sshd("MaxSessions 1")
    line = delayed(sshd.port, 0.0)
    with connected(sshd, port=line.port) as transport:
        line.freeze()
        with pytest.raises(TimeoutError):
            transport.open_stream(timeout_s=0.05)
        line.thaw()
        assert transport.ping(PATIENCE_S) is not None  # behind the answer
        wait_until(lambda: has_free_session(transport))
        wait_until(lambda: len(transport._channels) == 0)


def test_end_of_input_from_many_threads_does_not_overtake_a_close(make_sshd: MakeSshd) -> None:
    with connected(make_sshd("MaxSessions 100")) as transport:

        def often(_: int) -> None:
            for _ in range(25):
                channel = transport.open_stream(timeout_s=PATIENCE_S)
                channel.exec_command("exit 0")
                channel.shutdown_write()
                while channel.recv(100):
                    pass
                channel.close()

        at_once(8, often)
        assert transport.is_active()


def test_paramiko_s_own_clients_work_on_it(transport: SharedTransport) -> None:
    sftp = paramiko.SFTPClient.from_transport(transport)
    assert sftp is not None
    with sftp:
        assert "etc" in sftp.listdir("/")


# --- new keys ---


@pytest.mark.parametrize("whose", ["ours", "the server's"])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_change_every_few_mb_under_mixed_load(
    make_sshd: MakeSshd, kind: str, whose: str
) -> None:
    ours = whose == "ours"
    sshd = make_sshd("MaxSessions 100", *([] if ours else ["RekeyLimit 2M"]))
    changes: list[int] = []
    rekey_bytes = KEYS_EVERY_BYTES if ours else None
    with connected(sshd, kind, rekey_bytes=rekey_bytes) as transport, serving(echo) as port:
        change = transport._handler_table[paramiko.common.MSG_NEWKEYS]

        def count(message: paramiko.Message) -> None:
            changes.append(1)
            change(message)

        transport._handler_table[paramiko.common.MSG_NEWKEYS] = count

        def work(i: int) -> None:
            for _ in range(4):
                if i % 4 == 0:
                    echo_through(transport, port, 4)
                elif i % 4 == 1:
                    data = os.urandom(3 << 20)
                    status, out = run(transport, "sha256sum", data)
                    assert (status, out[:64].decode()) == (0, hashlib.sha256(data).hexdigest())
                elif i % 4 == 2:
                    status, out = run(transport, "head -c 3000000 /dev/zero")
                    assert (status, len(out)) == (0, 3_000_000)
                else:
                    for _ in range(6):
                        assert run(transport, "echo $((6 * 7))") == (0, b"42\n")

        at_once(8, work)
        assert transport.is_active()
    assert len(changes) > 5


def test_keys_change_after_a_time_too(sshd: Sshd) -> None:
    with connected(sshd) as transport:
        first = transport.H
        transport.packetizer.REKEY_S = 0.0
        assert transport.ping(PATIENCE_S) is not None
        transport.packetizer.REKEY_S = 3600.0
        wait_until(lambda: first != transport.H and not transport.in_kex)
        assert run(transport, "echo on") == (0, b"on\n")


# --- signs of life, and the end ---


def test_ping_takes_a_round_trip(sshd: Sshd, delayed: Delayed) -> None:
    with connected(sshd, port=delayed(sshd.port, 0.05).port) as transport:
        round_trip_s = transport.ping(PATIENCE_S)
        assert round_trip_s is not None
        assert round_trip_s >= 0.1
        assert transport.idle_s < PATIENCE_S


@pytest.mark.parametrize("kind", ["gcm", "ctr"])
def test_a_frozen_link_is_noticed_and_closing_releases_everyone(
    sshd: Sshd, delayed: Delayed, kind: str
) -> None:
    line = delayed(sshd.port, 0.0)
    released: list[str] = []
    with connected(sshd, kind, port=line.port) as transport, serving(echo) as port:
        asleep = transport.open_stream(timeout_s=PATIENCE_S)
        asleep.exec_command("sleep 1000")
        near = carried(transport, port)
        line.freeze()

        def receive() -> None:
            assert asleep.recv(1) == b""

        def wait_for_exit() -> None:
            asleep.recv_exit_status()

        def start() -> None:
            with pytest.raises(ConnectionLostError):
                transport.open_stream(timeout_s=PATIENCE_S)

        def execute() -> None:
            with pytest.raises((EOFError, paramiko.SSHException, OSError)):
                unused.exec_command("true")

        def send() -> None:
            with pytest.raises(ConnectionLostError):
                transport.send_all(flooded, iter(lambda: bytes(1 << 18), b""))

        def read_carried() -> None:
            assert near.recv(1) == b""

        line.thaw()
        unused = transport.open_stream(timeout_s=PATIENCE_S)
        flooded = transport.open_stream(timeout_s=PATIENCE_S)
        flooded.exec_command("sleep 1000")
        line.freeze()
        works = (receive, wait_for_exit, start, execute, send, read_carried)

        def one(i: int) -> None:
            works[i]()
            released.append(works[i].__name__)

        everyone = threading.Thread(target=at_once, args=(len(works), one))
        everyone.start()
        assert transport.ping(0.2) is None
        assert released == []
        transport.close()
        everyone.join(PATIENCE_S)
        assert len(released) == len(works)
        near.close()
        line.thaw()


def test_closing_leaves_no_thread_and_no_descriptor(sshd: Sshd) -> None:
    gc.collect()
    threads, descriptors = connection_threads(), psutil.Process().num_fds()
    with serving(echo) as port:
        for _ in range(3):
            with connected(sshd) as transport:
                near = carried(transport, port)
                near.sendall(b"x")
                assert near.recv(1) == b"x"
                transport.open_stream(timeout_s=PATIENCE_S).exec_command("sleep 1000")
            near.close()
            assert not transport.is_active()
    assert connection_threads() == threads
    wait_until(lambda: psutil.Process().num_fds() <= descriptors)


def test_one_that_was_never_started_closes_as_well(sshd: Sshd) -> None:
    gc.collect()
    descriptors = psutil.Process().num_fds()
    SharedTransport(socket.create_connection((sshd.host, sshd.port))).close()
    wait_until(lambda: psutil.Process().num_fds() <= descriptors)


def test_a_connection_that_the_server_ends_leaves_nothing_either(make_sshd: MakeSshd) -> None:
    sshd = make_sshd()
    gc.collect()
    threads, descriptors = connection_threads(), psutil.Process().num_fds()
    with connected(sshd) as transport:
        channel = transport.open_stream(timeout_s=PATIENCE_S)
        channel.exec_command("sleep 1000")
        sshd.kill_sessions()
        assert channel.recv(1) == b""
        wait_until(lambda: not transport.is_alive())
        assert transport.ping(PATIENCE_S) is None
        with pytest.raises(ConnectionLostError):
            transport.open_stream(timeout_s=PATIENCE_S)
    del channel
    assert connection_threads() == threads
    wait_until(lambda: psutil.Process().num_fds() <= descriptors)


def test_a_forked_child_does_not_disturb_its_parent_s_connection(
    transport: SharedTransport,
) -> None:
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.exec_command("cat")
    channel.sendall(b"before")
    assert channel.recv(6) == b"before"
    child = os.fork()
    if child == 0:
        try:
            channel.close()
            transport.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    channel.sendall(b"after")
    assert channel.recv(5) == b"after"
    assert run(transport, "echo on") == (0, b"on\n")
    channel.close()


def test_a_connection_that_ends_while_a_channel_is_asked_for_answers_and_leaves_nothing(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = connection_threads()
    answers: list[BaseException | None] = []
    near, far = socket.socketpair()
    with near, far, connected(sshd) as transport:
        set_window = SharedChannel._set_window  # type: ignore[attr-defined]

        def late(channel: SharedChannel, *sizes: int) -> None:
            transport.close()
            set_window(channel, *sizes)

        monkeypatch.setattr(SharedChannel, "_set_window", late)
        transport.carry_soon(far, "127.0.0.1", 1, PATIENCE_S, answers.append)
        assert [type(one) for one in answers] == [ConnectionLostError]
        assert connection_threads() == before
        assert far.fileno() != -1


def test_a_socket_that_is_not_carried_yet_stays_its_owner_s_when_the_connection_is_lost(
    sshd: Sshd,
) -> None:
    near, far = socket.socketpair()
    answer: list[BaseException | None] = []
    with near, far, socket.socket() as deaf, connected(sshd) as transport:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        with socket.create_connection(deaf.getsockname()):  # its queue is full now
            port = deaf.getsockname()[1]
            transport.carry_soon(far, "127.0.0.1", port, PATIENCE_S, answer.append)
            transport.close()
        assert [type(one) for one in answer] == [ConnectionLostError]
        assert far.fileno() != -1


def test_what_is_queued_while_a_batch_fails_is_sent(
    transport: SharedTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    channel.close()
    drain, came = transport.drain, threading.Event()

    def ask() -> None:
        transport._ask_for_sign_of_life(came.set)
        transport.push()

    def drain_and_let_others_ask() -> None:
        monkeypatch.setattr(transport, "drain", drain)
        drain()
        other = threading.Thread(target=ask)
        other.start()
        other.join()

    monkeypatch.setattr(transport, "drain", drain_and_let_others_ask)
    with pytest.raises(ConnectionLostError):
        transport.send_batch(channel, OutgoingPackets(), 1)
    assert not transport._outbox
    assert came.wait(PATIENCE_S)


class Tasks(deque[Callable[[], None]]):
    """Calls `unseen` once when it is found empty."""

    unseen: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        some = len(self) > 0
        if not some and self.unseen is not None:
            unseen, self.unseen = self.unseen, None
            unseen()
        return some


class NoLine:
    """Of a pump that carries nothing."""

    def congested(self) -> bool:
        return False

    def flush_link(self) -> bool:
        return True

    def lost(self, why: BaseException) -> None:
        raise why


def test_what_is_posted_just_before_the_end_is_done() -> None:
    near, far = socket.socketpair()
    done: list[bool] = []
    with near, far:
        pump = Pump(NoLine(), near)
        pump._tasks = tasks = Tasks()

        def at_the_end() -> None:
            pump.post(lambda: done.append(True))
            pump.stop()

        tasks.unseen = at_the_end
        pump.start()
        pump.post(lambda: None)
        pump.thread.join(PATIENCE_S)
    assert done == [True]
