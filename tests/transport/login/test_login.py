"""Logins to real sshds: every method that OpenSSH's server has, and every way to be refused."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest

from jupyter_slurm.errors import LoginError, LoginNeededError
from jupyter_slurm.transport.ask import Ask, Prompt, nobody
from jupyter_slurm.transport.login import log_in
from jupyter_slurm.transport.login.private_keys import UnlockedKeys
from jupyter_slurm.transport.ssh_config.remarks import NOT_READ
from jupyter_slurm.wire import QuestionKind
from tests.ssh.kept import Keeper
from tests.ssh.odd_users import Person
from tests.ssh.plugin import MakeGateway, MakeSshd
from tests.ssh.sshd import Sshd, make_key
from tests.ssh.waiting import wait_until
from tests.transport.ssh_agents import SshAgent

PASSPHRASE = "correct horse battery"


class Answers:
    """Gives `answers` in turn, and remembers what it was asked."""

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


@contextmanager
def reached(sshd: Sshd) -> Iterator[paramiko.Transport]:
    """Keys are exchanged, nobody is logged in."""
    transport = paramiko.Transport(socket.create_connection((sshd.host, sshd.port), timeout=20))
    try:
        transport.start_client(timeout=20)
        yield transport
    finally:
        transport.close()
        transport.join(20)


def logged_in(
    sshd: Sshd, ask: Ask = nobody, unlocked: UnlockedKeys | None = None, **changes: Any
) -> bool:
    """What `log_in` gives; a command has run afterwards."""
    with reached(sshd) as transport:
        asked = log_in(transport, sshd.hop(**changes), ask, unlocked)
        assert transport.is_authenticated()
        channel = transport.open_session()
        channel.exec_command("echo in")
        assert channel.makefile().read() == b"in\n"
        return asked


def refused(sshd: Sshd, ask: Ask = nobody, **changes: Any) -> LoginError:
    with reached(sshd) as transport, pytest.raises(LoginError) as caught:
        log_in(transport, sshd.hop(**changes), ask)
    return caught.value


def allow(sshd: Sshd, *keys: Path) -> None:
    lines = [key.with_name(key.name + ".pub").read_text() for key in keys]
    (sshd.folder / "authorized_keys").write_text("".join(lines))


# --- keys ---


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_key_logs_in_without_a_question(make_sshd: MakeSshd, tmp_path: Path, kind: str) -> None:
    sshd = make_sshd()
    key = make_key(tmp_path / "key", kind)
    allow(sshd, key)
    assert logged_in(sshd, identity_files=(key,)) is False


@pytest.mark.parametrize("form", ["PEM", "PKCS8"])
@pytest.mark.parametrize("passphrase", ["", PASSPHRASE])
def test_keys_in_older_files_log_in(
    make_sshd: MakeSshd, tmp_path: Path, form: str, passphrase: str
) -> None:
    sshd = make_sshd()
    key = make_key(tmp_path / "key", "rsa", passphrase)
    argv = ["ssh-keygen", "-q", "-p", "-m", form, "-P", passphrase, "-N", passphrase]
    subprocess.run([*argv, "-f", str(key)], check=True, stdout=subprocess.DEVNULL)
    allow(sshd, key)
    key.with_suffix(".pub").unlink()
    assert logged_in(sshd, Answers(PASSPHRASE), identity_files=(key,)) is False


def test_a_passphrase_is_asked_for_with_the_keys_name_and_then_never_again(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    key = make_key(tmp_path / "my key", passphrase=PASSPHRASE)
    allow(sshd, key)
    person, unlocked = Answers("wrong", PASSPHRASE), UnlockedKeys()
    logged_in(sshd, person, unlocked, identity_files=(key,))
    assert [prompt.kind for prompt in person.prompts] == [QuestionKind.PASSPHRASE] * 2
    assert str(key) in person.texts[0]
    assert person.prompts[0].host == sshd.hop().label
    logged_in(sshd, nobody, unlocked, identity_files=(key,))


def test_no_passphrase_is_asked_for_a_key_that_the_host_does_not_want(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    locked = make_key(tmp_path / "locked", passphrase=PASSPHRASE)
    assert logged_in(sshd, Answers(), identity_files=(locked, sshd.key)) is False


def test_a_passphrase_wrong_three_times_leaves_the_other_keys(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    locked = make_key(tmp_path / "locked", passphrase=PASSPHRASE)
    allow(sshd, locked, sshd.key)
    person = Answers("a", "b", "c")
    assert logged_in(sshd, person, identity_files=(locked, sshd.key)) is False
    assert person.answers == []


def test_without_a_person_an_encrypted_key_needs_a_login(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    locked = make_key(tmp_path / "locked", passphrase=PASSPHRASE)
    allow(sshd, locked)
    with reached(sshd) as transport, pytest.raises(LoginNeededError):
        log_in(transport, sshd.hop(identity_files=(locked,)), nobody)


def test_without_a_person_the_keys_that_need_none_are_enough(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    locked = make_key(tmp_path / "locked", passphrase=PASSPHRASE)
    allow(sshd, locked, sshd.key)
    assert logged_in(sshd, nobody, identity_files=(locked, sshd.key)) is False


def test_a_user_certificate_logs_in_beside_its_key_or_named(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    ca = make_key(tmp_path / "ca")
    sshd = make_sshd(f"TrustedUserCAKeys {ca}.pub")
    tmp_path.chmod(0o755)
    for kind in ("ed25519", "ecdsa", "rsa"):
        key = make_key(tmp_path / kind, kind)
        argv = ["ssh-keygen", "-q", "-s", str(ca), "-I", "test", "-n", sshd.user]
        subprocess.run([*argv, f"{key}.pub"], check=True)
        beside = tmp_path / f"{kind}-cert.pub"
        assert logged_in(sshd, identity_files=(key,)) is False
        elsewhere = beside.rename(tmp_path / f"{kind}-elsewhere")
        assert "No key was accepted" in str(refused(sshd, identity_files=(key,)).message)
        assert logged_in(sshd, identity_files=(key,), certificate_files=(elsewhere,)) is False


@pytest.fixture
def agent(ssh_keeper: Keeper, tmp_path: Path) -> SshAgent:
    return SshAgent(ssh_keeper, tmp_path)


def test_the_agents_keys_log_in(make_sshd: MakeSshd, tmp_path: Path, agent: SshAgent) -> None:
    sshd = make_sshd()
    keys = [make_key(tmp_path / kind, kind) for kind in ("ed25519", "ecdsa", "rsa")]
    for key in keys:
        allow(sshd, key)
        agent.add(key)
        changes: dict[str, Any] = {
            "identity_files": (),
            "identities_only": False,
            "identity_agent": agent.path,
        }
        assert logged_in(sshd, **changes) is False


def test_an_agent_that_was_restarted_is_asked_anew(
    make_sshd: MakeSshd, tmp_path: Path, agent: SshAgent
) -> None:
    sshd = make_sshd()
    changes: dict[str, Any] = {
        "identity_files": (),
        "identities_only": False,
        "identity_agent": agent.path,
    }
    assert "there was none to try" in str(refused(sshd, **changes).message)
    agent.restart()
    agent.add(sshd.key)
    assert logged_in(sshd, **changes) is False


def test_with_identities_only_the_agent_offers_what_is_named(
    make_sshd: MakeSshd, tmp_path: Path, agent: SshAgent
) -> None:
    """Also by its public half alone, which is how people pick one of an agent's keys."""
    sshd = make_sshd()
    others = [make_key(tmp_path / f"other{i}") for i in range(8)]
    agent.add(*others, sshd.key)
    public = tmp_path / "named.pub"
    shutil.copy(f"{sshd.key}.pub", public)
    assert logged_in(sshd, identity_agent=agent.path, identity_files=(public,)) is False
    assert sshd.log().count("Failed publickey") == 0


