"""A machine over SSH as a Transport: what each verb is there.

How a line gets there and back is in `helper.py` (one round trip) and `far_shell.py`; logging in and
staying connected in `connection.py`. Nothing here knows of Slurm but where its commands are looked
for.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, TypeVar

import paramiko

from jupyter_slurm import places
from jupyter_slurm.errors import ConnectionLostError, FileAccessError, ForwardError, TransportError
from jupyter_slurm.transport import Completed, Span, TimedOutError, far_program
from jupyter_slurm.transport.connection import Connection
from jupyter_slurm.transport.delivery_stream import NOT_PLACED, Delivery
from jupyter_slurm.transport.far_shell import Answer, FarShell, ShellGoneError
from jupyter_slurm.transport.follow import Follow
from jupyter_slurm.transport.helper import DEFINITIONS, Helper, Helpers, completed
from jupyter_slurm.transport.shell_words import exports, quote, raw
from jupyter_slurm.transport.ssh_files import (
    exists_script,
    listing_answer,
    listing_script,
    read_answer,
    read_script,
    remove_script,
)

_FILES_S = 60.0
"""For what only looks at files."""
_REMOVE_S = 600.0
_CARRY_S = 30.0
_OPEN_S = 60.0
_EXTRA_S = 5.0
"""What is only better with a session of its own waits so long for one."""

_SMALL_BYTES = 1 << 18
"""Fetched by a helper: a channel of its own takes two round trips more."""
_SESSIONS_FOR_FOLLOW = 3
"""One for commands and one for transfers come first."""
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254 §5.1."""

_PROBE = """
PATH=$_p$PATH
command -v timeout >/dev/null 2>&1 && _t='timeout 20' || _t=
command -v sbatch >/dev/null 2>&1 || for _s in sh "$SHELL"; do
  _a=$($_t "$_s" -lc "printf '%s' '$_k'\\"\\$PATH\\"" </dev/null 2>/dev/null)
  _b=$PATH
  PATH=$_p${_a##*"$_k"}
  command -v sbatch >/dev/null 2>&1 && break
  PATH=$_b
done
printf '%s\\0' "$(id -un 2>/dev/null || printf %s "$LOGNAME")" "$HOME" "$PATH"
"""
"""`$_p` is what the profile puts in front of PATH. Where only a login's PATH leads to Slurm, that
one is taken."""

_T = TypeVar("_T")


class _Facts(NamedTuple):
    """What is asked once of the machine over there."""

    user: str
    home: str
    path: bytes


