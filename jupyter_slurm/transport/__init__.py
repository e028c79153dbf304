"""The Protocol `Transport`: processes, files and sockets on the machine that has Slurm's commands.

Knows nothing of Slurm, containers or jobs. Blocking and thread-safe. `local.py` is this machine,
`ssh/transport.py` a machine over SSH. Each method raises `TransportError` when the connection
fails: `LoginNeededError` if the operation was not started, `ConnectionLostError` if it may have
happened. `Completed` has a program's own result.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, Protocol

from jupyter_slurm.errors import FileAccessError, ForwardError, JupyterSlurmError
from jupyter_slurm.transport import limits

_log = logging.getLogger(__name__)


class Completed(NamedTuple):
    """The result of a program; `returncode` is negative for a signal, as in `subprocess`."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Span(NamedTuple):
    """A part of a file; `limit` None: up to the end, at most `limits.FILE_BYTES`. A negative
    `offset` counts from the end."""

    path: PurePosixPath
    offset: int = 0
    limit: int | None = None


class FilePart(NamedTuple):
    """Bytes of an open file that a program gets; fewer where the file ends."""

    file: BinaryIO
    offset: int
    size_bytes: int


Source = Iterable[bytes | memoryview | FilePart] | BinaryIO
"""A stream for a program's standard input; a real file is read from its current position."""


class TimedOutError(Exception):
    """A program did not end in time and was killed; it may have done its work."""


Answered = Callable[[JupyterSlurmError | None], None]
"""Called once, from any thread; must not block. None: the socket is connected and has another
owner; an error: the socket is still the caller's."""


def connect_in_thread(connect: Callable[[], None], answered: Answered) -> None:
    """Run `connect`, which blocks and raises errors, in a thread of its own."""

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
    """Return when the socket is connected; raise the error that `connect` was answered."""
    answer: Future[JupyterSlurmError | None] = Future()
    connect(answer.set_result)
    error = answer.result()
    if error is not None:
        raise error


def not_appended(file: PurePosixPath, said: str) -> FileAccessError:
    """Return `upload_and_append`'s error; `said`: the system's words."""
    return FileAccessError(
        f"Cannot write {file}.", hint="Check the disk space and your quota.", detail=said or None
    )


def not_private(folder: PurePosixPath, listed: str) -> FileAccessError:
    """Return `upload_and_run`'s error for a folder open to others; `listed`: its `ls -ldn`."""
    return FileAccessError(
        f"The folder {folder} is open to other users, so nothing was written to it.",
        hint=(
            "A job's folder contains its code and the key that signs its result. If the file "
            "system ignores `chmod 700`, set the cluster's `job_root` to a folder on another "
            "one. Else another user owns the folder."
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
        """Run `argv` with `env` added to a small clean environment. TimedOutError; TooMuchError: it
        printed more than `most_bytes` and was killed. `limits.py` has the limits of the other
        methods."""

    def upload_and_run(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
    ) -> Completed:
        """Create `folder` (0700) with `files` in it and run `argv` there, in one round trip.

        An existing folder is made 0700, too, as are the two above it if they are missing, whatever
        the umask or an inherited ACL says. Names may contain one folder. Files are 0600, those that
        begin with `#!` 0700. A `Path` is a local file and is moved if possible; a missing one whose
        target exists was moved by an earlier call. `argv` also gets the variables HANDED_ON of the
        user's environment. TimedOutError. FileAccessError: the files cannot be written (full disk,
        quota, permissions) or the folder cannot be made private; `argv` did not run.
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
        wake the reader of `fifo`, in one round trip. Without files the folder is not made.

        The line starts on a new line, even after one that a full disk has cut. `fifo` may not exist
        or have no reader. TimedOutError. FileAccessError: the line was not written.
        """

    def grown(
        self, sizes: Mapping[PurePosixPath, int], *, wait_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        """Return the files that are now longer than `sizes` (0: missing), with their sizes. Wait up
        to `wait_s` for the first; `wake` ends the wait early."""

    def read(self, path: PurePosixPath, offset: int = 0, limit: int | None = None) -> bytes | None:
        """Return bytes from `offset` on, as in `Span`; b"" at the end; None: no such file.
        FileAccessError: it cannot be read; NotAFileError: it is a pipe, a device or a folder."""

    def read_many(self, spans: Sequence[Span]) -> list[bytes | None]:
        """Read several files as `read` does, in one round trip."""

    def fetch(self, path: PurePosixPath, most_bytes: int) -> Path:
        """Return a local path with the content of `path`, without a copy if possible.
        FileAccessError: it is larger than `most_bytes`, or the local disk is full."""

    def exists(self, path: PurePosixPath) -> bool: ...

    def listing(self, folder: PurePosixPath) -> list[str]:
        """Return the names in `folder` that are UTF-8; [] if there is no such folder."""

    def send(
        self,
        argv: Sequence[str],
        source: Source,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        """Run `argv` with a stream as its standard input. Several may run at once. `stop` ends it
        with ConnectionLostError."""

    def receive(
        self,
        argv: Sequence[str],
        sink: BinaryIO,
        *,
        most_bytes: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        """Run `argv` with its standard output going to `sink`, a real file; `stdout` is b"". More
        than `most_bytes` is a TooMuchError."""

    def connect(self, sock: socket.socket, host: str, port: int, answered: Answered) -> None:
        """Connect `sock` with `host:port` as the machine sees it, and do not wait; `answered` may
        be called before this returns. Once connected, bytes flow both ways, each direction ends by
        itself, and `sock` is closed after both. ForwardError, TransportError."""

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        """Run `argv` and return a socket connected to its standard input and output; its standard
        error is dropped. Closing the socket ends its input; a program that does not end within a
        few seconds is killed if possible."""

    def on_terminal(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> list[str]:
        """Upload `files` to `folder` as `upload_and_run` does. Return the argv of a local program
        that runs `argv` there on its own terminal and then removes the folder. FileAccessError;
        ConfigError: this machine has no program for that."""

    def remove_tree(self, *paths: PurePosixPath) -> None:
        """Remove files, and folders with their content; missing ones are ignored."""

    def close(self) -> None: ...
