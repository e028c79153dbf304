"""Bytes to and from the machine where Slurm's commands run: one Protocol, a few verbs.

Knows processes and files, and nothing of Slurm, containers or jobs. Blocking and thread-safe.
`local.py` is this machine, `ssh.py` one over SSH. Every verb raises `TransportError` when the way
there fails: `LoginNeededError` when it was not even begun, `ConnectionLostError` when it broke off
and what was asked for may have happened. What a program says of itself is in `Completed`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, Protocol

from jupyter_slurm.errors import FileAccessError
from jupyter_slurm.transport import limits
from jupyter_slurm.transport.connect_callbacks import Answered


class Completed(NamedTuple):
    """A program that has ended: `returncode` is negative for a signal, as in `subprocess`."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Span(NamedTuple):
    """A stretch of a file; `limit` None: to its end, which is not far (`limits.FILE_BYTES`). An
    `offset` below 0 counts from the end."""

    path: PurePosixPath
    offset: int = 0
    limit: int | None = None


class TimedOutError(Exception):
    """A program did not end in time and was killed; what it had begun may have happened."""


def not_private(folder: PurePosixPath, told: str) -> FileAccessError:
    """Return `upload_and_run`'s error for a folder open to others; `told`: as `ls -ldn`."""
    return FileAccessError(
        f"The folder {folder} is not this user's alone, so nothing was put into it.",
        hint="A job's folder holds its code and the key that its result is signed with. Where the "
        "file system does not keep what `chmod 700` sets, set `job_root` of the cluster to a "
        "folder on another; else somebody else has made this one.",
        detail=told or None,
    )


HANDED_ON = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY"),
    *("LC_NUMERIC", "LC_TIME", "SLURM_BITSTR_LEN", "SLURM_TIME_FORMAT"),
)
"""The variables of the user's own environment that sbatch hands on to a job. Programs whose output
is parsed do not get them."""


class Transport(Protocol):
    def user(self) -> str:
        """Return the login name there."""

    def home(self) -> PurePosixPath:
        """Return the home folder there."""

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
        printed more than `most_bytes` and was ended; for other verbs `limits.py` says what is too
        much."""

    def upload_and_run(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
    ) -> Completed:
        """Make `folder` (0700) with `files` in it, then run `argv` there: one round trip.

        A folder that is there is made 0700 as well. So are the two above it where they are not
        there: an umask has no say in that, nor has an ACL that folders inherit.
        Names may have one folder in them. Files are 0600, those that begin with `#!` 0700.
        A `Path` is a local file, moved rather than copied where that can be; one that is gone
        while its target is there was moved by an earlier call. `argv` also gets the variables
        HANDED_ON of the user's own environment. TimedOutError. FileAccessError: the
        files cannot be written (full disk, quota, permissions), or the folder is another user's or
        cannot be made this one's alone; and `argv` was not run.
        """

    def grown(
        self, sizes: Mapping[PurePosixPath, int], *, wait_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        """Return the files that are now longer than `sizes` says (0: the file is not there), with
        their sizes. Wait up to `wait_s` for the first; `wake` ends the wait early."""

    def read(self, path: PurePosixPath, offset: int = 0, limit: int | None = None) -> bytes | None:
        """Return bytes from `offset` on, as in `Span`; b"" at the end; None: there is no such file.
        FileAccessError: it is there and cannot be read; NotAFileError: a pipe, a device or a folder
        is there."""

    def read_many(self, spans: Sequence[Span]) -> list[bytes | None]:
        """Read several files as `read` does, in one round trip."""

    def fetch(self, path: PurePosixPath, most_bytes: int) -> Path:
        """Return a local path with the content of `path`, without a copy where that can be.
        FileAccessError: there is more of it, or too little room here."""

    def exists(self, path: PurePosixPath) -> bool: ...

    def listing(self, folder: PurePosixPath) -> list[str]:
        """Return the names in `folder` that are UTF-8; [] where there is no such folder."""

    def send(
        self,
        argv: Sequence[str],
        source: Iterable[bytes | memoryview] | BinaryIO,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        """Run `argv` with a stream as its standard input, as long as that takes: a real file is
        read from where it stands to its end. Several may run at once. `stop` ends it early, as a
        ConnectionLostError."""

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
        """Connect `sock` with `host:port` as that machine sees it, without waiting for it:
        `answered` may be called before this returns. Once it stands, bytes flow both ways, each
        with its own end, and `sock` is closed after both.
        ForwardError, TransportError."""

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        """Run `argv`, its standard input and output being the other end of the socket that this
        returns; its standard error is lost. Closing the socket ends its input; what does not end
        then within a few seconds is killed where that can be."""

    def on_terminal(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> list[str]:
        """Upload `files` to `folder` as `upload_and_run` does. Return the argv of a local program
        that runs `argv` there on its own terminal and then removes the folder. FileAccessError;
        ConfigError: this machine has no program for that."""

    def remove_tree(self, *paths: PurePosixPath) -> None:
        """Remove files, and folders with all that is in them; what is not there is fine."""

    def close(self) -> None: ...