def test_keys_that_are_named_go_before_the_agents_others(
    make_sshd: MakeSshd, tmp_path: Path, agent: SshAgent
) -> None:
    sshd = make_sshd()
    agent.add(*[make_key(tmp_path / f"other{i}") for i in range(8)], sshd.key)
    assert logged_in(sshd, identity_agent=agent.path, identities_only=False) is False


def test_the_tries_stay_below_what_sshd_allows(
    make_sshd: MakeSshd, tmp_path: Path, agent: SshAgent
) -> None:
    sshd = make_sshd()
    agent.add(*[make_key(tmp_path / f"other{i}") for i in range(8)])
    error = refused(sshd, identity_files=(), identities_only=False, identity_agent=agent.path)
    assert "takes keys only. No key was accepted" in str(error.message)
    assert "no further ones were tried" in str(error.message)
    assert "Too many authentication failures" not in sshd.log()


def test_an_agents_key_signs_for_a_certificate_in_a_file(
    make_sshd: MakeSshd, tmp_path: Path, agent: SshAgent
) -> None:
    ca = make_key(tmp_path / "ca")
    sshd = make_sshd(f"TrustedUserCAKeys {ca}.pub")
    tmp_path.chmod(0o755)
    key = make_key(tmp_path / "key", "rsa")
    argv = ["ssh-keygen", "-q", "-s", str(ca), "-I", "test", "-n", sshd.user]
    subprocess.run([*argv, f"{key}.pub"], check=True)
    certificate = (tmp_path / "key-cert.pub").rename(tmp_path / "certificate")
    agent.add(key)
    key.unlink()
    changes: dict[str, Any] = {"certificate_files": (certificate,), "identity_agent": agent.path}
    assert logged_in(sshd, identity_files=(tmp_path / "key.pub",), **changes) is False


