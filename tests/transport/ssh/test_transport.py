"""A machine over SSH as a Transport: what can go wrong there, and what is left there. What every
Transport does is in `tests/contract/test_transport.py`."""

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
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.transport.shell import helper as shell_helper
from jupyter_slurm.transport.shell.far_shell import FarShell
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.ssh.odd_users import BANNER
from tests.ssh.plugin import Delayed, MakeSshd
from tests.ssh.processes import name_of, runs, words_of
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
    """What runs there for us, less sshd itself."""
    found = []
    for process in sshd.processes():
        words = words_of(process)
        if words and not words[0].startswith("sshd"):
            found.append(Path(words[0]).name)
    return sorted(found)


def know(sshd: Sshd, port: int) -> None:
    """Its host keys are known for another port, too."""
    known = sshd.known_hosts.read_text()
    sshd.known_hosts.write_text(known + known.replace(f":{sshd.port} ", f":{port} "))


HELPER = ["sh", "sh", "sh"]
"""One that waits for the two others: who reads, and who runs commands."""


def helper(sshd: Sshd) -> list[psutil.Process]:
    """The shells of the only one there is, in that order."""
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found := shells(sshd)) != len(HELPER):
        assert time.monotonic() < deadline_s, found
    # By their depth: process ids begin anew at some moment.
    return sorted(found, key=lambda one: (len(one.parents()), one.create_time(), one.pid))


def shells(sshd: Sshd) -> list[psutil.Process]:
    found = []
    for process in sshd.processes():
        with suppress(psutil.NoSuchProcess):
            if process.name() in {"sh", "dash"}:
                found.append(process)
    return found


# --- odd logins ---


def test_every_login_shell_will_do(odd_sshd: Sshd, tmp_path: Path) -> None:
    word = 'it\'s a "word"\n$HOME !! \\ é'
    big = tmp_path / "big"
    big.write_bytes(b"x" * 1_000_000)
    with transport_to(odd_sshd) as transport:
        home = transport.home()
        assert str(home) == str(odd_sshd.account.home)
        done = transport.run(["sh", "-c", 'printf %s "$1$V"; pwd >&2', "sh", word], env={"V": word})
        assert (done.stdout.decode(), done.stderr.decode()) == (word * 2, f"{home}\n")
        files: dict[str, bytes | Path] = {"a": b"1", "big": big}
        assert transport.deliver(home / word, files, ["cat", "a"]).stdout == b"1"
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
        with transport.converse(["echo", "well"]) as near:
            assert near.recv(100) == b"well\n"


@pytest.mark.parametrize("when", ["at once", "when it has hung up"])
def test_a_login_that_gives_no_shell_is_said_with_its_own_words(
    make_sshd: MakeSshd, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd = make_sshd("ForceCommand echo Only on weekdays.; exit 1")
    send = FarShell.send

    def sent_late(shell: FarShell, data: bytes) -> None:
        wait_until(lambda: not shell.alive)
        send(shell, data)

    if when != "at once":
        monkeypatch.setattr(FarShell, "send", sent_late)
    with transport_to(sshd) as transport, pytest.raises(TransportError) as caught:
        transport.run(["true"])
    assert "no shell" in str(caught.value.message)
    assert caught.value.detail == "Only on weekdays."


def test_a_slow_login_shell_is_waited_for_once(make_sshd: MakeSshd) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can make users.")
    sshd = make_sshd(shell="/bin/bash")
    sshd.account.write(".bashrc", "echo started >>~/starts; sleep 0.3\n")
    with transport_to(sshd) as transport:
        transport.run(["true"])
        once = (sshd.account.home / "starts").read_text()
        for _ in range(5):
            transport.run(["true"])
            transport.exists(PurePosixPath("/"))
    assert (sshd.account.home / "starts").read_text() == once


def test_slurm_on_the_path_of_a_login_only_is_found(make_sshd: MakeSshd, ssh_folder: Path) -> None:
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


# --- a good guest ---


def test_nothing_but_shells_waits_there(own_sshd: Sshd, transport: SshTransport) -> None:
    transport.run(["true"])
    wait_until(lambda: far_side(own_sshd) == HELPER)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: transport.run(["sleep", "0.05"]), range(12)))
    wait_until(lambda: far_side(own_sshd) == 2 * HELPER)
    transport.close()
    wait_until(lambda: far_side(own_sshd) == [])


