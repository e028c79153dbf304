"""A machine over SSH as a Transport. `shell/` runs commands in sessions of `connection.py`."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import shutil
import socket
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, FileAccessError, ForwardError, TooMuchError
from jupyter_slurm.formatting import size
from jupyter_slurm.transport import (
    Answered,
    Completed,
    Source,
    Span,
    connect_in_thread,
    limits,
    not_appended,
    not_private,
    wait_connected,
)
from jupyter_slurm.transport.server_text import shown
from jupyter_slurm.transport.shell import remote_program
from jupyter_slurm.transport.shell.folder_upload import NOT_PLACED, NOT_PRIVATE, FolderUpload
from jupyter_slurm.transport.shell.follow import Follow
from jupyter_slurm.transport.shell.helper import completed
from jupyter_slurm.transport.shell.quoting import quote_path, raw
from jupyter_slurm.transport.shell.remote_shell import ShellAnswer, ShellGoneError
from jupyter_slurm.transport.shell.shells import Shells
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.mux import RefusedError
from jupyter_slurm.transport.terminal_script import START, exports, script

# Opened for reading and writing, a FIFO does not need another reader.
_APPEND_SH = """
umask 077
printf '\\n%s\\n' "$1" >>"$2" || exit
if [ -p "$3" ]; then printf . 1<>"$3"; fi 2>/dev/null || :
"""
_REMOVE_S = 600.0
_CONNECT_S = 10.0
_SMALL_BYTES = 1 << 18
"""Maximum number of bytes to send through a helper. Larger files get their own channel, which costs
two round trips."""


class SshTransport:
    """A machine over SSH. `path` precedes PATH, and `env` is added to every program's
    environment."""

    def __init__(
        self,
        connection: SshConnection,
        path: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.connection = connection
        self._shells = Shells(connection, path, env)
        self._follow = Follow(
            self._shells.shell_to_follow, self._shells.may_follow, self._look_once
        )

    # --- the user and the home ---

    def user(self) -> str:
        return self._shells.facts().user

    def home(self) -> PurePosixPath:
        return PurePosixPath(self._shells.facts().home)

    # --- programs ---

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> Completed:
        return self._shells.once(lambda helper: helper.run(argv, env, stdin, timeout_s, most_bytes))

    def upload_and_run(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
    ) -> Completed:
        delivery = FolderUpload(folder, files, argv)
        answer = self._shells.once(
            lambda helper: helper.feed(
                delivery.work, delivery.size_bytes, delivery.stream(), timeout_s, argv[0]
            )
        )
        said = answer.stderr.decode(errors="replace").strip()
        if answer.status == NOT_PRIVATE:
            raise not_private(folder, said)
        if answer.status == NOT_PLACED:
            raise FileAccessError(
                f"Cannot write the job's files to {folder} on the cluster.",
                hint=(
                    "Check the disk space and your quota, or set the cluster's `job_root` to "
                    "another folder."
                ),
                detail=said or None,
            )
        for upload in delivery.uploads:
            upload.unlink(missing_ok=True)
        return completed(answer, argv[0])

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
        argv = ["sh", "-c", _APPEND_SH, "append", line, str(file), str(fifo)]
        if files:
            done = self.upload_and_run(folder, files, argv, timeout_s=timeout_s)
        else:
            done = self.run(argv, timeout_s=timeout_s)
        if done.returncode != 0:
            raise not_appended(file, done.stderr.decode(errors="replace").strip())

    # --- files ---

    def grown(
        self, sizes: Mapping[PurePosixPath, int], *, wait_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        if not sizes:
            wake.wait(wait_s)
            return {}
        return self._follow.grown(sizes, wait_s=wait_s, wake=wake)

    def read(self, path: PurePosixPath, offset: int = 0, limit: int | None = None) -> bytes | None:
        return self.read_many([Span(path, offset, limit)])[0]

    def read_many(self, spans: Sequence[Span]) -> list[bytes | None]:
        if not spans:
            return []
        scripts = [read_script(span) for span in spans]
        answers = self._shells.twice(*scripts, most_bytes=most_read(spans))
        return [read_answer(span, answer) for span, answer in zip(spans, answers, strict=True)]

    def exists(self, path: PurePosixPath) -> bool:
        (answer,) = self._shells.twice(exists_script(path))
        return answer.status == "0"

    def listing(self, folder: PurePosixPath) -> list[str]:
        (answer,) = self._shells.twice(listing_script(folder))
        return listing_answer(answer)

    def remove_tree(self, *paths: PurePosixPath) -> None:
        self._shells.twice(remove_script(paths), timeout_s=_REMOVE_S)

    def fetch(self, path: PurePosixPath, most_bytes: int) -> Path:
        """Return a private copy in the spool folder, always at the same path. Raises
        FileAccessError."""
        free_bytes = shutil.disk_usage(places.spool_dir()).free
        if most_bytes > free_bytes:
            raise FileAccessError(
                f"{path} needs {size(most_bytes)}, but only {size(free_bytes)} is free on this "
                "machine.",
                hint=f"Make room in {places.spool_dir()}.",
            )
        name = hashlib.sha256(f"{self.connection.name}\0{path}".encode(errors="surrogateescape"))
        target = places.spool_dir() / f"{name.hexdigest()[:32]}.fetched"
        partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        try:
            with open(partial, "xb", opener=_private) as file:
                self._download(path, file, most_bytes)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    def _download(self, path: PurePosixPath, file: BinaryIO, most_bytes: int) -> None:
        head = self.read(path, 0, _SMALL_BYTES)
        if head is None:
            raise FileAccessError(f"{path} does not exist.")
        left_bytes = most_bytes - len(head)
        if left_bytes < 0:
            raise limits.too_large(path, most_bytes)
        file.write(head)
        if len(head) < _SMALL_BYTES:
            return
        argv = ["tail", "-c", f"+{len(head) + 1}", "--", str(path)]
        try:
            done = self.receive(argv, file, most_bytes=left_bytes)
        except TooMuchError as exc:
            raise limits.too_large(path, most_bytes) from exc
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise FileAccessError(f"Cannot read {path} on the cluster.", detail=words or None)

    # --- streams ---

    def send(
        self,
        argv: Sequence[str],
        source: Source,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        with self._shells.shell_of_its_own(stop) as shell:
            return remote_program.send(shell, argv, source, stop)

    def receive(
        self,
        argv: Sequence[str],
        sink: BinaryIO,
        *,
        most_bytes: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        with self._shells.shell_of_its_own(stop) as shell:
            return remote_program.receive(shell, argv, sink, most_bytes, stop)

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        shell = self._shells.shell()
        try:
            return remote_program.open_stream(
                shell, argv, lambda number: self._shells.kill(shell, number)
            )
        except ShellGoneError as exc:
            shell.close()
            raise self._shells.lost() from exc

    def on_terminal(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> list[str]:
        master = self.connection.last()
        if not isinstance(master, Master):
            raise ConfigError(
                "A terminal over SSH needs the `ssh` program, which this machine lacks.",
                hint="Install OpenSSH's client, then run `%slurm logout` and `%slurm login`.",
            )
        text = script(str(folder), argv, exports(self._shells.environment()))
        self.upload_and_run(folder, {**files, START: text}, ["true"])
        command = f"exec /bin/sh {shlex.quote(f'{folder}/{START}')}"
        return master.terminal_argv(command)

    def connect(self, sock: socket.socket, host: str, port: int, answered: Answered) -> None:
        link = self.connection.standing()
        if link is not None:
            self._connect_via(link, sock, host, port, answered)
            return

        def open_first() -> None:
            by = self.connection.last()
            wait_connected(partial(self._connect_via, by, sock, host, port))

        connect_in_thread(open_first, answered)

    def _connect_via(
        self, by: Master, sock: socket.socket, host: str, port: int, answered: Answered
    ) -> None:
        before = by.log_bytes()

        def on_connected(problem: BaseException | None) -> None:
            if problem is None:
                answered(None)
            elif isinstance(problem, TimeoutError):
                connect_in_thread(late, answered)
            elif isinstance(problem, RefusedError):
                answered(self._refusal(by.log(before), f"{host}:{port}"))
            else:
                answered(self._shells.lost())

        def late() -> None:
            """Determine whether the target or the connection does not answer."""
            self.connection.suspect()
            if self.connection.standing() is not by:
                raise self._shells.lost()
            gateway = self.connection.hops[-1].label
            raise ForwardError(f"{host}:{port} did not answer {gateway} in time.")

        by.connect(sock, host, port, _CONNECT_S, on_connected)

    def _refusal(self, said: str, target: str) -> ForwardError:
        gateway = self.connection.hops[-1].label
        if "administratively prohibited" in said:
            return ForwardError(
                f"{gateway} does not forward ports.",
                hint="Ask its administrators to allow it (AllowTcpForwarding, PermitOpen), "
                "or choose another route.",
                detail=shown(said) or None,
            )
        return ForwardError(
            f"Cannot reach {target} from {gateway}.",
            detail=shown(said) or None,
        )

    def _look_once(self, script: bytes) -> bytes:
        (answer,) = self._shells.twice(script)
        return answer.stdout

    # --- ending ---

    def close(self) -> None:
        """Close the shells. The connection stays open; its creator owns it."""
        self._follow.close()
        self._shells.close()


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


_MISSING = (b"no such file", b"not a directory", b"nonexistent directory")
"""The messages of shells for ENOENT and ENOTDIR, in lower case."""
_NO_FILE = 71
"""An exit status that `head` and `tail` do not use."""


def read_script(span: Span) -> bytes:
    """Return a script that opens the file itself, which bypasses the attribute cache of NFS. It
    opens only regular files: a pipe would block."""
    path = quote_path(span.path)
    limit = limits.FILE_BYTES + 1 if span.limit is None else span.limit
    parts = []
    if span.offset < 0:
        parts.append(b"tail -c %d" % -span.offset)
    elif span.offset > 0:
        parts.append(b"tail -c +%d" % (span.offset + 1))
    parts.append(b"head -c %d" % limit)
    command = b" | ".join(parts)
    if len(parts) < 2:
        command = b"exec " + command
    return (
        b"( if [ -e %b ] && [ ! -f %b ]; then exit %d; fi; exec <%b || exit 1; %b ) "
        b"2>&4 4>&-; _m $?" % (path, path, _NO_FILE, path, command)
    )


def most_read(spans: Sequence[Span]) -> int:
    """Return the maximum size in bytes of an answer to one of the spans."""
    sizes = [limits.FILE_BYTES if span.limit is None else span.limit for span in spans]
    return max(sizes, default=0) + limits.WORDS_BYTES


def read_answer(span: Span, answer: ShellAnswer) -> bytes | None:
    """Return the content of the span; None if the file does not exist. Raises FileAccessError."""
    if answer.status == "0" and not answer.stderr:
        if span.limit is None and len(answer.stdout) > limits.FILE_BYTES:
            raise limits.too_large(span.path, limits.FILE_BYTES)
        return answer.stdout
    if answer.status == str(_NO_FILE):
        raise limits.no_file(span.path)
    said = answer.stderr.replace(raw(span.path), b"").lower()
    if any(words in said for words in _MISSING):
        return None
    words = answer.stderr.decode(errors="replace").strip()
    raise FileAccessError(f"Cannot read {span.path} on the cluster.", detail=words or None)


def exists_script(path: PurePosixPath) -> bytes:
    return b"[ -e %b ]; _m $?" % quote_path(path)


def listing_script(folder: PurePosixPath) -> bytes:
    """Return a script that prints each name in the folder and a slash. It needs GNU find."""
    find = b"find . -mindepth 1 -maxdepth 1 -printf '%f/' 2>/dev/null"
    return b"( cd %b 2>/dev/null && %b ); _m 0" % (quote_path(folder), find)


def listing_answer(answer: ShellAnswer) -> list[str]:
    names = []
    for name in answer.stdout.split(b"/")[:-1]:
        try:
            names.append(name.decode())
        except UnicodeDecodeError:
            continue  # it can be neither shown nor requested
    return sorted(names)


def remove_script(paths: Sequence[PurePosixPath]) -> bytes:
    return b"rm -rf %b; _m 0" % b" ".join(map(quote_path, paths))
