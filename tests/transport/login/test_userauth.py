"""What OpenSSH's server never says in a login, and others do; said here by paramiko's server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL
from paramiko.message import Message
from paramiko.server import InteractiveQuery

from jupyter_slurm.errors import LoginError
from jupyter_slurm.transport.ask import Prompt
from jupyter_slurm.transport.login import log_in
from jupyter_slurm.wire import QuestionKind
from tests.ssh.sshd import Sshd


class Server(paramiko.ServerInterface):
    """Asks by keyboard-interactive, `rounds` after one another, and takes any answers."""

    def __init__(self, *rounds: InteractiveQuery) -> None:
        self.rounds = list(rounds)
        self.answers: list[list[str]] = []
        self.methods = "keyboard-interactive"

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_interactive(
        self, username: str, submethods: str | bytes
    ) -> int | InteractiveQuery:
        return self.rounds.pop(0) if self.rounds else AUTH_FAILED

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self.answers.append(responses)
        return self.rounds.pop(0) if self.rounds else AUTH_SUCCESSFUL


class WantsNewPassword(Server):
    """Answers a password with SSH_MSG_USERAUTH_PASSWD_CHANGEREQ (RFC 4252, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.methods = "password"
        self.transport: paramiko.Transport | None = None

    def check_auth_password(self, username: str, password: str) -> int:
        message = Message()
        message.add_byte(bytes([60]))
        message.add_string("Your password has expired.")
        message.add_string("en")
        assert self.transport is not None
        self.transport._send_message(message)  # type: ignore[attr-defined]
        return AUTH_FAILED


@contextmanager
def talking_to(server: Server) -> Iterator[paramiko.Transport]:
    ours, theirs = socket.socketpair()
    there, here = paramiko.Transport(theirs), paramiko.Transport(ours)
    if isinstance(server, WantsNewPassword):
        server.transport = there
    there.add_server_key(paramiko.ECDSAKey.generate())
    try:
        there.start_server(event=threading.Event(), server=server)
        here.start_client(timeout=20)
        yield here
    finally:
        for transport in (here, there):
            transport.close()
            transport.join(20)


def test_prompts_of_several_rounds_keep_their_names_and_flags(sshd: Sshd) -> None:
    server = Server(
        InteractiveQuery("Site", "Who\x1b[1m are you?", ("Project: ", True), ("PIN: ", False)),
        InteractiveQuery("", "We have rung your phone."),
        InteractiveQuery("", "", ("", False)),
    )
    asked: list[Prompt] = []

    def ask(prompt: Prompt) -> str:
        asked.append(prompt)
        return f"answer {len(asked)} ü"

    with talking_to(server) as transport:
        assert log_in(transport, sshd.hop(), ask) is True
    label = sshd.hop().label
    assert asked == [
        Prompt(QuestionKind.TEXT, label, "Project:", "Site\nWho are you?"),
        Prompt(QuestionKind.SECRET, label, "PIN:"),
        Prompt(QuestionKind.SECRET, label, "Answer:", "We have rung your phone."),
    ]
    assert server.answers == [["answer 1 ü", "answer 2 ü"], [], ["answer 3 ü"]]


def test_a_host_that_asks_nothing_and_refuses_is_not_tried_for_ever(sshd: Sshd) -> None:
    with talking_to(Server()) as transport, pytest.raises(LoginError) as caught:
        log_in(transport, sshd.hop(), lambda _: "never asked")
    assert "takes questions (password, code). It asked nothing" in str(caught.value.message)


def test_a_password_that_must_be_changed_another_way(sshd: Sshd) -> None:
    with talking_to(WantsNewPassword()) as transport, pytest.raises(LoginError) as caught:
        log_in(transport, sshd.hop(), lambda _: "old")
    assert "has expired, and the host wants a new one" in str(caught.value.message)
    assert "ssh -p" in str(caught.value.hint)
