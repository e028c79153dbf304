"""`jupyter slurm login`, `push`, `pull`, `tunnel`: prompts and output, with an Api in memory."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_slurm.cli import main
from jupyter_slurm.client.login import TerminalPrompter
from jupyter_slurm.wire import CellSpec, Problem, QuestionKind, TransferState
from tests.agent.home import ROOT
from tests.far import HOST, Asked
from tests.magics.fake import FakeApi

PASSWORD = Asked(QuestionKind.SECRET, "Password:", "s3cret")


class Run:
    """Runner of command lines over `api`. `typed` lists the answers to prompts."""

    def __init__(self, api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self.typed: list[str | BaseException] = []
        self.prompts: list[str] = []
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        try:
            code = main(words, lambda: self.api)
        except SystemExit as exc:
            code = int(exc.code or 0)
        return code, *self._capsys.readouterr()

    def answer(self, prompt: str) -> str:
        self.prompts.append(prompt)
        typed = self.typed.pop(0)
        if isinstance(typed, BaseException):
            raise typed
        return typed


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    monkeypatch.delenv("JUPYTER_SLURM_CLUSTER", raising=False)
    monkeypatch.chdir(tmp_path)
    api = FakeApi(tmp_path)
    made = Run(api, capsys)
    monkeypatch.setattr(TerminalPrompter, "there", lambda _: True)
    monkeypatch.setattr(TerminalPrompter, "say", lambda _, text: sys.stderr.write(text + "\n"))
    monkeypatch.setattr(TerminalPrompter, "secret", lambda _, prompt: made.answer(prompt))
    monkeypatch.setattr(TerminalPrompter, "confirm", lambda _, prompt: made.answer(prompt))
    yield made
    api.close()


def test_login_prompts_and_shows_the_route(run: Run) -> None:
    run.api.need_login(PASSWORD)
    run.typed = ["wrong", "s3cret"]
    code, out, err = run("login")
    assert (code, out) == (
        0,
        f"Connected to fake: {HOST} → alice@login1, 12 ms round trip.\n",
    )
    assert run.prompts == [f"{HOST} asks: Password: "] * 2
    assert "rejected that answer" in err


def test_command_that_needs_a_login_prompts_and_continues(run: Run) -> None:
    run.api.need_login(PASSWORD)
    run.typed = ["s3cret"]
    code, out, err = run("queue")
    assert code == 0
    assert "ana" in out
    assert "needs a login" in err


def test_ctrl_c_at_the_prompt_exits_with_130(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    for words in (("login",), ("submit", "a.py")):
        run.api.need_login(PASSWORD)
        run.typed = [KeyboardInterrupt()]
        code, _, err = run(*words)
        assert code == 130
        assert "cancelled; nothing else was done" in err
        assert "Check if job" not in err
    assert run.api.given == [None, None]


def test_logout_closes_the_connection(run: Run) -> None:
    assert run("logout")[0] == 0
    _, out, _ = run("connections")
    assert "login-needed" in out
    assert f"{HOST} → alice@login1" in out
    assert json.loads(run("connections", "--json")[1])[1]["state"] == "local"


def test_push_and_pull_report_the_files(run: Run, tmp_path: Path) -> None:
    run.api.steps = [
        {"files": 2},
        {"state": TransferState.DONE, "ended_s": 0.0, "files_done": 2, "bytes_done": 12},
    ]
    code, out, err = run("push", str(tmp_path), "there", "--exclude", "*.pt", "--cluster", "c")
    assert (code, out) == (0, "")
    assert "✔" in err
    assert "2 files (12 B)" in err
    assert run("pull", "~/a b")[0] == 0
    assert run.api.targets == [
        ("push", str(tmp_path), "there", "c", ("*.pt",)),
        ("pull", "~/a b", str(tmp_path / "a b"), None, ()),
    ]


def test_ctrl_c_stops_a_transfer(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.api.steps = [{"files_done": 1}]

    def interrupt(_s: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jupyter_slurm.cli.follow.time.sleep", interrupt)
    code, _, err = run("push", str(tmp_path))
    assert code == 130
    assert "the next transfer resumes from there" in err


def test_submit_pushes_its_folder_and_fetches_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.py").write_text("")
    code, _, err = run("submit", "a.py", "--push", "src", "--push-exclude=*.pt", "--fetch", "*.csv")
    assert code == 0
    (spec,) = run.api.specs.values()
    assert (spec.push, spec.push_exclude, spec.fetch, spec.fetch_to) == (
        str(tmp_path / "src"),
        ("*.pt",),
        ("*.csv",),
        str(tmp_path),
    )
    assert run.api.targets == [("fetch", spec.id)]
    assert "/here/results" in err


def test_failed_fetch_changes_the_exit_code_only_of_a_successful_job(
    run: Run, tmp_path: Path
) -> None:
    problem = Problem(code="transport", message="The disk is full.")
    for code, text in ((1, ""), (3, "raise SystemExit(3)")):
        run.api.steps = [{"state": TransferState.FAILED, "problem": problem}]
        (tmp_path / "a.py").write_text(text)
        found, _, err = run("submit", "a.py", "--fetch", "*.csv")
        assert (found, "The disk is full." in err) == (code, True)


def test_tunnels_are_opened_listed_and_closed(run: Run) -> None:
    assert run("tunnel")[1] == "No tunnel is open.\n"
    code, out, _ = run("tunnel", "gpu7:8888", "--local-port", "9999")
    assert (code, out) == (0, "127.0.0.1:9999 forwards to gpu7:8888 on fake (tunnel t1).\n")
    assert json.loads(run("tunnel", "80", "--json")[1])["port"] == 80
    assert "t1" in run("tunnel")[1]
    assert len(json.loads(run("tunnel", "--json")[1])) == 2
    assert run("tunnel", "--close", "t1", "--close", "t2")[1].count("is closed") == 2
    assert run("tunnel", "x")[0] == 2


def test_dashboard_address_is_printed_if_no_browser_opens(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda _url: False)
    job = run.api.submit(CellSpec(name="fit", code="linger()"))
    code, out, err = run("tunnel", f"{job.id}:tensorboard")
    assert (code, out) == (0, f"http://tensorboard-{job.id}.localhost:4001/\n")
    [path] = re.findall(r"Open (\S+) in a browser on this machine", err)
    assert out.strip() in Path(path).read_text()
    assert run("tunnel", "nowhere:ray")[0] == 1


# --- a real terminal --------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from jupyter_slurm.cli import main
from jupyter_slurm.wire import QuestionKind
from tests.far import Asked
from tests.magics.fake import FakeApi
api = FakeApi(Path("/"))
api.need_login(
    Asked(QuestionKind.HOST_KEY, "Is this it?", "yes", instruction="SHA256:abc"),
    Asked(QuestionKind.SECRET, "Password:", "s3cret"),
)
sys.exit(main(["login"], lambda: api))
"""


