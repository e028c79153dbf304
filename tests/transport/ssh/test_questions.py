"""OpenSSH's questions as `askpass` receives them, and our prompts for them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.errors import HostKeyError, LoginError
from jupyter_slurm.transport.ask import Ask, Prompt
from jupyter_slurm.transport.ssh.questions import ASKPASS, Question, Questions
from jupyter_slurm.wire import QuestionKind

HOST = "alice@gateway.example.org"
PASSPHRASE = "Enter passphrase for key '/k':"
KEY = """\
The authenticity of host 'gateway.example.org (10.0.0.1)' can't be established.
ED25519 key fingerprint is SHA256:9JRk0Ff2QiEGBT3rvUQqnV7ofVBHY1OwtmfMzlo2lKw.
This host key is known by the following other names/addresses:
    ~/.ssh/known_hosts:3: gw
Are you sure you want to continue connecting (yes/no/[fingerprint])? """


@pytest.fixture
def questions(tmp_path: Path) -> Iterator[Questions]:
    with Questions(tmp_path / "ask", HOST, prefixes=True, told=lambda: "") as made:
        yield made


def asked(questions: Questions, text: str, ask: Ask, hint: str = "") -> tuple[int, str]:
    """Return askpass's exit status and the answer that `ssh` would receive."""
    env = {**os.environ, **questions.environment, "SSH_ASKPASS_PROMPT": hint}
    with subprocess.Popen([ASKPASS, text], stdout=subprocess.PIPE, env=env, text=True) as askpass:
        ended: list[int | None] = []
        problem: list[BaseException] = []

        def serve() -> None:
            try:
                questions.serve(os.getpid(), ask, lambda: ended.append(askpass.poll()))
            except BaseException as exc:
                problem.append(exc)

        serving = threading.Thread(target=serve)
        serving.start()
        out, _ = askpass.communicate(timeout=60)
        serving.join()
    if problem:
        assert (ended, askpass.returncode) == ([None], 1)  # askpass ends after ssh
        raise problem[0]
    return askpass.returncode, out


@pytest.mark.parametrize("answer", ['it\'s "quoted" $HOME \\n', "ünï 🎉", "", " blanks "])
def test_answer_arrives_unchanged(questions: Questions, answer: str) -> None:
    assert asked(questions, "Password: ", lambda _: answer) == (0, f"{answer}\n")


def test_declining_a_question_ends_ssh_without_an_empty_answer(questions: Questions) -> None:
    def declines(prompt: Prompt) -> str:
        raise LoginError("Rather not.")

    with pytest.raises(LoginError):
        asked(questions, "Password: ", declines)


def test_touching_a_security_key_does_not_need_an_answer(questions: Questions) -> None:
    prompts: list[Prompt] = []

    def touch(prompt: Prompt) -> str:
        prompts.append(prompt)
        return ""

    text = "Confirm user presence for key ED25519-SK SHA256:abc"
    assert asked(questions, text, touch, hint="none") == (0, "\n")
    assert [(one.kind, one.text) for one in prompts] == [(QuestionKind.TOUCH, text)]
    assert questions.by_person


def test_host_key_is_accepted_only_by_yes(questions: Questions) -> None:
    assert asked(questions, KEY, lambda _: "yes") == (0, "yes\n")
    assert not questions.by_person
    with pytest.raises(HostKeyError):
        asked(questions, KEY, lambda _: "SHA256:other")
    prompt = questions.prompt(Question(KEY, "", 1), HOST)
    assert prompt.kind is QuestionKind.HOST_KEY
    assert "ED25519 SHA256:9JRk0Ff2QiEGBT3rvUQqnV7ofVBHY1OwtmfMzlo2lKw" in str(prompt.instruction)
    assert "~/.ssh/known_hosts:3: gw" in str(prompt.instruction)


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("alice@gw's password: ", QuestionKind.SECRET, "alice@gw's password:"),
        ("(alice@gw) Verification code: ", QuestionKind.SECRET, "Verification code:"),
        ("(a@gw) 1. one\n2. two\nYour choice (1-2): ", QuestionKind.TEXT, "Your choice (1-2):"),
        (f"{PASSPHRASE} ", QuestionKind.PASSPHRASE, PASSPHRASE),
        ("Enter PIN for 'token': ", QuestionKind.PASSPHRASE, "Enter PIN for 'token':"),
        (f"(alice@gw) {PASSPHRASE} ", QuestionKind.SECRET, PASSPHRASE),
    ],
)
def test_questions_from_the_host_and_from_this_machine_are_distinguished(
    questions: Questions, text: str, kind: QuestionKind, shown: str
) -> None:
    prompt = questions.prompt(Question(text, "", 1), HOST)
    assert (prompt.kind, prompt.host, prompt.text) == (kind, HOST, shown)


def test_passphrase_prompt_of_an_old_openssh_is_attributed_to_the_host(
    tmp_path: Path,
) -> None:
    with Questions(tmp_path / "ask", HOST, prefixes=False, told=lambda: "") as questions:
        prompt = questions.prompt(Question(f"{PASSPHRASE} ", "", 1), HOST)
    assert (prompt.kind, prompt.names_a_key) == (QuestionKind.SECRET, True)


def test_prompt_of_a_repeated_question_reports_a_rejected_answer(questions: Questions) -> None:
    asked = [questions.prompt(Question(text, "", 1), HOST) for text in 2 * ("Password: ", "Code: ")]
    assert [one.refused for one in asked] == [False, False, True, False]


def test_earlier_output_becomes_the_instruction_of_the_prompt(tmp_path: Path) -> None:
    with Questions(tmp_path / "ask", HOST, prefixes=True, told=lambda: "Welcome\x1b[2J") as asked:
        prompt = asked.prompt(Question("(a@b) Call us.\nPassword: ", "", 1), HOST)
    assert (prompt.instruction, prompt.text) == ("Welcome\nCall us.", "Password:")