class SshTransport:
    """`path` is put in front of PATH; `env` is added to what every program gets."""

    def __init__(
        self,
        connection: Connection,
        path: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.connection = connection
        self._path = raw("".join(f"{folder}:" for folder in path))
        self._env = exports(env)
        self._facts: _Facts | None = None
        self._helpers = Helpers(self._open_shell, self._most_helpers)
        self._follow = Follow(self._shell_to_follow, self._look_once)

    # --- who and where ---

    def user(self) -> str:
        return self._known().user

    def home(self) -> PurePosixPath:
        return PurePosixPath(self._known().home)

    def _known(self) -> _Facts:
        if self._facts is None:
            with self._helpers.lent():
                pass
        assert self._facts is not None  # every helper that was opened has told them
        return self._facts

    # --- programs ---

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
    ) -> Completed:
        return self._once(lambda helper: helper.run(argv, env, stdin, timeout_s))

    def deliver(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Completed:
        delivery = Delivery(folder, files, argv, env)
        answer = self._once(
            lambda helper: helper.feed(
                delivery.work, delivery.size_bytes, delivery.stream(), timeout_s, argv[0]
            )
        )
        if answer.status == NOT_PLACED:
            raise FileAccessError(
                f"The job's files cannot be written to {folder} over there.",
                hint="Is the disk full, or over quota? `job_root` of the cluster says where jobs "
                "live.",
                detail=answer.stderr.decode(errors="replace").strip() or None,
            )
        for upload in delivery.uploads:
            upload.unlink(missing_ok=True)
        return completed(answer, argv[0])

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
        answers = self._twice(*scripts)
        return [read_answer(span, answer) for span, answer in zip(spans, answers, strict=True)]

    def exists(self, path: PurePosixPath) -> bool:
        (answer,) = self._twice(exists_script(path))
        return answer.status == "0"

    def listing(self, folder: PurePosixPath) -> list[str]:
        (answer,) = self._twice(listing_script(folder))
        return listing_answer(answer)

    def remove_tree(self, folder: PurePosixPath) -> None:
        self._twice(remove_script(folder), timeout_s=_REMOVE_S)

    def fetch(self, path: PurePosixPath) -> Path:
        """A private copy in the spool folder, the same for the same path. FileAccessError."""
        name = hashlib.sha256(f"{self.connection.name}\0{path}".encode(errors="surrogateescape"))
        target = places.spool_dir() / f"{name.hexdigest()[:32]}.fetched"
        partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        try:
            with open(partial, "xb", opener=_private) as file:
                self._download(path, file)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    def _download(self, path: PurePosixPath, file: BinaryIO) -> None:
        head = self.read(path, 0, _SMALL_BYTES)
        if head is None:
            raise FileAccessError(f"{path} is not there.")
        file.write(head)
        if len(head) < _SMALL_BYTES:
            return
        done = self.receive(["tail", "-c", f"+{len(head) + 1}", "--", str(path)], file)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise FileAccessError(f"{path} cannot be read over there.", detail=words or None)

    # --- streams ---

    def send(
        self,
        argv: Sequence[str],
        source: Iterable[bytes | memoryview] | BinaryIO,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        with self._own_shell() as shell, self._broken(stop):
            return far_program.send(shell, argv, source, stop)

    def receive(
        self, argv: Sequence[str], sink: BinaryIO, *, stop: threading.Event | None = None
    ) -> Completed:
        with self._own_shell() as shell, self._broken(stop):
            return far_program.receive(shell, argv, sink, stop)

    def converse(self, argv: Sequence[str]) -> socket.socket:
        shell = self._shell(_OPEN_S)
        try:
            return far_program.converse(shell, argv, lambda: self._kill(shell.group))
        except ShellGoneError as exc:
            shell.close()
            raise self._lost() from exc

    def carry(self, sock: socket.socket, host: str, port: int) -> None:
        try:
            transport = self.connection.transport()
        except BaseException:
            sock.close()
            raise
        try:
            transport.carry(sock, host, port, _CARRY_S)
        except paramiko.ChannelException as exc:
            if exc.code == _PROHIBITED:
                raise ForwardError(
                    f"{self.connection.hops[-1].label} forwards no ports.",
                    hint="Its administrators allow it (AllowTcpForwarding, PermitOpen), or choose "
                    "another route.",
                    detail=exc.text,
                ) from exc
            raise ForwardError(
                f"{host}:{port} cannot be reached from {self.connection.hops[-1].label}.",
                detail=exc.text,
            ) from exc
        except TimeoutError as exc:
            self.connection.suspect()
            raise ForwardError(
                f"{host}:{port} did not answer {self.connection.hops[-1].label} in time."
            ) from exc
        except (paramiko.SSHException, EOFError, OSError) as exc:
            raise self._lost() from exc

    @contextmanager
    def _own_shell(self) -> Iterator[FarShell]:
        """One for a single program; where there is but one session, the helpers make room."""
        with ExitStack() as stack:
            shell = None
            if self.connection.sessions_limit > 1:
                shell = self._shell_if_allowed()
            if shell is None:
                stack.enter_context(self._helpers.set_aside())
                shell = self._shell(_OPEN_S)
            stack.callback(shell.close)
            yield shell

    def _shell_if_allowed(self) -> FarShell | None:
        """None: the host allows but one session, as has just turned out."""
        try:
            return self._shell(_EXTRA_S if self._helpers.any_open() else _OPEN_S)
        except TransportError:
            if self.connection.sessions_limit > 1:
                raise
            return None

    @contextmanager
    def _broken(self, stop: threading.Event | None) -> Iterator[None]:
        try:
            yield
        except ShellGoneError as exc:
            if stop is not None and stop.is_set():
                raise ConnectionLostError("The transfer was stopped.") from exc
            raise self._lost() from exc

    def _shell_to_follow(self) -> FarShell | None:
        """None: the host allows too few sessions for one that only looks at files."""
        if self.connection.sessions_limit < _SESSIONS_FOR_FOLLOW:
            return None
        try:
            return self._shell(_EXTRA_S if self._helpers.any_open() else _OPEN_S)
        except TransportError:
            if self.connection.sessions_limit < _SESSIONS_FOR_FOLLOW:
                return None
            raise

    def _look_once(self, script: bytes) -> bytes:
        (answer,) = self._twice(script)
        return answer.stdout

    def _kill(self, group: int) -> None:
        """What hangs on after its channel, where another can still be had."""
        if group:
            with suppress(TransportError, TimedOutError):
                self.run(["kill", "-9", "--", f"-{group}"])

    # --- ending ---

    def close(self) -> None:
        """The connection stays as it is: it belongs to whoever made it."""
        self._follow.close()
        self._helpers.close()

    # --- how ---

    def _once(self, work: Callable[[Helper], _T]) -> _T:
        """`work` with a helper; again only where nothing of it had been begun."""
        try:
            return self._lent(work)
        except ShellGoneError as exc:
            if exc.begun:
                raise self._lost() from exc
        return self._again(work)

    def _twice(self, *scripts: bytes, timeout_s: float = _FILES_S) -> list[Answer]:
        """The answers to scripts that may be run again where they were interrupted."""

        def work(helper: Helper) -> list[Answer]:
            return helper.ask(*scripts, timeout_s=timeout_s)

        try:
            try:
                return self._lent(work)
            except ShellGoneError:
                return self._again(work)
        except TimedOutError as exc:
            raise TransportError(
                f"{self.connection.hops[-1].label} took longer than {timeout_s:g} s to look at its "
                "files.",
                hint="A file system there may hang.",
            ) from exc

    def _again(self, work: Callable[[Helper], _T]) -> _T:
        try:
            return self._lent(work)
        except ShellGoneError as exc:
            raise self._lost() from exc

    def _lent(self, work: Callable[[Helper], _T]) -> _T:
        with self._helpers.lent() as helper:
            return work(helper)

    def _lost(self) -> ConnectionLostError:
        problem = self.connection.problem
        return ConnectionLostError(
            f"The connection to {self.connection.name} broke before there was an answer.",
            detail=problem.message if problem else None,
        )

    def _most_helpers(self) -> int:
        return 1 if self.connection.sessions_limit <= _SESSIONS_FOR_FOLLOW else 2

    def _open_shell(self) -> FarShell:
        return self._shell(_OPEN_S)

    def _shell(self, timeout_s: float) -> FarShell:
        """One with the environment that programs get, after a reconnect where that is needed."""
        try:
            return self._started(timeout_s)
        except ConnectionLostError:
            pass  # of a connection that nobody had yet found dead
        try:
            return self._started(timeout_s)
        except ConnectionLostError as exc:
            # Nothing was begun.
            raise TransportError(exc.message, hint=exc.hint, detail=exc.detail) from exc

    def _started(self, timeout_s: float) -> FarShell:
        facts = self._facts
        if facts is None:
            setting = b"_p=%b\n%b" % (quote(self._path), _PROBE.encode())
        else:
            setting = b"PATH=%b\n" % quote(facts.path)
        setting += b"export PATH\n" + self._env + DEFINITIONS.encode() + b"\n_m 0"
        shell = FarShell(self.connection, setting, timeout_s=timeout_s)
        if facts is None:
            user, home, path, _ = shell.told.split(b"\0")
            self._facts = _Facts(_text(user), _text(home), path)
        return shell


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")
