"""The agent's log, which is small and private and contains no text of cells."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.agent.log import LogFile
from jupyter_slurm.errors import TransportError


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[LogFile]:
    log_file = LogFile(tmp_path / "agent.log")
    yield log_file
    log_file.close()


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("a.b", logging.ERROR, "", 0, message, (), info)


def test_full_log_is_rotated_once_and_stays_private(log_file: LogFile, tmp_path: Path) -> None:
    log_file.maxBytes = 1000
    for _ in range(100):
        log_file.emit(record("x" * 90))
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["agent.log", "agent.log.1"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert max(file.stat().st_size for file in files) <= 1000


def test_logged_traceback_shows_locations_and_types_but_no_cell_text(log_file: LogFile) -> None:
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