# --- questions ---


def test_password_and_code_are_asked_for_in_turn_and_hidden(
    gateway: MakeGateway, person: Person
) -> None:
    asked = Answers(person.password, person.code())
    assert logged_in(gateway(), asked, identity_files=()) is True
    assert asked.texts == ["Password:", "Verification code:"]
    assert {prompt.kind for prompt in asked.prompts} == {QuestionKind.SECRET}


def test_a_menu_is_shown_and_its_text_is_the_instruction(
    gateway: MakeGateway, person: Person
) -> None:
    asked = Answers("1", person.password, person.code())
    logged_in(gateway("menu", "password", "code"), asked, identity_files=())
    assert asked.texts[0] == "Your choice (1-2):"
    assert "2. the other cluster" in str(asked.prompts[0].instruction)


def test_a_key_and_then_a_code(gateway: MakeGateway, person: Person) -> None:
    sshd = gateway("code", methods="publickey,keyboard-interactive")
    asked = Answers(person.code())
    assert logged_in(sshd, asked) is True
    assert asked.texts == ["Verification code:"]
    with reached(sshd) as transport, pytest.raises(LoginNeededError):
        log_in(transport, sshd.hop(), nobody)
    stranger = refused(sshd, identity_files=(sshd.folder / "host_ed25519",))
    assert "takes keys only. No key was accepted" in str(stranger.message)


def test_a_password_by_its_own_method(make_sshd: MakeSshd, person: Person) -> None:
    lines = ("PasswordAuthentication yes", "AuthenticationMethods password")
    sshd = make_sshd(*lines, account=person.account)
    asked = Answers("wrong", person.password)
    assert logged_in(sshd, asked, identity_files=()) is True
    assert asked.texts == [f"{sshd.hop().label}'s password:"] * 2
    assert asked.refused == [False, True]


def test_an_expired_password_is_changed_in_the_dialogue(
    gateway: MakeGateway, person: Person
) -> None:
    person.expire_password()
    new = "a quite different one 42"
    asked = Answers(person.password, person.code(), person.password, new, new)
    logged_in(gateway(), asked, identity_files=())
    assert [text.split()[0] for text in asked.texts[2:]] == ["Current", "New", "Retype"]
    assert "password" in str(asked.prompts[2].instruction).lower()
    assert not any(asked.refused)


