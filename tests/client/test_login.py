"""A login as the user sees it: prompts, messages and the result of the call."""

from __future__ import annotations

import os
import pty
import threading
from pathlib import Path
from typing import cast

import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.client import interactive
from jupyter_slurm.client.login import LoginDeclined, TerminalPrompter, log_in
from jupyter_slurm.errors import LoginNeededError
from jupyter_slurm.jobs.cluster.logins import Login
from jupyter_slurm.wire import CellSpec, Connection, ConnectionState, QuestionKind
from tests.far import HOST, Asked
from tests.jobs.cluster.test_logins import ScriptedWay
from tests.magics.fake import FakeApi

PASSWORD = Asked(QuestionKind.SECRET, "Password:", "s3cret")
CODE = Asked(QuestionKind.SECRET, "Verification code:", "123456", instruction="Use your phone.\n")
MENU = Asked(QuestionKind.TEXT, "1) phone 2) mail:", "2", host="alice@login1")
KEY = Asked(
    QuestionKind.HOST_KEY,
    "Is this the host that you mean?",
    "yes",
    instruction="ssh-ed25519 SHA256:abc\x1b[31m",
)


class Person:
    """Prompter that types one given answer per question. An exception stands for a key like
    Ctrl-C."""

    def __init__(self, *types: str | type[BaseException]) -> None:
        self.types = list(types)
        self.said: list[str] = []
        self.secrets: list[str] = []
        self.texts: list[str] = []

    def there(self) -> bool:
        return True

    def say(self, text: str) -> None:
        self.said.append(text)

    def secret(self, prompt: str) -> str:
        self.secrets.append(prompt)
        return self._next()

    def choice(self, prompt: str) -> str:
        self.texts.append(prompt)
        return self._next()

    def confirm(self, prompt: str) -> str:
        self.texts.append(prompt)
        return self._next()

    def _next(self) -> str:
        typed = self.types.pop(0)
        if isinstance(typed, str):
            return typed
        raise typed


@pytest.fixture
def api(tmp_path: Path) -> FakeApi:
    return FakeApi(tmp_path)


def attend(api: FakeApi, person: Person) -> Api:
    return interactive(cast("Api", api), person)


def test_call_that_needs_a_login_prompts_and_continues(api: FakeApi) -> None:
    api.need_login(PASSWORD, CODE, MENU)
    person = Person("s3cret", "123456", "2")
    assert attend(api, person).queue()[0].user == "ana"
    assert person.secrets == [f"{HOST} asks: Password: ", f"{HOST} asks: Verification code: "]
    assert person.texts == ["alice@login1 asks: 1) phone 2) mail: "]
    assert person.said[-2:] == [f"{HOST} says:", "  | Use your phone."]


def test_rejected_answer_is_reported_and_the_question_is_repeated(api: FakeApi) -> None:
    api.need_login(PASSWORD)
    person = Person("wrong", "s3cret")
    attend(api, person).queue()
    assert f"{HOST} rejected that answer. Try again." in person.said


@pytest.mark.parametrize(("typed", "given"), [("YES", "yes"), ("", "no")])
def test_host_key_is_accepted_only_by_yes(api: FakeApi, typed: str, given: str) -> None:
    api.need_login(KEY)
    person = Person(typed, KeyboardInterrupt)
    if given == "yes":
        attend(api, person).queue()
    else:
        with pytest.raises(LoginDeclined):
            attend(api, person).queue()
    assert "ssh-ed25519 SHA256:abc�[31m" in person.said
    assert person.texts[0] == "Is this the host that you mean? (yes/no) "
    assert api.given[0] == given


def test_ctrl_c_at_the_prompt_cancels_the_login(api: FakeApi) -> None:
    api.need_login(PASSWORD)
    with pytest.raises(LoginDeclined, match="cancelled"):
        attend(api, Person(KeyboardInterrupt)).queue()
    assert api.given == [None]


def test_login_can_be_repeated_after_cancelling() -> None:
    """The calls come from one caller, like the cells of a notebook."""
    login = Login("far", ScriptedWay("Code: "), lambda: None)

    class OneLogin:
        def connect(self, _cluster: str | None, caller: str, wait_s: float) -> Connection:
            return login.connect(caller, wait_s)

        def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
            return login.answer(question_id, text, wait_s)

    api = cast("Api", OneLogin())
    with pytest.raises(LoginDeclined):
        log_in(api, "far", Person(KeyboardInterrupt), "notebook")
    assert log_in(api, "far", Person("123456"), "notebook").state is ConnectionState.OPEN
    login.close()


def test_call_waits_for_a_login_in_another_window(api: FakeApi) -> None:
    api.need_login(PASSWORD)
    api.other_window_asks()
    api.answered_elsewhere = api.other_window_is_done
    person = Person()
    attend(api, person).queue()
    assert ["another window" in line for line in person.said] == [False, True]
    assert api.given == []


def test_background_thread_never_prompts(api: FakeApi) -> None:
    api.need_login(PASSWORD)
    window = attend(api, Person("s3cret"))
    raised: list[Exception] = []

    def work() -> None:
        try:
            window.queue()
        except LoginNeededError as exc:
            raised.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert len(raised) == 1
    assert api.callers == []


def test_login_uses_the_cluster_of_the_call(api: FakeApi) -> None:
    clusters: list[str | None] = []
    connect = api.connect

    def noting(cluster: str | None = None, caller: str = "", wait_s: float = 0.0) -> object:
        clusters.append(cluster)
        return connect(cluster, caller, wait_s)

    api.connect = noting  # type: ignore[method-assign, assignment]
    window = attend(api, Person())
    spec = CellSpec(id="aaaaaaaa", name="n", code="1", cluster="far")
    api.need_login()
    window.submit(spec)
    api.need_login()
    window.cancel("aaaaaaaa")
    api.need_login()
    window.queue("other")
    api.need_login()
    window.forward("localhost", 80, job_id="aaaaaaaa")
    api.need_login()
    window.doctor()
    assert clusters == ["far", "far", "other", "far", None]


# --- the terminal -----------------------------------------------------------------------------


def test_login_does_not_start_without_a_terminal(api: FakeApi, tmp_path: Path) -> None:
    api.need_login(PASSWORD)
    with pytest.raises(LoginNeededError):
        interactive(api, TerminalPrompter(tmp_path / "no tty")).queue()
    assert api.connections()[0].state is ConnectionState.LOGIN_NEEDED
    assert api.given == []


def test_terminal_prompter_reads_a_line() -> None:
    master, terminal = pty.openpty()
    try:
        prompter = TerminalPrompter(Path(os.ttyname(terminal)))
        os.write(master, b"2\n\x04")
        prompter.say("choose")
        assert prompter.choice("1) phone 2) mail: ") == "2"
        with pytest.raises(EOFError):
            prompter.choice("again: ")
        os.set_blocking(master, False)
        shown = ""
        while not shown.endswith("again: \r\n"):  # the shell starts its prompt on a new line
            shown += os.read(master, 4096).decode()
    finally:
        os.close(master)
        os.close(terminal)
