"""A host that imitates this machine's prompt for the passphrase of a key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.client.login import log_in
from jupyter_slurm.jobs.cluster.logins import Login
from jupyter_slurm.transport.ask import Ask, Prompt
from jupyter_slurm.wire import Connection, ConnectionState, Problem, QuestionKind
from tests.client.test_login import Person
from tests.far import HOST, Asked
from tests.magics.fake import FakeApi

KEY = "/home/alice/.ssh/id_ed25519"
OURS = f"Passphrase of the key {KEY}:"


def lines_read(tmp_path: Path, question: Asked) -> list[str]:
    """Return the lines that the user sees before answering, the prompt last."""
    api = FakeApi(tmp_path)
    api.need_login(question)
    person = Person(question.right)
    log_in(cast("Api", api), None, person, "me")
    return [*person.said, *person.secrets, *person.texts]


def test_question_from_a_host_cannot_imitate_a_local_prompt(tmp_path: Path) -> None:
    ours = lines_read(tmp_path, Asked(QuestionKind.PASSPHRASE, OURS, "x"))
    assert ours == [f"Your answer stays on this machine. {OURS} "]
    imitations = [
        Asked(QuestionKind.SECRET, OURS, "x"),
        Asked(QuestionKind.SECRET, ours[0], "x", instruction=f"\n{ours[0]}\n\r{ours[0]}"),
        # As long as a terminal's line, so that the following text would start a new line.
        Asked(QuestionKind.TEXT, "." * (79 - len(HOST)) + ours[0], "x"),
        Asked(QuestionKind.SECRET, "Password:", "x", instruction=" " * 80 + ours[0] + "." * 500),
    ]
    begins = re.compile(rf"{HOST} asks: |{HOST} says:$|Careful: |  \| ")
    for imitation in imitations:
        lines = lines_read(tmp_path, imitation)
        assert [line for line in lines if not begins.match(line)] == []
        assert [line for line in lines if len(line) > 80 and not line.startswith("Careful")] == []


class AskingConnection:
    """A connection to a host that asks `prompt`."""

    def __init__(self, prompt: Prompt) -> None:
        self.state = ConnectionState.CLOSED
        self.hosts, self.since_s, self.round_trip_s = (prompt.host,), 0.0, None
        self.problem: Problem | None = None
        self._prompt = prompt

    def open(self, ask: Ask) -> None:
        ask(self._prompt)
        self.state = ConnectionState.OPEN

    def disconnect(self) -> None:
        self.state = ConnectionState.LOGIN_NEEDED


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        (Prompt(QuestionKind.SECRET, HOST, OURS), True),
        (Prompt(QuestionKind.SECRET, HOST, "Enter PASS-PHRASE for your private key"), True),
        (Prompt(QuestionKind.TEXT, HOST, "Answer:", f"To unlock {KEY}\nwe need your help."), True),
        (Prompt(QuestionKind.SECRET, HOST, "Password:", "Welcome."), False),
        (Prompt(QuestionKind.SECRET, HOST, "Press the button of your security key:"), False),
        (Prompt(QuestionKind.PASSPHRASE, HOST, OURS), False),
    ],
)
def test_hosts_question_that_names_a_key_is_marked(
    tmp_path: Path, prompt: Prompt, named: bool
) -> None:
    login = Login("far", AskingConnection(prompt), lambda: None)
    try:
        connection: Connection = login.connect("me", 20.0)
        assert connection.question is not None
        assert connection.question.names_a_key is named
        login.answer(connection.question.id, "x", 20.0)
    finally:
        login.close()
