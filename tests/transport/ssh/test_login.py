"""Logins to real sshds: OpenSSH's questions as our prompts, and all refusals."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_slurm.errors import (
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
)
from jupyter_slurm.transport.ask import Ask, Prompt, no_prompt
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.wire import QuestionKind
from tests.ssh.odd_users import Person
from tests.ssh.plugin import MakeGateway, MakeSshd
from tests.ssh.sshd import Sshd, make_key
from tests.transport.ssh.conftest import say

Connect = Callable[..., SshConnection]
PASSPHRASE = "correct horse battery"
NO_KEYS = ("IdentityFile none",)


class Answers:
    """Prompter that gives `answers` in turn and records the prompts."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.prompts: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> str:
        self.prompts.append(prompt)
        return self.answers.pop(0)

    @property
    def texts(self) -> list[str]:
        return [str(prompt.text) for prompt in self.prompts]

    @property
    def refused(self) -> list[bool]:
        return [prompt.refused for prompt in self.prompts]


@pytest.fixture
def logged_in(connect: Connect) -> Callable[..., bool]:
    def log_in(sshd: Sshd, ask: Ask = no_prompt, *lines: str) -> bool:
        """Log in and run a command. Return whether the next login will need the user."""
        connection = connect(sshd.hop(*lines))
        connection.open(ask)
        assert say(connection) == "there"
        needs_person = connection.links[-1].needs_person
        connection.close()
        return needs_person

    return log_in


@pytest.fixture
def refused(connect: Connect) -> Callable[..., JupyterSlurmError]:
    def try_it(sshd: Sshd, ask: Ask = no_prompt, *lines: str) -> JupyterSlurmError:
        with pytest.raises(JupyterSlurmError) as caught:
            connect(sshd.hop(*lines)).open(ask)
        return caught.value

    return try_it


LogIn = Callable[..., bool]
Refused = Callable[..., JupyterSlurmError]


