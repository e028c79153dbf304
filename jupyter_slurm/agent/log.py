"""The agent's log: one file, 0600, of limited size.

The agent logs starts and ends, rejected peers, and errors with tracebacks. It never logs secrets,
cells or their output.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from jupyter_slurm.errors import AgentError, JupyterSlurmError

_MAX_BYTES = 2 * 1024 * 1024
_OLD_FILES = 1


class _Formatter(logging.Formatter):
    """A formatter with times in UTC, and tracebacks without the messages of foreign errors, which
    may quote a cell."""

    def __init__(self) -> None:
        super().__init__(
            "%(asctime)sZ %(levelname)s %(process)d %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
        self.converter = time.gmtime

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the tracebacks and types of the error and its causes, starting with the first
        cause."""
        error, parts = ei[1], []
        while error is not None:
            places = "".join(traceback.format_tb(error.__traceback__))
            parts.append(f"Traceback (most recent call last):\n{places}{_kind(error)}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n\n".join(reversed(parts))


class LogFile(RotatingFileHandler):
    """The handler that writes to `path`, and renames a full file to `path`.1."""

    def __init__(self, path: Path) -> None:
        self._holds_stdio = False
        super().__init__(path, maxBytes=_MAX_BYTES, backupCount=_OLD_FILES, encoding="utf-8")
        self.setFormatter(_Formatter())

    def hold_stdio(self) -> None:
        """Redirect stdout and stderr to the log, also after a rotation, so that the log gets the
        output of a dying interpreter."""
        self._holds_stdio = True
        if self.stream is not None:
            self._point_stdio(self.stream)

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        os.fchmod(stream.fileno(), 0o600)
        if self._holds_stdio:
            self._point_stdio(stream)
        return stream

    @staticmethod
    def _point_stdio(stream: TextIOWrapper) -> None:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)


def open_log(path: Path) -> LogFile:
    """Open the log of this process, for our messages at INFO or above and messages of other
    packages at WARNING or above. Raise AgentError if the log cannot be written."""
    try:
        log_file = LogFile(path)
    except OSError as exc:
        raise AgentError(
            f"The agent cannot write its log {path}: {exc.strerror}.",
            hint="Remove the file at that path, or free disk space.",
        ) from exc
    logging.getLogger().addHandler(log_file)
    logging.getLogger("jupyter_slurm").setLevel(logging.INFO)
    threading.excepthook = _log_thread_end
    return log_file


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, OSError | JupyterSlurmError) else name


def _log_thread_end(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is None or args.exc_type is SystemExit:
        return
    name = args.thread.name if args.thread else "?"
    error = (args.exc_type, args.exc_value, args.exc_traceback)
    logging.getLogger(__name__).error("thread %s ended", name, exc_info=error)
