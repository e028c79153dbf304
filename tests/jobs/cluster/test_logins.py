"""Delivery of a login's questions and answers by a scripted connection. tests/transport and
tests/ssh use real hosts."""

from __future__ import annotations

import threading
import time

import pytest

from jupyter_slurm.errors import LoginError
from jupyter_slurm.jobs.cluster import logins
from jupyter_slurm.jobs.cluster.logins import Login, Logins
from jupyter_slurm.transport.ask import Ask, Prompt
from jupyter_slurm.wire import Connection, ConnectionState, Problem, Question, QuestionKind

PATIENCE_S = 60.0


class ScriptedWay:
    """Connection that asks `prompts` in order. It is then open, or raises `error`."""

    def __init__(self, *prompts: str, error: Exception | None = None) -> None:
        self._prompts = prompts
        self._error = error
        self.state = ConnectionState.CLOSED
        self.since_s = time.time()
        self.problem: Problem | None = None
        self.hosts = ("alice@gateway", "alice@login")
        self.round_trip_s: float | None = None
        self.answers: list[str] = []
        self.opened = 0

    def open(self, ask: Ask) -> None:
        self.opened += 1
        for text in self._prompts:
            self.answers.append(ask(Prompt(QuestionKind.SECRET, "alice@gateway", text)))
        if self._error is not None:
            raise self._error
        self.state = ConnectionState.OPEN

    def disconnect(self) -> None:
        self.state = ConnectionState.LOGIN_NEEDED


def nobody() -> None:
    """Stand-in for a listener of changes."""


def question_of(found: Connection) -> Question:
    assert found.state is ConnectionState.ASKING
    assert found.question is not None
    return found.question


def test_first_caller_gets_the_questions_in_order() -> None:
    way = ScriptedWay("Password: ", "Code: ")
    login = Login("arandu", way, nobody)
    first = question_of(login.connect("notebook", PATIENCE_S))
    assert (first.prompt, first.host, first.cluster) == ("Password: ", "alice@gateway", "arandu")
    second = question_of(login.answer(first.id, "secret", PATIENCE_S))
    assert second.prompt == "Code: "
    found = login.answer(second.id, "123456", PATIENCE_S)
    assert found.state is ConnectionState.OPEN
    assert way.answers == ["secret", "123456"]
    assert login.answered
    login.close()


def test_login_without_questions_opens_the_connection_once() -> None:
    way = ScriptedWay()
    login = Login("arandu", way, nobody)
    assert login.connect("a", PATIENCE_S).state is ConnectionState.OPEN
    assert login.connect("b", PATIENCE_S).state is ConnectionState.OPEN
    assert way.opened == 1
    assert not login.answered


def test_second_caller_shares_the_login_of_the_first() -> None:
    way = ScriptedWay("Code: ")
    login = Login("arandu", way, nobody)
    question = question_of(login.connect("first", PATIENCE_S))
    other = login.connect("second", 0.0)
    assert other.state is ConnectionState.ASKING
    assert other.question is None
    found: list[Connection] = []
    waiting = threading.Thread(target=lambda: found.append(login.connect("second", PATIENCE_S)))
    waiting.start()
    login.answer(question.id, "1", PATIENCE_S)
    waiting.join()
    assert found[0].state is ConnectionState.OPEN
    assert way.opened == 1


def test_unanswered_question_is_offered_to_other_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins, "_OFFERED_TO_OTHERS_S", 0.0)
    way = ScriptedWay("Code: ")
    login = Login("arandu", way, nobody)
    login.connect("closed its laptop", PATIENCE_S)
    question = question_of(login.connect("second", PATIENCE_S))
    assert login.answer(question.id, "1", PATIENCE_S).state is ConnectionState.OPEN


def test_late_answer_is_ignored() -> None:
    way = ScriptedWay("Password: ", "Code: ")
    login = Login("arandu", way, nobody)
    first = question_of(login.connect("a", PATIENCE_S))
    second = question_of(login.answer(first.id, "secret", PATIENCE_S))
    assert login.answer(first.id, "again", 0.0).question == second
    login.answer(second.id, "1", PATIENCE_S)
    assert way.answers == ["secret", "1"]


def test_declining_a_question_ends_the_login_for_all_callers() -> None:
    way = ScriptedWay("Code: ")
    login = Login("arandu", way, nobody)
    question = question_of(login.connect("first", PATIENCE_S))
    login.connect("second", 0.0)
    with pytest.raises(LoginError, match="cancelled"):
        login.answer(question.id, None, PATIENCE_S)
    with pytest.raises(LoginError):
        login.connect("second", PATIENCE_S)
    assert way.opened == 1
    assert question_of(login.connect("second", PATIENCE_S))
    assert way.opened == 2
    login.close()


def test_question_passes_to_the_next_caller() -> None:
    way = ScriptedWay("Password: ", "Code: ")
    login = Login("arandu", way, nobody)
    login.connect("a terminal", PATIENCE_S)
    assert login.connect("second", 0.0).question is None
    login.left("somebody else")
    assert login.connect("second", 0.0).question is None
    login.left("a terminal")
    question = question_of(login.connect("third", 0.0))
    assert login.connect("second", 0.0).question is None
    assert question_of(login.answer(question.id, "secret", PATIENCE_S)).prompt == "Code: "
    assert login.connect("second", 0.0).question is None
    login.close()


def test_closing_ends_a_login_that_waits_for_an_answer() -> None:
    way = ScriptedWay("Code: ")
    every = Logins(nobody)
    login = every.of("arandu", way)
    question = question_of(login.connect("a", PATIENCE_S))
    assert every.asking(question.id) is login
    every.close()
    with pytest.raises(LoginError):
        login.connect("a", PATIENCE_S)
    assert every.asking("none of ours") is None
