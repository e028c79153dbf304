"""The Protocol `Transport`: processes, files and sockets on the machine that has Slurm's commands.
It is independent of Slurm, containers and jobs. Calls block and are thread-safe. `local.py`
implements it for this machine, `ssh/transport.py` for a machine over SSH. Each method raises a
`TransportError` when the connection fails. `LoginNeededError` means that the operation did not
start. `ConnectionLostError` means that it may have run. `Completed` reports a program's own
failure.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, Protocol

from jupyter_slurm.errors import (
    ConnectionLostError,
    FileAccessError,
    ForwardError,
    JupyterSlurmError,
)
from jupyter_slurm.transport import limits

_log = logging.getLogger(__name__)


class Completed(NamedTuple):
    """The result of a program; `returncode` is negative for a signal, as in `subprocess`."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Span(NamedTuple):
    """A part of a file. If `limit` is None, the part ends with the file, after at most
    `limits.FILE_BYTES`. A negative `offset` counts from the end."""

    path: PurePosixPath
    offset: int = 0
    limit: int | None = None


class FilePart(NamedTuple):
    """Bytes of an open file to send to a program; fewer if the file ends early."""

    file: BinaryIO
    offset: int
    size_bytes: int


Source = Iterable[bytes | memoryview | FilePart] | BinaryIO
"""A stream for a program's standard input; a real file is read from its current position."""


class TimedOutError(Exception):
    """A program did not end in time and was killed. It may have done its work."""


Answered = Callable[[JupyterSlurmError | None], None]
"""A non-blocking function, called once, from any thread. Its argument is None if the socket is
connected and has another owner, or an error if the caller still owns the socket."""


def connect_in_thread(connect: Callable[[], None], answered: Answered) -> None:
    """Run `connect`, which blocks, in a new thread. Pass its error or None to `answered`."""

    def run() -> None:
        try:
            connect()
        except JupyterSlurmError as exc:
            answered(exc)
        except Exception as exc:  # noqa: BLE001 (the caller waits for an answer)
            _log.exception("a connection failed")
            answered(ForwardError(f"The connection failed: {exc}."))
        else:
            answered(None)

    threading.Thread(target=run, name="connect", daemon=True).start()


def wait_connected(connect: Callable[[Answered], None]) -> None:
    """Return when the socket is connected; raise the error that `connect` reports."""
    answer: Future[JupyterSlurmError | None] = Future()
    connect(answer.set_result)
    error = answer.result()
    if error is not None:
        raise error


def check_stop(stop: threading.Event | None) -> None:
    """Raise ConnectionLostError if `stop` is set."""
    if stop is not None and stop.is_set():
        raise ConnectionLostError("The transfer was stopped.")


def not_appended(file: PurePosixPath, said: str) -> FileAccessError:
    """Return the error that `upload_and_append` raises. `said` is the system's message."""
    return FileAccessError(
        f"Cannot write {file}.", hint="Check the disk space and your quota.", detail=said or None
    )


def not_private(folder: PurePosixPath, listed: str) -> FileAccessError:
    """Return the error that `upload_and_run` raises if other users can open the folder. `listed` is
    the folder's line of `ls -ldn`."""
    return FileAccessError(
        f"The folder {folder} is open to other users, so nothing was written to it.",
        hint=(
            "Set the cluster's `job_root` to a folder that you own, on a file system that obeys "
            "`chmod 700`. A job's folder contains its code and the key that signs its result."
        ),
        detail=listed or None,
    )


HANDED_ON = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY"),
    *("LC_NUMERIC", "LC_TIME", "SLURM_BITSTR_LEN", "SLURM_TIME_FORMAT"),
)
"""The variables of the user's environment that sbatch passes on to a job. Programs whose output is
parsed do not get them."""


