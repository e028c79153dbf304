"""A machine over SSH as a Transport: failures, and leftovers on the machine.
`tests/contract/test_transport.py` tests every Transport."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import psutil
import pytest

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.ssh.odd_users import BANNER
from tests.ssh.plugin import Delayed, MakeSshd
from tests.ssh.processes import words_of
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0


@contextmanager
def transport_to(sshd: Sshd, *lines: str) -> Iterator[SshTransport]:
    connection = SshConnection([sshd.hop(*lines)], name="far")
    transport = SshTransport(connection)
    yield transport
    transport.close()
    connection.close()


@pytest.fixture
def own_sshd(make_sshd: MakeSshd) -> Sshd:
    return make_sshd()


@pytest.fixture
def transport(own_sshd: Sshd) -> Iterator[SshTransport]:
    with transport_to(own_sshd) as transport:
        yield transport


def far_side(sshd: Sshd) -> list[str]:
    """Return the names of our processes on the host, except sshd."""
    found = []
    for process in sshd.processes():
        words = words_of(process)
        if words and not words[0].startswith("sshd"):
            found.append(Path(words[0]).name)
    return sorted(found)


def know(sshd: Sshd, port: int) -> None:
    """Add the sshd's host keys to the known hosts for another port."""
    known = sshd.known_hosts.read_text()
    sshd.known_hosts.write_text(known + known.replace(f":{sshd.port} ", f":{port} "))


HELPER = ["sh"]


def helper(sshd: Sshd) -> list[psutil.Process]:
    """Return the processes of the only remote shell."""
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found := shells(sshd)) != len(HELPER):
        assert time.monotonic() < deadline_s, found
    # Sort by depth, since process IDs start again at some point.
    return sorted(found, key=lambda one: (len(one.parents()), one.create_time(), one.pid))


def shells(sshd: Sshd) -> list[psutil.Process]:
    found = []
    for process in sshd.processes():
        with suppress(psutil.NoSuchProcess):
            if process.name() in {"sh", "dash"}:
                found.append(process)
    return found


# --- odd logins ---


def test_every_login_shell_works(odd_sshd: Sshd, tmp_path: Path) -> None:
    word = 'it\'s a "word"\n$HOME !! \\ é'
    big = tmp_path / "big"
    big.write_bytes(b"x" * 1_000_000)
    with transport_to(odd_sshd) as transport:
        home = transport.home()
        assert str(home) == str(odd_sshd.account.home)
        done = transport.run(["sh", "-c", 'printf %s "$1$V"; pwd >&2', "sh", word], env={"V": word})
        assert (done.stdout.decode(), done.stderr.decode()) == (word * 2, f"{home}\n")
        files: dict[str, bytes | Path] = {"a": b"1", "big": big}
        assert transport.upload_and_run(home / word, files, ["cat", "a"]).stdout == b"1"
        assert transport.listing(home / word) == ["a", "big"]
        sizes = {home / word / "a": 0}
        assert transport.grown(sizes, wait_s=PATIENCE_S, wake=threading.Event()) == {
            home / word / "a": 1
        }
        with (tmp_path / "sink").open("wb") as sink:
            done = transport.receive(["cat", str(home / word / "big")], sink, most_bytes=1 << 30)
        assert BANNER not in done.stderr.decode()
        assert (tmp_path / "sink").stat().st_size == 1_000_000
        assert transport.send(["wc", "-c"], [b"x" * 100]).stdout.split() == [b"100"]
        with transport.open_stream(["echo", "well"]) as near:
            assert near.recv(100) == b"well\n"


def test_error_for_an_account_without_a_shell_shows_the_hosts_message(make_sshd: MakeSshd) -> None:
    sshd = make_sshd("ForceCommand echo Only on weekdays.; exit 1")
    with transport_to(sshd) as transport, pytest.raises(TransportError) as caught:
        transport.run(["true"])
    assert "usable shell" in str(caught.value.message)
    assert caught.value.detail == "Only on weekdays."