def fingerprint_of(key: Path) -> str:
    argv = ["ssh-keygen", "-lf", str(key)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()[1]


# --- keys ---


def test_passphrase_prompt_names_the_key(
    make_sshd: MakeSshd, tmp_path: Path, logged_in: LogIn
) -> None:
    sshd = make_sshd()
    key = make_key(tmp_path / "key", passphrase=PASSPHRASE)
    (sshd.folder / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    person = Answers("wrong", PASSPHRASE)
    assert logged_in(sshd, person, *NO_KEYS, f"IdentityFile {key}") is True
    assert [prompt.kind for prompt in person.prompts] == [QuestionKind.PASSPHRASE] * 2
    assert str(key) in person.texts[0]
    assert person.prompts[0].host == sshd.hop().label
    assert person.refused == [False, True]


# --- questions ---


def test_password_and_code_are_requested_in_turn_and_hidden(
    gateway: MakeGateway, person: Person, logged_in: LogIn
) -> None:
    asked = Answers(person.password, person.code())
    assert logged_in(gateway(), asked, *NO_KEYS) is True
    assert asked.texts == ["Password:", "Verification code:"]
    assert {prompt.kind for prompt in asked.prompts} == {QuestionKind.SECRET}


def test_password_authentication_logs_in(
    make_sshd: MakeSshd, person: Person, logged_in: LogIn
) -> None:
    lines = ("PasswordAuthentication yes", "AuthenticationMethods password")
    sshd = make_sshd(*lines, account=person.account)
    asked = Answers("wrong", person.password)
    assert logged_in(sshd, asked, *NO_KEYS) is True
    assert asked.texts == [f"{sshd.user}@{sshd.host}'s password:"] * 2
    assert asked.refused == [False, True]


def test_accepted_host_key_is_remembered(
    make_sshd: MakeSshd, tmp_path: Path, logged_in: LogIn, refused: Refused
) -> None:
    sshd = make_sshd()
    lines = (f"UserKnownHostsFile {tmp_path / 'known'}", "StrictHostKeyChecking ask")
    assert isinstance(refused(sshd, no_prompt, *lines), LoginNeededError)
    assert isinstance(refused(sshd, Answers("no"), *lines), HostKeyError)
    assert not (tmp_path / "known").exists()
    asked = Answers("yes")
    assert logged_in(sshd, asked, *lines) is False
    (prompt,) = asked.prompts
    fingerprint = fingerprint_of(sshd.folder / "host_ed25519.pub")
    assert (prompt.kind, prompt.host) == (QuestionKind.HOST_KEY, sshd.hop().label)
    assert str(prompt.instruction).endswith(f"ED25519 {fingerprint}")
    assert logged_in(sshd, no_prompt, *lines) is False


def test_login_that_needs_the_user_does_not_start_unattended(
    gateway: MakeGateway, refused: Refused
) -> None:
    """The login must not even begin, since some hosts call the user's phone at each attempt."""
    sshd = gateway()
    error = refused(sshd)
    assert isinstance(error, LoginNeededError)
    assert sshd.hop().label in str(error.message)
    assert "keyboard-interactive" not in sshd.log()


# --- refusals ---


def test_three_wrong_codes_end_the_login(
    gateway: MakeGateway, person: Person, refused: Refused
) -> None:
    asked = Answers(*[person.password, person.wrong_code()] * 3)
    error = refused(gateway(), asked, *NO_KEYS)
    assert isinstance(error, LoginError)
    assert asked.answers == []
    assert asked.refused == [False, False, True, False, True, False]
    assert person.password not in f"{error}{error.detail}"


def test_host_that_accepts_only_keys_is_reported(
    make_sshd: MakeSshd, tmp_path: Path, refused: Refused
) -> None:
    stranger = make_key(tmp_path / "stranger")
    error = refused(make_sshd(), no_prompt, *NO_KEYS, f"IdentityFile {stranger}")
    assert "publickey" in str(error.message)
    assert "authorized_keys" in str(error.hint)


@pytest.mark.parametrize("marker", ["", "@revoked "])
def test_changed_or_revoked_host_key_is_rejected_before_the_login(
    make_sshd: MakeSshd, refused: Refused, tmp_path: Path, marker: str
) -> None:
    sshd = make_sshd()
    other = sshd.folder / ("host_ed25519.pub" if marker else "client/.ssh/id_ed25519.pub")
    known = tmp_path / "known"
    known.write_text(f"{marker}[{sshd.host}]:{sshd.port} {other.read_text()}")
    error = refused(sshd, Answers(), f"UserKnownHostsFile {known}", "StrictHostKeyChecking no")
    assert isinstance(error, HostKeyError)
    assert sshd.logins() == 0
    if not marker:
        keys = (other, sshd.folder / "host_ed25519.pub")
        assert "from {} to {}".format(*map(fingerprint_of, keys)) in str(error.message)
        assert f"ssh-keygen -R '[{sshd.host}]:{sshd.port}' -f {known}" in str(error.hint)


# --- reuse ---


def test_login_survives_its_process_and_is_reused(
    gateway: MakeGateway, person: Person, make_sshd: MakeSshd, connect: Connect
) -> None:
    outer, login = gateway(), make_sshd()
    first = connect(outer.hop(*NO_KEYS), login.hop())
    first.open(Answers(person.password, person.code()))
    for link in first.links:
        link.leave()
    second = connect(outer.hop(*NO_KEYS), login.hop())
    second.open()
    assert say(second) == "there"
    assert [link.needs_person for link in second.links] == [True, False]
    assert (outer.logins(), login.logins()) == (1, 1)


def test_dead_login_is_not_reused(make_sshd: MakeSshd, connect: Connect) -> None:
    sshd = make_sshd()
    first = connect(sshd.hop())
    first.open()
    first.links[0].leave()
    sshd.restart()
    second = connect(sshd.hop())
    second.open()
    assert say(second) == "there"
