"""One connection, shared: opened once, kept, lost and brought back, at real sshds."""

from __future__ import annotations

import gc
import shlex
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import psutil
import pytest

from jupyter_slurm.errors import (
    ConnectionLostError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport.ask import Prompt
from jupyter_slurm.transport.connect_callbacks import wait_for
from jupyter_slurm.transport.ssh import chain, master, sessions, watchdog
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.mux import RefusedError
from jupyter_slurm.transport.ssh.route import route
from jupyter_slurm.wire import QuestionKind
from tests.ssh.kept import Keeper
from tests.ssh.odd_users import Person
from tests.ssh.plugin import Delayed, MakeGateway, MakeSshd
from tests.ssh.slow_line import SlowLine
from tests.ssh.sshd import Sshd, free_port
from tests.ssh.waiting import wait_until
from tests.transport.ssh.conftest import Connect, say
from tests.transport.ssh_agents import SshAgent


@pytest.fixture
def ssh_agent(ssh_keeper: Keeper, tmp_path: Path) -> SshAgent:
    return SshAgent(ssh_keeper, tmp_path)


def test_a_command_runs_without_anybody_having_opened_it(sshd: Sshd, connect: Connect) -> None:
    connection = connect(sshd.hop())
    assert connection.state == "closed"
    assert say(connection) == "there"
    assert connection.state == "open"
    assert connection.generation == 1
    connection.close()
    assert connection.state == "closed"


def test_callers_at_the_same_time_share_one_login(make_sshd: MakeSshd, connect: Connect) -> None:
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


def test_a_chain_of_hops(make_sshd: MakeSshd, connect: Connect) -> None:
    gateway, middle, login = make_sshd(), make_sshd(), make_sshd()
    connection = connect(gateway.hop(), middle.hop(), login.hop())
    assert say(connection) == "there"
    assert [one.logins() for one in (gateway, middle, login)] == [1, 1, 1]


def test_a_master_that_the_user_opened_with_ssh_is_left_alone(
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


# --- it cannot be reached ---


def failure(connection: SshConnection) -> JupyterSlurmError:
    with pytest.raises(TransportError) as caught:
        connection.open()
    return caught.value


def test_a_port_where_nothing_listens(sshd: Sshd, connect: Connect) -> None:
    port = free_port()
    error = failure(connect(sshd.hop(f"Port {port}"), hint="Is the VPN on?"))
    assert "refuses connections" in str(error.message)
    assert f"127.0.0.1:{port} ({sshd.alias})" in str(error.message)
    assert str(error.hint).startswith("Is the VPN on?")


def test_a_name_that_nobody_knows(sshd: Sshd, connect: Connect) -> None:
    error = failure(connect(sshd.hop("HostName no-such-host.invalid")))
    assert "There is no host 'no-such-host.invalid'" in str(error.message)


def test_a_host_that_does_not_answer(sshd: Sshd, connect: Connect) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        with socket.create_connection(deaf.getsockname()):  # its queue is full now
            port = deaf.getsockname()[1]
            error = failure(connect(sshd.hop(f"Port {port}", "ConnectTimeout 1")))
    assert "did not answer within 1 s" in str(error.message)


def test_an_error_that_nobody_foresaw_is_told_to_all_and_ends_nothing(
    sshd: Sshd, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(sshd.hop())
    with monkeypatch.context() as patched:
        patched.setattr(master.Master, "_log_in", lambda *_: 1 // 0)
        error = failure(connection)
    assert "ZeroDivisionError" in str(error.detail)
    connection.open(lambda _: "")
    assert say(connection) == "there"


def test_a_failure_is_not_tried_again_at_once_without_a_person(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    sshd = make_sshd()
    sshd.stop()
    connection = connect(sshd.hop())
    first = failure(connection)
    connection._again_after_s = 600.0
    sshd.start()
    assert failure(connection).message == first.message
    connection.open(lambda _: "")
    assert say(connection) == "there"


def test_what_listens_there_is_no_ssh_server(sshd: Sshd, connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as sock:
                sock.sendall(b"Exceeded MaxStartups\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        error = failure(connect(sshd.hop(f"Port {server.getsockname()[1]}")))
        thread.join()
    assert "does not speak SSH" in str(error.message)


def test_a_gateway_that_lets_nothing_through(make_sshd: MakeSshd, connect: Connect) -> None:
    gateway, login = make_sshd("AllowTcpForwarding no"), make_sshd()
    error = failure(connect(gateway.hop(), login.hop()))
    assert f"{gateway.hop().label} does not let connections through" in str(error.message)


def test_a_host_that_its_gateway_cannot_reach(sshd: Sshd, connect: Connect) -> None:
    error = failure(connect(sshd.hop(), sshd.hop(f"Port {free_port()}"), hint="Is the VPN on?"))
    assert f"{sshd.hop().label} cannot reach" in str(error.message)
    assert "VPN" not in str(error.hint)


# --- ProxyCommand ---


def test_a_proxy_command_leads_there_and_ends_with_the_connection(
    sshd: Sshd, connect: Connect, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    carry = f"echo $$ > {shlex.quote(str(pid))}; exec ssh -F {sshd.config} -W %s:%d gateway"
    command = f"sh -c {shlex.quote(carry % (sshd.host, sshd.port))}"
    connection = connect(sshd.hop(f"ProxyCommand {command}"))
    assert say(connection) == "there"
    process = psutil.Process(int(pid.read_text()))
    connection.close()
    wait_until(lambda: not process.is_running())


def test_what_a_proxy_command_said_is_told(sshd: Sshd, connect: Connect) -> None:
    error = failure(connect(sshd.hop("ProxyCommand sh -c 'echo no ticket >&2; exit 3'")))
    assert "ProxyCommand" in str(error.message)
    assert str(error.detail).startswith("no ticket\n")


# --- host keys ---


def test_an_unknown_host_in_the_middle_is_asked_about_by_its_name(
    make_sshd: MakeSshd, connect: Connect, tmp_path: Path
) -> None:
    gateway, middle, login = make_sshd(), make_sshd(), make_sshd()
    stranger = middle.hop(
        f"UserKnownHostsFile {tmp_path / 'known_hosts'}", "StrictHostKeyChecking ask"
    )
    connection = connect(gateway.hop(), stranger, login.hop())
    with pytest.raises(LoginNeededError):
        connection.open()
    asked: list[Prompt] = []

    def yes(prompt: Prompt) -> str:
        asked.append(prompt)
        return "yes"

    connection.open(yes)
    assert [(prompt.kind, prompt.host) for prompt in asked] == [
        (QuestionKind.HOST_KEY, stranger.label)
    ]
    assert gateway.logins() == 1
    assert say(connection) == "there"


def test_a_changed_key_ends_it_before_anybody_logs_in(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    gateway, login = make_sshd(), make_sshd()
    other = (gateway.folder / "host_ed25519.pub").read_text()
    login.known_hosts.write_text(f"[{login.host}]:{login.port} {other}")
    connection = connect(gateway.hop(), login.hop())
    with pytest.raises(HostKeyError):
        connection.open()
    assert login.logins() == 0
    assert connection.state == "login-needed"
    assert connection.problem is not None
    assert connection.problem.code == "host-key"


# --- it is lost ---

NO_KEYS = ("IdentityFile none",)


def by(line: SlowLine, sshd: Sshd) -> tuple[str, ...]:
    """The way to `sshd` over a line that can be cut."""
    return (f"Port {line.port}", f"HostKeyAlias [127.0.0.1]:{sshd.port}")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not answer is noticed soon."""
    monkeypatch.setattr(watchdog, "_PING_S", 1.0)
    monkeypatch.setattr(chain, "_PING_S", 1.0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost or silent is tried again soon."""
    monkeypatch.setattr(watchdog, "_SILENT_INTERVAL_S", 0.1)
    monkeypatch.setattr(watchdog, "_FIRST_PAUSE_S", 0.1)


class Waiting:
    """A thread that waits in a session for what never comes."""

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
                while True:  # the master's end closes when its process has died, a moment later
                    session.stdin.sendall(b"it has ended")
        except BaseException as exc:
            self.error = exc

    def ended(self) -> BaseException | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.error


def test_who_waits_in_a_lost_connection_is_told_and_it_comes_back_by_itself(
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


def test_the_gateway_stays_when_the_host_behind_it_is_lost(
    make_sshd: MakeSshd, connect: Connect, hasty: None
) -> None:
    gateway, login = make_sshd(), make_sshd()
    connection = connect(gateway.hop(), login.hop())
    connection.open()
    login.restart()
    wait_until(lambda: connection.state == "open" and connection.generation == 2)
    assert say(connection) == "there"
    assert (gateway.logins(), login.logins()) == (1, 2)


def test_a_frozen_line_is_noticed_and_left_without_a_question(
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


def test_after_the_machine_has_slept_the_line_is_looked_at_first(
    make_sshd: MakeSshd,
    connect: Connect,
    delayed: Delayed,
    hasty: None,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sshd = make_sshd()
    line = delayed(sshd.port, 0.0)
    hop = sshd.hop(*by(line, sshd), "ConnectTimeout 10")
    connection = connect(hop)
    connection.open()
    line.freeze()
    monkeypatch.setattr(watchdog, "_skew_s", lambda: 3600.0)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(connection.last)
        wait_until(connection._watchdog._looking.locked)  # one looks, and who comes then waits
        with pytest.raises(TransportError):
            connection.last()
        assert isinstance(other.exception(), TransportError)
    line.thaw()
    connection.close()


# --- it needs a person ---


class Typist:
    """Answers a gateway's questions as `person` would, and counts them."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.asked = 0

    def __call__(self, prompt: Prompt) -> str:
        self.asked += 1
        return (
            self.person.password if str(prompt.text).startswith("Password") else self.person.code()
        )


class BehindALine(NamedTuple):
    """A gateway that `person` has logged in to, over a line that can be frozen."""

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


def test_while_a_line_is_silent_a_login_with_a_code_is_not_thrown_away(
    hasty: None,
    impatient: None,
    behind_a_line: BehindALine,
) -> None:
    sshd, line, connection = behind_a_line
    with connection.session("read word; echo $word") as session:
        line.freeze()
        connection.suspect()
        assert connection.state == "lost"
        with pytest.raises(TransportError, match="does not answer at the moment"):
            connection.last()
        line.thaw()
        wait_until(lambda: connection.state == "open")
        session.stdin.sendall(b"still here\n")
        assert session.stdout.makefile().read() == "still here\n"
    assert connection.generation == 1
    assert sshd.logins() == 1


def test_a_line_that_heals_while_it_is_looked_at_costs_nothing(
    hasty: None,
    impatient: None,
    gateway: MakeGateway,
    person: Person,
    make_sshd: MakeSshd,
    connect: Connect,
    delayed: Delayed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host at its end was asked before that, and its gateway answers after it."""
    first, login = gateway(), make_sshd()
    line = delayed(first.port, 0.0)
    way_in = first.hop(*by(line, first), *NO_KEYS)
    connection = connect(way_in, login.hop())
    connection.open(Typist(person))
    ping = master.Master.ping

    def ping_and_heal(link: master.Master, timeout_s: float) -> float | None:
        round_trip_s = ping(link, timeout_s)
        line.thaw()
        return round_trip_s

    with connection.session("read word; echo $word") as session:
        line.freeze()
        monkeypatch.setattr(master.Master, "ping", ping_and_heal)
        connection.suspect()
        wait_until(lambda: connection.state == "open")
        session.stdin.sendall(b"still here\n")
        assert session.stdout.makefile().read() == "still here\n"
    assert connection.generation == 1


def test_a_silent_login_with_a_code_is_given_up_when_its_time_is_over(
    hasty: None,
    impatient: None,
    behind_a_line: BehindALine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "_PATIENCE_S", 1.0)
    _, line, connection = behind_a_line
    waiting = Waiting(connection)
    line.freeze()
    connection.suspect()
    assert isinstance(waiting.ended(), ConnectionLostError)
    line.thaw()
    wait_until(lambda: connection.state == "login-needed")


def test_a_login_that_needs_a_person_never_begins_by_itself(
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


def test_behind_a_gateway_with_a_code_the_inner_host_comes_back_without_one(
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


def test_the_agents_key_brings_it_back_also_from_a_new_agent(
    make_sshd: MakeSshd, connect: Connect, ssh_agent: SshAgent, hasty: None
) -> None:
    sshd = make_sshd()
    ssh_agent.add(sshd.key)
    hop = sshd.hop("IdentityFile none", "IdentitiesOnly no", f"IdentityAgent {ssh_agent.path}")
    connection = connect(hop)
    connection.open()
    ssh_agent.restart()
    ssh_agent.add(sshd.key)
    sshd.restart()
    wait_until(lambda: connection.state == "open" and connection.generation == 2)
    ssh_agent.restart()
    sshd.restart()
    wait_until(lambda: connection.state == "login-needed")
    ssh_agent.add(sshd.key)
    connection.open(lambda _: "never asked")
    assert say(connection) == "there"


def test_states_are_told_as_they_come(
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


def test_a_person_is_asked_though_an_attempt_without_one_goes_on(
    gateway: MakeGateway, person: Person, connect: Connect
) -> None:
    sshd = gateway("code")
    connection = connect(sshd.hop(*NO_KEYS))
    errors: list[BaseException] = []

    def alone() -> None:
        try:
            connection.open()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=alone) for _ in range(4)]
    for thread in threads:
        thread.start()
    connection.open(Typist(person))
    for thread in threads:
        thread.join()
    assert all(isinstance(error, LoginNeededError) for error in errors)
    assert sshd.logins() == 1


def test_a_login_that_is_closed_while_it_asks_is_over(
    gateway: MakeGateway, person: Person, connect: Connect
) -> None:
    sshd = gateway("code")
    connection = connect(sshd.hop(*NO_KEYS))

    def closes(prompt: Prompt) -> str:
        connection.close()
        return person.code()

    with pytest.raises(TransportError, match="was disconnected"):
        connection.open(closes)
    assert connection.state == "closed"
    assert sshd.logins() == 0


def test_what_a_person_has_closed_is_not_opened_by_who_tries_again_at_once(
    sshd: Sshd, connect: Connect
) -> None:
    connection = connect(sshd.hop())
    ends = threading.Event()
    errors: list[JupyterSlurmError] = []

    def tries() -> None:
        while not ends.is_set():
            try:
                connection.last()
            except JupyterSlurmError as exc:
                errors.append(exc)

    threads = [threading.Thread(target=tries) for _ in range(4)]
    connection.open()
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            connection.disconnect()
            opened = connection.generation
            errors.clear()
            wait_until(lambda: len(errors) > 20)
            assert isinstance(errors[-1], LoginNeededError)
            assert (connection.state, connection.generation) == ("login-needed", opened)
            connection.open(lambda _: "")
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def test_a_login_that_a_person_disconnects_while_it_asks_is_needed_again(
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


def test_an_expired_password_that_a_key_cannot_help_with(
    make_sshd: MakeSshd, person: Person, gateway: MakeGateway, connect: Connect
) -> None:
    sshd = gateway(methods="publickey")
    person.expire_password()
    connection = connect(sshd.hop())
    with pytest.raises(LoginError, match="has expired") as caught:
        connection.open()
    assert f"ssh -p {sshd.port} {sshd.user}@{sshd.alias}" in str(caught.value.hint)


def test_a_login_shell_that_talks_of_passwords_is_no_expired_one(
    make_sshd: MakeSshd, person: Person, connect: Connect
) -> None:
    person.account.write(".bashrc", "echo 'Passwords: yours has expired? Call us.'\n")
    connection = connect(make_sshd(account=person.account).hop())
    assert say(connection).endswith("there")


# --- sessions ---


def test_with_one_session_allowed_everybody_gets_their_turn(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    connection = connect(make_sshd("MaxSessions 1").hop())
    said: list[str] = []
    threads = [
        threading.Thread(target=lambda i=i: said.append(say(connection, str(i)))) for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [str(i) for i in range(6)]
    assert connection.sessions_limit == 1
    assert connection.generation == 1


def test_who_is_refused_the_only_session_gives_their_turn_to_the_next() -> None:
    waits, asked = threading.Event(), threading.Event()

    class Changed(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waits.set()
            return super().wait(timeout)

    class Refusing:
        """In place of a transport: refuses the first, when another waits."""

        sessions = alive = True
        hop = SimpleNamespace(label="far")

        def session(self, command: str, timeout_s: float) -> Any:
            if asked.is_set():
                raise ConnectionLostError("The second one is asked for.")
            asked.set()
            assert waits.wait(60)
            raise RefusedError("no more sessions")

    allowed = sessions.Sessions("cluster", lambda: None)
    allowed._changed = Changed()
    allowed._learned, allowed._learned_at = 1, time.monotonic()
    link = cast("master.Master", Refusing())
    errors: list[BaseException] = []

    def ask(timeout_s: float) -> None:
        try:
            allowed._open(link, "true", timeout_s)
        except TransportError as exc:
            errors.append(exc)

    first = threading.Thread(target=ask, args=[0.01], daemon=True)
    second = threading.Thread(target=ask, args=[3600.0], daemon=True)
    first.start()
    assert asked.wait(60)
    second.start()
    first.join()
    second.join(60)
    assert {type(one) for one in errors} == {TransportError, ConnectionLostError}


def test_sessions_stay_below_what_the_host_allows(make_sshd: MakeSshd, connect: Connect) -> None:
    sshd = make_sshd()
    connection = connect(sshd.hop())
    waiting = [Waiting(connection) for _ in range(connection.sessions_limit)]
    with (
        pytest.raises(TransportError, match="8 commands at a time"),
        connection.session("true", timeout_s=0.05),
    ):
        pass
    connection.close()
    for one in waiting:
        one.ended()


def test_where_no_session_is_allowed_forwards_still_work(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    sshd = make_sshd("MaxSessions 0")
    connection = connect(sshd.hop())
    with (
        pytest.raises(TransportError, match="lets nobody run commands"),
        connection.session("true"),
    ):
        pass
    ours, theirs = socket.socketpair()
    with ours:
        wait_for(partial(connection.last().carry, theirs, sshd.host, sshd.port, 20.0))
        assert ours.recv(7) == b"SSH-2.0"
    connection.close()


# --- it ends ---


def test_who_opens_it_while_its_loss_is_told_keeps_what_they_get(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    sshd = make_sshd()

    def reopen() -> None:
        if connection.state == "lost":
            connection.open()

    connection = connect(sshd.hop(), on_change=reopen)
    connection.open()
    (first,) = connection.links
    first.close()
    connection.suspect()
    wait_until(lambda: connection.generation == 2)
    assert say(connection) == "there"
    (second,) = connection.links
    assert (connection.state, second.alive, sshd.logins()) == ("open", True, 2)


def test_who_opens_it_while_it_is_closed_keeps_what_they_get(
    make_sshd: MakeSshd, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(make_sshd().hop())
    connection.open()
    (first,) = connection.links
    with monkeypatch.context() as patched:
        patched.setattr(connection._sessions, "send_away", connection.open)
        connection.close()
    assert not first.alive
    (second,) = connection.links
    assert (connection.state, second.alive) == ("open", True)
    assert connection._watchdog._thread is not None  # somebody looks after it


def test_what_is_closed_does_not_come_back_by_itself(sshd: Sshd, connect: Connect) -> None:
    connection = connect(sshd.hop())
    connection.open()
    connection.close()
    connection.come_back()
    assert (connection.state, connection.links) == ("closed", ())


def test_who_waits_when_it_is_closed_is_told_and_nothing_is_left(
    make_sshd: MakeSshd, connect: Connect
) -> None:
    gateway, login = make_sshd(), make_sshd()
    me = psutil.Process()
    gc.collect()
    sockets = len(me.net_connections("all"))
    connection = connect(gateway.hop(), login.hop())
    waiting = [Waiting(connection) for _ in range(3)]
    connection.close()
    for one in waiting:
        assert isinstance(one.ended(), ConnectionLostError)
    assert connection.state == "closed"
    wait_until(lambda: len(me.net_connections("all")) <= sockets)
    wait_until(lambda: gateway.pids() == login.pids() == [])