_FOLLOWING = ([*HELPER, "sh", "sh"], [*HELPER, "sh", "sh", "sleep"])


def test_as_many_processes_follow_one_file_as_forty(
    own_sshd: Sshd, transport: SshTransport
) -> None:
    transport.run(["true"])
    for number in (1, 40):
        sizes = {transport.home() / f"none-{n}": 0 for n in range(number)}
        wake = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            wait = pool.submit(transport.grown, sizes, wait_s=PATIENCE_S, wake=wake)
            # A helper, the shell that follows and its subshell; `sleep` and `wc` come and go.
            wait_until(lambda: far_side(own_sshd) in _FOLLOWING)
            wake.set()
            assert wait.result() == {}
        wait_until(lambda: far_side(own_sshd) == [*HELPER, "sh"])


def test_nothing_is_left_when_the_connection_is_cut(
    own_sshd: Sshd, transport: SshTransport
) -> None:
    home = transport.home()
    wake = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        run = pool.submit(transport.run, ["sh", "-c", "sleep 601 & sleep 601"])
        growth = pool.submit(transport.grown, {home / "no": 0}, wait_s=PATIENCE_S, wake=wake)
        received = pool.submit(_received, transport, ["sleep", "601"])
        wait_until(lambda: far_side(own_sshd).count("sleep") >= 3)
        there = [one for one in own_sshd.processes() if name_of(one) in {"sh", "dash", "sleep"}]
        for pid in own_sshd.pids():
            with suppress(psutil.NoSuchProcess):  # it ends with the one before it
                for one in [*psutil.Process(pid).children(), psutil.Process(pid)]:
                    if one.name() == "sshd":
                        one.send_signal(signal.SIGKILL)
        with pytest.raises(ConnectionLostError):
            run.result()
        with pytest.raises(ConnectionLostError):
            received.result()
        _, alive = psutil.wait_procs(there, timeout=PATIENCE_S)
        assert not [one for one in alive if runs(one)]
        wake.set()
        assert growth.result() == {}  # taken up again over a new connection
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def _received(transport: SshTransport, argv: list[str]) -> int:
    with Path(os.devnull).open("wb") as sink:
        return transport.receive(argv, sink, most_bytes=1 << 30).returncode


def test_secrets_are_in_no_command_line_there(own_sshd: Sshd, tmp_path: Path) -> None:
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
            transport.deliver(home / "job", files, ["sleep", "0.05"])
            transport.send(["sleep", "0.05"], [canary.encode()])
    finally:
        over.set()
        watcher.join()
        transport.close()
        connection.close()
    assert leaks == []


# --- faults ---


def test_a_helper_that_was_killed_is_replaced(own_sshd: Sshd, transport: SshTransport) -> None:
    transport.run(["true"])
    for _ in range(3):
        os.killpg(helper(own_sshd)[0].pid, signal.SIGKILL)
        assert transport.exists(PurePosixPath("/"))
        assert transport.run(["echo", "well"]).stdout == b"well\n"
        assert own_sshd.logins() == 1


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_helper_of_which_a_part_was_killed_costs_one_command_at_most(
    own_sshd: Sshd, transport: SshTransport, which: int
) -> None:
    transport.run(["true"])
    helper(own_sshd)[which].send_signal(signal.SIGKILL)
    with suppress(ConnectionLostError):
        assert transport.run(["echo", "well"]).stdout == b"well\n"
    assert transport.run(["echo", "well"]).stdout == b"well\n"
    wait_until(lambda: far_side(own_sshd) == HELPER)


