"""The one log: small, private, and without the words of foreign errors."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.agent.log import LogFile
from jupyter_slurm.errors import TransportError
from tests.agent.home import ROOT


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[LogFile]:
    log_file = LogFile(tmp_path / "agent.log")
    yield log_file
    log_file.close()


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("a.b", logging.ERROR, "", 0, message, (), info)


def test_a_full_file_is_turned_once_and_stays_private(log_file: LogFile, tmp_path: Path) -> None:
    log_file.maxBytes = 1000
    for _ in range(100):
        log_file.emit(record("x" * 90))
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["agent.log", "agent.log.1"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert max(file.stat().st_size for file in files) <= 1000


def test_words_of_the_interpreter_follow_the_file_when_it_turns(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom jupyter_slurm.agent.log import LogFile\n"
        f"log_file = LogFile(Path({str(path)!r}))\nlog_file.hold_stdio()\n"
        "os.write(2, b'before')\nlog_file.doRollover()\nos.write(2, b'after')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert (tmp_path / "agent.log.1").read_text() == "before"
    assert path.read_text() == "after"


def test_a_thread_that_dies_is_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    code = (
        "import threading\nfrom pathlib import Path\nfrom jupyter_slurm.agent.log import open_log\n"
        f"open_log(Path({str(path)!r}))\n"
        "threading.Thread(target=lambda: 1 / 0, name='watch of arandu').start()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    log = path.read_text()
    assert "thread watch of arandu ended" in log
    assert log.endswith("ZeroDivisionError\n")


def test_an_older_file_that_was_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    path.touch(0o644)
    LogFile(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_traceback_shows_places_and_kinds_of_the_whole_chain(log_file: LogFile) -> None:
    cell = "the text " + "of a cell"

    def fail() -> None:
        try:
            os.environ[cell]
        except KeyError as exc:
            raise TransportError("The way is closed.") from exc

    with pytest.raises(TransportError) as caught:
        fail()
    text = log_file.format(record("failed", caught.value))
    assert text.index("KeyError") < text.index("TransportError: The way is closed.")
    assert "test_log.py" in text
    assert cell not in text


def test_an_error_of_the_system_keeps_its_words(log_file: LogFile) -> None:
    text = log_file.format(record("failed", FileNotFoundError(2, "No such file", "/a b")))
    assert "No such file: '/a b'" in text