class Transport(Protocol):
    def user(self) -> str:
        """Return the login name."""

    def home(self) -> PurePosixPath:
        """Return the home folder."""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> Completed:
        """Run `argv` with `env` added to a small clean environment. `limits.py` defines the limits
        of the other methods. Raises TimedOutError, or TooMuchError if the program printed more than
        `most_bytes` and was killed."""

    def upload_and_run(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
    ) -> Completed:
        """Create `folder` (0700) with `files` in it and run `argv` in it, in one round trip.

        An existing folder also gets 0700, and so do its two parents if they are created, regardless
        of the umask and inherited ACLs. A name may include one subfolder. Files get 0600, or 0700
        if they begin with `#!`. A `Path` is a local file and is moved if possible. If it is missing
        and its target exists, an earlier call moved it. `argv` also gets the HANDED_ON variables of
        the user's environment. Raises TimedOutError. Raises FileAccessError, and does not run
        `argv`, if it cannot write the files (full disk, quota, permissions) or make the folder
        private.
        """

    def upload_and_append(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        line: str,
        file: PurePosixPath,
        fifo: PurePosixPath,
        *,
        timeout_s: float = 60.0,
    ) -> None:
        """Upload `files` to `folder` as `upload_and_run` does, append `line` to `file` (0600), and
        wake the reader of `fifo`, in one round trip. Without files the folder is not created.
        `line` starts on a new line of the file, even if a full disk truncated the previous line.
        `fifo` may be missing or have no reader. Raises TimedOutError, or FileAccessError if the
        line was not written.
        """

    def grown(
        self, sizes: Mapping[PurePosixPath, int], *, wait_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        """Return the new sizes of the files that have grown beyond their size in `sizes`. A missing
        file has size 0. Wait up to `wait_s` for a change; `wake` ends the wait early."""

    def read(self, path: PurePosixPath, offset: int = 0, limit: int | None = None) -> bytes | None:
        """Return the bytes starting at `offset`, as in `Span`; b"" at the end, None if the file
        does not exist. Raise FileAccessError if it cannot be read or is too large, NotAFileError if
        it is a pipe, a device or a folder."""

    def read_many(self, spans: Sequence[Span]) -> list[bytes | None]:
        """Read several files as `read` does, in one round trip."""

    def fetch(self, path: PurePosixPath, most_bytes: int) -> Path:
        """Return a local path with the content of `path`, if possible without a copy. Raise
        FileAccessError if it is larger than `most_bytes`, or if the local disk is full."""

    def exists(self, path: PurePosixPath) -> bool: ...

    def listing(self, folder: PurePosixPath) -> list[str]:
        """Return the UTF-8 names in `folder`; [] if the folder is missing or unreadable."""

    def send(
        self,
        argv: Sequence[str],
        source: Source,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        """Run `argv` with a stream as its standard input. Several calls may run at once. `stop`
        ends a call with ConnectionLostError."""

    def receive(
        self,
        argv: Sequence[str],
        sink: BinaryIO,
        *,
        most_bytes: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        """Run `argv` and write its standard output to `sink`, a real file; the result's `stdout` is
        b"". Raise TooMuchError after more than `most_bytes`."""

    def connect(self, sock: socket.socket, host: str, port: int, answered: Answered) -> None:
        """Connect `sock` with `host:port` as the machine sees it, without waiting. `answered` may
        be called before this method returns. After a failure, `answered` gets a ForwardError or
        TransportError. Once the socket is connected, bytes flow both ways. Each direction ends
        independently; `sock` is closed after both have ended."""

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        """Run `argv` and return a socket connected to its standard input and output. Its standard
        error is dropped. Closing the socket ends the program's input; a program that then does not
        end within a few seconds is killed if possible."""

    def on_terminal(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> list[str]:
        """Upload `files` to `folder` as `upload_and_run` does. Return the argv of a local program
        that runs `argv` there on its own terminal and then removes the folder. Raises
        FileAccessError, or ConfigError if this machine lacks the program that opens a remote
        terminal."""

    def remove_tree(self, *paths: PurePosixPath) -> None:
        """Remove files, and folders with their content. Ignore missing paths."""

    def close(self) -> None: ...