def test_a_helper_killed_with_a_command_before_it_loses_it_and_only_it(
    own_sshd: Sshd, transport: SshTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_helper, "_QUIET_S", 0.5)
    transport.run(["true"])
    _, hands_on, obeys = helper(own_sshd)
    obeys.suspend()
    before = hands_on.io_counters().write_count
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(transport.run, ["echo", "well"], timeout_s=600)
        wait_until(lambda: hands_on.io_counters().write_count > before)
        obeys.kill()
        with pytest.raises(ConnectionLostError):
            lost.result(PATIENCE_S)
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def test_a_helper_killed_under_a_command_loses_it_and_only_it(
    own_sshd: Sshd, transport: SshTransport
) -> None:
    transport.run(["true"])
    shell = helper(own_sshd)[0]
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(transport.run, ["sleep", "602"])
        wait_until(lambda: "sleep" in far_side(own_sshd))
        os.killpg(shell.pid, signal.SIGKILL)
        with pytest.raises(ConnectionLostError):
            wait.result()
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def test_a_shell_that_follows_and_is_killed_is_replaced(
    own_sshd: Sshd, transport: SshTransport
) -> None:
    path = transport.home() / f"grows-{secrets.token_hex(4)}"
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(transport.grown, {path: 0}, wait_s=PATIENCE_S, wake=threading.Event())
        # Only what looks at files sleeps: five shells alone may be one that is being opened.
        wait_until(lambda: far_side(own_sshd) == _FOLLOWING[1])
        for shell in shells(own_sshd):
            with suppress(psutil.NoSuchProcess):  # it ends with the one before it
                shell.send_signal(signal.SIGKILL)
        assert transport.exists(PurePosixPath("/"))
        transport.run(["sh", "-c", 'echo x >"$1"', "sh", str(path)])
        assert wait.result() == {path: 2}
    transport.remove_tree(path)


@pytest.mark.parametrize("which", [1, 2])
def test_a_hung_helper_is_given_up_after_the_time_out(
    own_sshd: Sshd, transport: SshTransport, which: int
) -> None:
    transport.run(["true"])
    shell = helper(own_sshd)[which]
    shell.suspend()
    try:
        with pytest.raises(TimedOutError):
            transport.run(["true"], timeout_s=0.2)
    finally:
        with suppress(psutil.NoSuchProcess):  # who reads has killed who runs
            shell.send_signal(signal.SIGCONT)
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def test_reading_goes_on_after_a_cut_and_a_command_is_not_run_twice(
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


def test_an_upload_that_is_cut_runs_nothing_and_keeps_the_local_file(
    own_sshd: Sshd, delayed: Delayed, tmp_path: Path
) -> None:
    line = delayed(own_sshd.port, 0.0, 10e6)
    know(own_sshd, line.port)
    upload = tmp_path / "upload"
    upload.write_bytes(bytes(20_000_000))
    with transport_to(own_sshd, f"Port {line.port}") as transport:
        folder = transport.home() / f"job-{secrets.token_hex(4)}"
        with ThreadPoolExecutor(1) as pool:
            wait = pool.submit(transport.deliver, folder, {"in": upload}, ["touch", "ran"])
            wait_until(lambda: transport.exists(folder))
            line.cut()
            with pytest.raises(ConnectionLostError):
                wait.result()
        assert upload.exists()
        wait_until(lambda: transport.listing(folder) == [])
        assert transport.deliver(folder, {"in": upload}, ["ls", "-A"]).stdout == b"in\n"
        assert not upload.exists()
        transport.remove_tree(folder)


def test_without_a_way_nothing_is_begun_and_that_is_said(own_sshd: Sshd) -> None:
    with transport_to(own_sshd) as transport:
        transport.run(["true"])
        own_sshd.stop()
        wait_until(lambda: transport.connection.state.value != "open")
        with pytest.raises(TransportError) as caught:
            transport.run(["true"])
        assert not isinstance(caught.value, ConnectionLostError)


@pytest.mark.parametrize("sessions", [1, 2, 3])
def test_everything_works_with_few_sessions(
    make_sshd: MakeSshd, tmp_path: Path, sessions: int
) -> None:
    with transport_to(make_sshd(f"MaxSessions {sessions}")) as transport:
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
            transport.deliver(home / name, {"a": b"1"}, ["true"])
            assert growth.result() == {home / name / "a": 1}
        transport.remove_tree(home / name)


def test_a_closed_transport_says_so(own_sshd: Sshd) -> None:
    with transport_to(own_sshd) as transport:
        transport.run(["true"])
        transport.close()
        with pytest.raises(TransportError, match="closed"):
            transport.run(["true"])
