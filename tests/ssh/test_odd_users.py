"""People as they are at sites: that they are as odd as they are said to be."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable

import paramiko
import pytest

from tests.ssh.odd_users import BANNER, Person
from tests.ssh.plugin import MakeGateway
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until


def handshaken(sshd: Sshd) -> paramiko.Transport:
    transport = paramiko.Transport(socket.create_connection((sshd.host, sshd.port), timeout=20))
    transport.start_client(timeout=20)
    return transport


class Dialogue:
    """Answers what is asked, by the first word of `answers` that the question has in it."""

    def __init__(self, answers: dict[str, Callable[[], str]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.told = ""

    def __call__(self, title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        self.told += title + instructions
        self.asked += [text for text, _ in prompts]
        return [self._answer(text) for text, _ in prompts]

    def _answer(self, text: str) -> str:
        return next(answer() for word, answer in self.answers.items() if word in text)


def answers(person: Person, **changes: Callable[[], str]) -> Dialogue:
    return Dialogue(
        {"Password": lambda: person.password, "code": person.code, "choice": lambda: "1", **changes}
    )


def test_an_odd_users_shell_runs_what_it_is_given_and_most_of_them_talk(odd_sshd: Sshd) -> None:
    done = subprocess.run(
        ["ssh", "-F", str(odd_sshd.config), odd_sshd.alias, "exec /bin/sh"],
        input='printf "%s %s" "$HOME" "$(id -un)"',
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.endswith(f"{odd_sshd.account.home} {odd_sshd.user}")
    said_at_start = [
        file.read_text() for file in odd_sshd.account.home.rglob("*") if file.is_file()
    ]
    assert (BANNER in done.stdout) == any(BANNER in text for text in said_at_start)


def test_password_and_code_let_in(gateway: MakeGateway, person: Person) -> None:
    sshd = gateway()
    with handshaken(sshd) as transport:
        dialogue = answers(person)
        transport.auth_interactive(sshd.user, dialogue)
        assert transport.is_authenticated()
    assert dialogue.asked == ["Password: ", "Verification code: "]
    wait_until(lambda: sshd.logins() == 1)


def test_a_menu_is_the_third_question_and_comes_with_words(
    gateway: MakeGateway, person: Person
) -> None:
    sshd = gateway("password", "code", "menu")
    with handshaken(sshd) as transport:
        dialogue = answers(person)
        transport.auth_interactive(sshd.user, dialogue)
        assert transport.is_authenticated()
    assert len(dialogue.asked) == 3
    assert "2. the other cluster" in dialogue.told + "".join(dialogue.asked)


def test_a_key_may_be_wanted_first(gateway: MakeGateway, person: Person) -> None:
    sshd = gateway("code", methods="publickey,keyboard-interactive")
    with handshaken(sshd) as transport:
        left = transport.auth_publickey(
            sshd.user, paramiko.Ed25519Key.from_private_key_file(sshd.key)
        )
        assert left == ["keyboard-interactive"]
        transport.auth_interactive(sshd.user, dialogue := answers(person))
        assert transport.is_authenticated()
    assert dialogue.asked == ["Verification code: "]


def test_a_wrong_code_lets_nobody_in_and_the_next_right_one_does(
    gateway: MakeGateway, person: Person
) -> None:
    sshd = gateway()
    with handshaken(sshd) as transport:
        with pytest.raises(paramiko.AuthenticationException):
            transport.auth_interactive(sshd.user, answers(person, code=person.wrong_code))
        transport.auth_interactive(sshd.user, answers(person))
        assert transport.is_authenticated()


def test_a_code_that_may_be_used_once_is_refused_when_it_comes_again(
    gateway: MakeGateway, person: Person
) -> None:
    person.only_once()
    sshd = gateway("code")
    code = person.code()
    with handshaken(sshd) as transport:
        transport.auth_interactive(sshd.user, answers(person, code=lambda: code))
    with handshaken(sshd) as transport, pytest.raises(paramiko.AuthenticationException):
        transport.auth_interactive(sshd.user, answers(person, code=lambda: code))


def test_who_is_locked_is_not_let_in(gateway: MakeGateway, person: Person) -> None:
    sshd = gateway()
    person.lock()
    with handshaken(sshd) as transport, pytest.raises(paramiko.AuthenticationException):
        transport.auth_interactive(sshd.user, answers(person))


def test_an_expired_account_is_not_let_in_though_all_answers_are_right(
    gateway: MakeGateway, person: Person
) -> None:
    sshd = gateway()
    person.expire_account()
    with handshaken(sshd) as transport, pytest.raises(paramiko.SSHException):
        transport.auth_interactive(sshd.user, dialogue := answers(person))
    assert "expired" in dialogue.told


def test_an_expired_password_must_be_changed_at_login(gateway: MakeGateway, person: Person) -> None:
    sshd = gateway()
    person.expire_password()
    new = "a quite different one 42"
    dialogue = Dialogue(
        {
            "New": lambda: new,
            "Retype": lambda: new,
            "Current": lambda: person.password,
            "Password": lambda: person.password,
            "code": person.code,
        }
    )
    with handshaken(sshd) as transport:
        transport.auth_interactive(sshd.user, dialogue)
        assert transport.is_authenticated()
    assert len(dialogue.asked) == 5