class Screen:
    """A terminal that records a program's output and types its input."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.shown = ""

    def until(self, text: str) -> None:
        while text not in self.shown:
            ready, _, _ = select.select([self._master], [], [], 60)
            assert ready, f"{text!r} was not shown: {self.shown!r}"
            self.shown += os.read(self._master, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())


@contextmanager
def at_a_terminal(code: str) -> Iterator[tuple[subprocess.Popen[str], Screen]]:
    """Run a program whose stdin and stdout are not the terminal."""
    master, terminal = pty.openpty()
    name = os.ttyname(terminal)
    # A session leader without a terminal gets the first terminal that it opens (tty_ioctl(4)).
    program = subprocess.Popen(
        [sys.executable, "-c", f"import os\nos.open({name!r}, os.O_RDWR)\n{code}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield program, Screen(master)
    finally:
        program.kill()
        program.communicate()
        os.close(terminal)
        os.close(master)


def test_prompts_use_the_terminal_and_hide_secrets() -> None:
    with at_a_terminal(PROGRAM) as (program, screen):
        screen.until("Is this it? (yes/no) ")
        assert "SHA256:abc" in screen.shown
        screen.type("yes\n")
        screen.until("Password: ")
        screen.type("s3cret\n")
        out, err = program.communicate(timeout=60)
        assert program.returncode == 0, err
        assert out.startswith("Connected to fake")
        assert "s3cret" not in out + err + screen.shown