def test_slurm_on_the_path_of_login_shells_is_found(make_sshd: MakeSshd, ssh_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can make users.")
    bare = ssh_folder / f"bin-{secrets.token_hex(4)}"
    bare.mkdir(mode=0o755)
    for program in Path("/usr/bin").iterdir():
        if program.name != "sbatch":
            (bare / program.name).symlink_to(program)
    sshd = make_sshd(f"SetEnv PATH={bare}", shell="/bin/bash")
    folder = sshd.account.home / "it's slurm"
    folder.mkdir(mode=0o755)
    sshd.account.write("it's slurm/sbatch", "#!/bin/sh\necho ours\n", 0o755)
    sshd.account.write(".profile", f'echo hello; PATH="{folder}":$PATH\n')
    connection = SshConnection([sshd.hop()], name="far")
    transport = SshTransport(connection, path=["/nowhere"])
    try:
        assert transport.run(["sbatch"]).stdout == b"ours\n"
        path = transport.run(["sh", "-c", "echo $PATH"]).stdout.decode()
        assert path.startswith(f"/nowhere:{folder}:")
    finally:
        transport.close()
        connection.close()


def test_path_and_environment_of_the_profile_reach_every_program(own_sshd: Sshd) -> None:
    connection = SshConnection([own_sshd.hop()], name="far")
    transport = SshTransport(connection, path=["/a b", "/c"], env={"CANARY": "it's\n$x"})
    try:
        assert transport.run(["sh", "-c", 'echo "$PATH"']).stdout.startswith(b"/a b:/c:")
        assert transport.run(["sh", "-c", 'echo "$CANARY"']).stdout == b"it's\n$x\n"
        assert transport.send(["sh", "-c", 'echo "$CANARY"'], []).stdout == b"it's\n$x\n"
    finally:
        transport.close()
        connection.close()


# --- load and traces on the host ---


def test_only_the_helper_waits_on_the_host(own_sshd: Sshd, transport: SshTransport) -> None:
    transport.run(["true"])
    wait_until(lambda: far_side(own_sshd) == HELPER)
    transport.close()
    wait_until(lambda: far_side(own_sshd) == [])


def test_remote_command_lines_do_not_contain_secrets(own_sshd: Sshd, tmp_path: Path) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    connection = SshConnection([own_sshd.hop()], name="far")
    transport = SshTransport(connection, env={"PROFILE": canary})
    upload = tmp_path / "upload"
    upload.write_bytes(canary.encode())
    leaks: list[list[str]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for one in psutil.process_iter():
                try:
                    words = one.cmdline()
                except psutil.Error:
                    continue
                if any(canary in word for word in words):
                    leaks.append(words)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        home = transport.home()
        for _ in range(3):
            transport.run(["sleep", "0.05"], env={"V": canary})
            transport.run(["sh", "-c", "sleep 0.05; cat"], stdin=canary.encode() * 1000)
            files: dict[str, bytes | Path] = {"key": canary.encode(), "in": upload}
            upload.write_bytes(canary.encode())
            transport.upload_and_run(home / "job", files, ["sleep", "0.05"])
            transport.send(["sleep", "0.05"], [canary.encode()])
    finally:
        over.set()
        watcher.join()
        transport.close()
        connection.close()
    assert leaks == []


# --- faults ---


def test_killed_helper_loses_only_its_command(own_sshd: Sshd, transport: SshTransport) -> None:
    transport.run(["true"])
    shell = helper(own_sshd)[0]
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(transport.run, ["sleep", "602"])
        wait_until(lambda: "sleep" in far_side(own_sshd))
        os.killpg(shell.pid, signal.SIGKILL)
        with pytest.raises(ConnectionLostError):
            wait.result()
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def test_reads_resume_after_a_lost_connection_and_commands_do_not_run_twice(
    own_sshd: Sshd, delayed: Delayed
) -> None:
    line = delayed(own_sshd.port, 0.0)
    know(own_sshd, line.port)
    with transport_to(own_sshd, f"Port {line.port}") as transport:
        file = transport.home() / f"runs-{secrets.token_hex(4)}"
        for _ in range(3):
            transport.run(["true"])
            line.cut()
            assert transport.exists(PurePosixPath("/"))
        with ThreadPoolExecutor(1) as pool:
            script = 'echo ran >>"$1"; sleep 603'
            wait = pool.submit(transport.run, ["sh", "-c", script, "sh", str(file)])
            wait_until(lambda: transport.read(file))
            line.cut()
            with pytest.raises(ConnectionLostError):
                wait.result()
        assert transport.read(file) == b"ran\n"
        transport.remove_tree(file)


def test_command_without_a_connection_is_reported_as_not_started(own_sshd: Sshd) -> None:
    with transport_to(own_sshd) as transport:
        transport.run(["true"])
        own_sshd.stop()
        wait_until(lambda: transport.connection.state.value != "open")
        with pytest.raises(TransportError) as caught:
            transport.run(["true"])
        assert not isinstance(caught.value, ConnectionLostError)


def test_transport_works_with_one_session(make_sshd: MakeSshd) -> None:
    with transport_to(make_sshd("MaxSessions 1")) as transport:
        home = transport.home()
        name = f"few-{secrets.token_hex(4)}"
        wake = threading.Event()
        with ThreadPoolExecutor(8) as pool:
            growth = pool.submit(
                transport.grown, {home / name / "a": 0}, wait_s=PATIENCE_S, wake=wake
            )
            runs = [pool.submit(transport.run, ["echo", str(n)]) for n in range(6)]
            sent = pool.submit(transport.send, ["wc", "-c"], [b"x" * 100_000])
            assert [run.result().stdout for run in runs] == [f"{n}\n".encode() for n in range(6)]
            assert int(sent.result().stdout) == 100_000
            transport.upload_and_run(home / name, {"a": b"1"}, ["true"])
            assert growth.result() == {home / name / "a": 1}
        transport.remove_tree(home / name)