def test_a_banner_is_shown_with_the_first_question_only_and_made_harmless(
    make_sshd: MakeSshd, person: Person, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    banner = tmp_path / "banner"
    banner.write_text("\x1b[2J\x1b]0;title\x07Authorised \u202eusers\x08 only.\r\n" + "x" * 9999)
    lines = ("PasswordAuthentication yes", f"Banner {banner}")
    sshd = make_sshd(*lines, account=person.account)
    asked = Answers("wrong", person.password)
    logged_in(sshd, asked, identity_files=())
    first, second = asked.prompts
    assert str(first.instruction).startswith("Authorised users only.\nxxx")
    assert len(str(first.instruction)) == 2000
    assert second.instruction == ""


def test_without_a_person_a_question_needs_a_login(gateway: MakeGateway) -> None:
    """Not even begun: some hosts ring people's phones when somebody tries."""
    sshd = gateway()
    with reached(sshd) as transport, pytest.raises(LoginNeededError) as caught:
        log_in(transport, sshd.hop(), nobody)
    assert sshd.hop().label in str(caught.value.message)
    assert "keyboard-interactive" not in sshd.log()


# --- refusals ---


def test_a_code_wrong_three_times(gateway: MakeGateway, person: Person) -> None:
    asked = Answers(*[person.password, person.wrong_code()] * 3)
    error = refused(gateway(), asked, identity_files=())
    assert "refused the answers 3 times: a wrong password or code" in str(error.message)
    assert asked.answers == []
    assert asked.refused == [False, False, True, False, True, False]
    assert person.password not in f"{error}{error.detail}"


def test_after_many_keys_one_question_is_left(
    gateway: MakeGateway, person: Person, tmp_path: Path
) -> None:
    sshd = gateway("code", methods="publickey keyboard-interactive")
    keys = tuple(make_key(tmp_path / f"key{i}") for i in range(6))
    assert logged_in(sshd, Answers(person.code()), identity_files=keys) is True
    error = refused(sshd, Answers(person.wrong_code()), identity_files=keys)
    assert "IdentitiesOnly yes" in str(error.hint)


def test_a_locked_account_is_refused_and_may_be_the_reason(
    gateway: MakeGateway, person: Person
) -> None:
    sshd = gateway()
    person.lock()
    asked = Answers(*[person.password, person.code()] * 3)
    error = refused(sshd, asked, identity_files=())
    assert "refused the answers" in str(error.message)
    assert "locked" in str(error.hint)


def test_an_account_that_has_expired_is_told_from_a_wrong_code(
    gateway: MakeGateway, person: Person
) -> None:
    sshd = gateway()
    person.expire_account()
    error = refused(sshd, Answers(person.password, person.code()), identity_files=())
    assert str(error.message) == f"The account {sshd.hop().label} has expired."
    assert "expired" in str(error.detail)


def test_a_host_that_waits_no_longer_for_an_answer(make_sshd: MakeSshd, person: Person) -> None:
    sshd = make_sshd("PasswordAuthentication yes", "LoginGraceTime 10", account=person.account)

    def slow(prompt: Prompt) -> str:
        wait_until(lambda: sshd.pids() == [])
        return person.password

    error = refused(sshd, slow, identity_files=())
    assert "ended the connection during the login" in str(error.message)
    assert "two minutes" in str(error.hint)


def test_a_host_that_takes_keys_only_says_which_were_tried(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    stranger = make_key(tmp_path / "stranger")
    error = refused(sshd, identity_files=(stranger, tmp_path / "missing"))
    assert str(error.message) == (
        f"{sshd.hop().label} takes keys only. No key was accepted: {stranger}."
    )
    assert "authorized_keys" in str(error.hint)


@pytest.mark.parametrize(
    ("option", "name"),
    [("GSSAPIAuthentication", "gssapi-with-mic"), ("HostbasedAuthentication", "hostbased")],
)
def test_what_only_openssh_can_do_is_named_with_the_way_round(
    make_sshd: MakeSshd, option: str, name: str
) -> None:
    sshd = make_sshd("PubkeyAuthentication no", f"{option} yes")
    error = refused(sshd, control_path="/run/master-%C")
    assert name in str(error.message)
    assert "only, which OpenSSH itself can do" in str(error.message)
    assert "ssh -fNM -o ControlPath=/run/master-%C" in str(error.hint)


def test_a_remark_of_the_configuration_explains_the_refusal(
    make_sshd: MakeSshd, tmp_path: Path
) -> None:
    sshd = make_sshd()
    remark = "PKCS11Provider is not supported."
    error = refused(sshd, identity_files=(), remarks=(remark,))
    assert str(error.hint).startswith(remark)
    assert "ssh -fNM" in str(error.hint)


def test_a_refusal_says_that_the_configuration_was_not_read(make_sshd: MakeSshd) -> None:
    error = refused(make_sshd(), identity_files=(), remarks=(NOT_READ,))
    assert str(error.hint) == NOT_READ


def test_a_host_that_hangs_up_is_an_error_with_its_words(make_sshd: MakeSshd) -> None:
    sshd = make_sshd("MaxAuthTries 1")
    error = refused(sshd, identity_files=(sshd.folder / "host_ed25519",))
    assert "takes no further tries" in str(error.message)
    assert "Too many authentication failures" in str(error.detail)


def test_logs_tell_nothing_of_a_login(
    make_sshd: MakeSshd, gateway: MakeGateway, person: Person, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.NOTSET):
        logged_in(make_sshd())
        logged_in(gateway(), Answers(person.password, person.code()), identity_files=())
        refused(gateway(), Answers(*[person.password, person.wrong_code()] * 3))
    assert caplog.text == ""
