"""A shared connection to real sshds: opened once, kept, lost and reopened."""

from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from jupyter_slurm.errors import (
    ConnectionLostError,
    JupyterSlurmError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.transport.ask import Prompt
from jupyter_slurm.transport.ssh import connection as ssh_connection
from jupyter_slurm.transport.ssh import watchdog
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import route
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.ssh.kept import Keeper
from tests.ssh.odd_users import Person
from tests.ssh.plugin import Delayed, MakeGateway, MakeSshd
from tests.ssh.slow_line import SlowLine
from tests.ssh.sshd import Sshd, free_port
from tests.ssh.waiting import wait_until
from tests.transport.ssh.conftest import Connect, say


def test_simultaneous_callers_share_one_login(make_sshd: MakeSshd, connect: Connect) -> None:
    sshd = make_sshd()
    connection = connect(sshd.hop())
    together = threading.Barrier(8)
    said: list[str] = []

    def one() -> None:
        together.wait()
        connection.open()
        said.append(say(connection))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["there"] * 8
    assert sshd.logins() == 1


def test_users_own_ssh_master_is_not_changed(
    make_sshd: MakeSshd, connect: Connect, ssh_keeper: Keeper, tmp_path: Path
) -> None:
    sshd = make_sshd()
    path, config = tmp_path / "master", tmp_path / "config"
    config.write_text(sshd.stanza("*", f"ControlPath {path}"))
    ssh = ["ssh", "-F", str(config)]
    ssh_keeper.start([*ssh, "-NM", sshd.alias], tmp_path / "master.log", sshd.env)
    check = [*ssh, "-O", "check", sshd.alias]
    wait_until(lambda: subprocess.run(check, env=sshd.env, check=False).returncode == 0)
    before = sshd.pids()
    with subprocess.Popen(
        [*ssh, sshd.alias, "cat"], env=sshd.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        for words in (b"one\n", b"two\n"):
            session.stdin.write(words)
            session.stdin.flush()
            assert session.stdout.readline() == words
            connection = connect(*route(sshd.alias, config=config))
            assert say(connection) == "there"
            with connection.session("cat"):
                connection.close()
            wait_until(lambda: sshd.pids() == before)
        session.stdin.write(b"three\n")
        session.stdin.close()
        assert session.stdout.read() == b"three\n"
    assert session.returncode == 0
    assert sshd.logins() == 3
    subprocess.run([*ssh, "-O", "exit", sshd.alias], env=sshd.env, check=True)


# --- unreachable hosts ---


def failure(connection: SshConnection) -> JupyterSlurmError:
    with pytest.raises(TransportError) as caught:
        connection.open()
    return caught.value


def test_closed_port_is_reported(sshd: Sshd, connect: Connect) -> None:
    port = free_port()
    error = failure(connect(sshd.hop(f"Port {port}"), hint="Is the VPN on?"))
    assert "refuses connections" in str(error.message)
    assert f"127.0.0.1:{port} ({sshd.alias})" in str(error.message)
    assert str(error.hint).startswith("Is the VPN on?")


def test_silent_host_is_reported(sshd: Sshd, connect: Connect) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        with socket.create_connection(deaf.getsockname()):  # its queue is full now
            port = deaf.getsockname()[1]
            error = failure(connect(sshd.hop(f"Port {port}", "ConnectTimeout 1")))
    assert "did not answer within 1 s" in str(error.message)


def test_failed_login_is_not_retried_at_once(make_sshd: MakeSshd, connect: Connect) -> None:
    sshd = make_sshd()
    sshd.stop()
    connection = connect(sshd.hop())
    first = failure(connection)
    connection._again_after_s = 600.0
    sshd.start()
    assert failure(connection).message == first.message
    connection.open(lambda _: "")
    assert say(connection) == "there"


# --- lost connections ---

NO_KEYS = ("IdentityFile none",)


def by(line: SlowLine, sshd: Sshd) -> tuple[str, ...]:
    """Return options for reaching `sshd` over a line that tests can cut."""
    return (f"Port {line.port}", f"HostKeyAlias [127.0.0.1]:{sshd.port}")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Detect silent connections early."""
    monkeypatch.setattr(watchdog, "_PING_S", 1.0)
    monkeypatch.setattr(ssh_connection, "_PING_S", 1.0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry lost or silent connections early."""
    monkeypatch.setattr(watchdog, "_SILENT_INTERVAL_S", 0.1)
    monkeypatch.setattr(watchdog, "_FIRST_PAUSE_S", 0.1)


class Waiting:
    """A thread that waits in a session for output that never comes."""

    def __init__(self, connection: SshConnection) -> None:
        self.error: BaseException | None = None
        self._connection = connection
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        assert self._begun.wait(60)

    def _wait(self) -> None:
        try:
            with self._connection.session("echo begun; cat") as session:
                session.stdout.recv(6)
                self._begun.set()
                session.stdout.recv(1)
                while True:  # the master's end closes a moment after its process has died
                    session.stdin.sendall(b"it has ended")
        except BaseException as exc:
            self.error = exc

    def ended(self) -> BaseException | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.error


def test_waiting_session_fails_and_the_connection_reconnects(
    make_sshd: MakeSshd, connect: Connect, hasty: None
) -> None:
    gateway, login = make_sshd(), make_sshd()
    connection = connect(gateway.hop(), login.hop())
    waiting = [Waiting(connection) for _ in range(3)]
    gateway.restart()
    for one in waiting:
        assert isinstance(one.ended(), ConnectionLostError)
    wait_until(lambda: connection.state == "open" and connection.generation == 2)
    assert say(connection) == "there"


def test_frozen_connection_is_dropped_and_reconnected(
    make_sshd: MakeSshd, connect: Connect, delayed: Delayed, hasty: None, impatient: None
) -> None:
    sshd = make_sshd()
    line = delayed(sshd.port, 0.0)
    connection = connect(sshd.hop(*by(line, sshd)))
    waiting = Waiting(connection)
    line.freeze()
    connection.suspect()
    assert isinstance(waiting.ended(), ConnectionLostError)
    assert connection.state in {"lost", "connecting"}
    line.thaw()
    wait_until(lambda: connection.state == "open")
    assert connection.generation == 2
    assert say(connection) == "there"


def test_frozen_connection_of_an_idle_shell_is_dropped_and_reconnected(
    make_sshd: MakeSshd, connect: Connect, delayed: Delayed, hasty: None, impatient: None
) -> None:
    sshd = make_sshd()
    line = delayed(sshd.port, 0.0)
    connection = connect(sshd.hop(*by(line, sshd), "ServerAliveInterval 1"))
    transport = SshTransport(connection)
    assert transport.run(["true"]).returncode == 0
    line.freeze()
    wait_until(lambda: connection.state in {"lost", "connecting"})
    line.thaw()
    wait_until(lambda: connection.state == "open")
    assert transport.run(["true"]).returncode == 0
    transport.close()


# --- logins that need the user ---


class Typist:
    """Prompter that answers a gateway's questions as `person` would, and counts them."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.asked = 0

    def __call__(self, prompt: Prompt) -> str:
        self.asked += 1
        return (
            self.person.password if str(prompt.text).startswith("Password") else self.person.code()
        )


class BehindALine(NamedTuple):
    """A gateway to which `person` has logged in over a line that tests can freeze."""

    sshd: Sshd
    line: SlowLine
    connection: SshConnection


@pytest.fixture
def behind_a_line(
    gateway: MakeGateway, person: Person, connect: Connect, delayed: Delayed
) -> BehindALine:
    sshd = gateway()
    line = delayed(sshd.port, 0.0)
    hop = sshd.hop(*by(line, sshd), *NO_KEYS)
    connection = connect(hop)
    connection.open(Typist(person))
    return BehindALine(sshd, line, connection)


def test_silent_connection_keeps_a_login_that_needed_a_code(
    hasty: None,
    impatient: None,
    behind_a_line: BehindALine,
) -> None:
    sshd, line, connection = behind_a_line
    with connection.session("read word; echo $word") as session:
        connection.answers_again(0.01)
        line.freeze()
        connection.suspect()
        assert (connection.state, connection.round_trip_s) == ("lost", None)
        with pytest.raises(TransportError, match="does not answer at the moment"):
            connection.last()
        line.thaw()
        wait_until(lambda: connection.state == "open")
        session.stdin.sendall(b"still here\n")
        assert session.stdout.makefile().read() == "still here\n"
    assert connection.generation == 1
    assert sshd.logins() == 1


def test_command_on_a_silent_line_reports_a_lost_connection(
    hasty: None,
    impatient: None,
    behind_a_line: BehindALine,
) -> None:
    _, line, connection = behind_a_line
    transport = SshTransport(connection)
    assert transport.run(["true"]).returncode == 0
    line.freeze()
    with pytest.raises(ConnectionLostError):
        transport.run(["true"], timeout_s=0.5)
    line.thaw()
    wait_until(lambda: connection.state == "open")
    with pytest.raises(TimedOutError):  # the line answers
        transport.run(["sleep", "60"], timeout_s=0.5)
    transport.close()


def test_login_that_needs_the_user_never_starts_automatically(
    gateway: MakeGateway, person: Person, connect: Connect, hasty: None
) -> None:
    sshd = gateway()
    connection = connect(sshd.hop(*NO_KEYS))
    typist = Typist(person)
    connection.open(typist)
    sshd.restart()
    wait_until(lambda: connection.state == "login-needed")
    tried = sshd.log().count("Connection from")
    for _ in range(5):
        with pytest.raises(LoginNeededError):
            connection.last()
        with pytest.raises(LoginNeededError), connection.session("true"):
            pass
        with pytest.raises(LoginNeededError):
            connection.open()
    assert sshd.log().count("Connection from") == tried
    assert typist.asked == 2
    connection.open(typist)
    assert typist.asked == 4
    assert say(connection) == "there"


def test_inner_host_reconnects_without_a_new_code_at_the_gateway(
    gateway: MakeGateway, person: Person, make_sshd: MakeSshd, connect: Connect, hasty: None
) -> None:
    outer, login = gateway(), make_sshd()
    connection = connect(outer.hop(*NO_KEYS), login.hop())
    typist = Typist(person)
    connection.open(typist)
    login.restart()
    wait_until(lambda: connection.state == "open" and connection.generation == 2)
    assert say(connection) == "there"
    assert typist.asked == 2


def test_state_changes_are_reported_in_order(
    gateway: MakeGateway, person: Person, connect: Connect
) -> None:
    states: list[str] = []
    hop = gateway("code").hop(*NO_KEYS)
    connection: SshConnection = connect(
        hop, on_change=lambda: states.append(connection.state.value)
    )
    connection.open(Typist(person))
    connection.close()
    assert states == ["connecting", "asking", "connecting", "open", "closed"]


def test_disconnecting_during_a_question_leaves_the_state_login_needed(
    gateway: MakeGateway, person: Person, connect: Connect
) -> None:
    connection = connect(gateway("code").hop(*NO_KEYS))

    def disconnects(prompt: Prompt) -> str:
        connection.disconnect()
        return person.code()

    with pytest.raises(TransportError, match="was disconnected"):
        connection.open(disconnects)
    assert connection.state == "login-needed"
    with pytest.raises(LoginNeededError):
        connection.last()


# --- the end of the connection ---


def test_closing_ends_waiting_sessions_and_leaves_nothing_behind(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    gateway, login = make_sshd(), make_sshd()
    connection = connect(gateway.hop(), login.hop())
    waiting = [Waiting(connection) for _ in range(3)]
    connection.close()
    for one in waiting:
        assert isinstance(one.ended(), ConnectionLostError)
    assert connection.state == "closed"
    wait_until(lambda: gateway.pids() == login.pids() == [])
