"""This machine as a Transport: subprocesses and plain files."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from jupyter_slurm.errors import FileAccessError, ForwardError, TransportError
from jupyter_slurm.places import make_private
from jupyter_slurm.transport import (
    HANDED_ON,
    Answered,
    Completed,
    Source,
    Span,
    check_stop,
    connect_in_thread,
    limits,
    local_program,
    not_appended,
    not_private,
)
from jupyter_slurm.transport.terminal_script import ONLY_TERMINALS_VARIABLES, START, exports, script

_TICKS_PER_QUIET_TIME = 25
"""Ratio of the time since a file's last change to the time between checks. So a change is noticed
after at most 4 % of the time since the previous change."""
_SHORTEST_TICK_S = 0.001
_TICK_OF_A_FILE_S = 0.0002
"""Shortest pause per watched file. With five or more files, `_SHORTEST_TICK_S` applies."""
_LONGEST_TICK_S = 0.25

_CONNECT_S = 30.0
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7))

_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "KRB5CCNAME", "SSH_AUTH_SOCK", "TZ")
"""The variables of our environment that programs need. Programs do not get Slurm's variables,
tokens or passwords, because sbatch would pass them on to the job."""


class LocalTransport:
    """This machine. `path` precedes PATH, and `env` is added to every program's environment."""

    def __init__(self, path: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        account = pwd.getpwuid(os.getuid())
        self._user = account.pw_name
        self._home = PurePosixPath(os.environ.get("HOME") or account.pw_dir)
        inherited = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
        self._env = {
            "USER": self._user,
            "LOGNAME": self._user,
            "HOME": str(self._home),
            "SHELL": account.pw_shell or "/bin/sh",
            "TERM": "dumb",
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "PATH": os.pathsep.join([*path, inherited]),
            **(env or {}),
        }

    def user(self) -> str:
        return self._user

    def home(self) -> PurePosixPath:
        return self._home

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> Completed:
        return self._run(argv, None, env, stdin, timeout_s, most_bytes)

    def upload_and_run(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
    ) -> Completed:
        self._upload(folder, files)
        own = {name: os.environ[name] for name in HANDED_ON if name in os.environ}
        return self._run(argv, Path(folder), own | self._env, b"", timeout_s)

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
        if files:
            self._upload(folder, files)
        try:
            _append(file, f"\n{line}\n".encode())
        except OSError as exc:
            raise not_appended(file, exc.strerror or str(exc)) from exc
        with suppress(OSError):
            if stat.S_ISFIFO(os.stat(fifo).st_mode):  # noqa: PTH116 (a Path costs more than the call)
                # Opened for reading and writing, a FIFO does not need another reader.
                _append(fifo, b".", os.O_RDWR | os.O_NONBLOCK)

    def _upload(self, folder: PurePosixPath, files: Mapping[str, bytes | Path]) -> None:
        target = Path(folder)
        try:
            make_private(target)
            _require_private(target)
            for parent in {PurePosixPath(name).parent for name in files if "/" in name}:
                (target / parent).mkdir(mode=0o700, exist_ok=True)
            # Each file gets a unique temporary name, because another call may write the same files.
            ending = f".{secrets.token_hex(4)}.partial"
            for name, content in files.items():
                _place(f"{target}/{name}", content, ending)
        except OSError as exc:
            raise FileAccessError(
                f"Cannot write the job's files to {target}: {exc.strerror or exc}.",
                hint=(
                    "Check the disk space and your quota, or set the cluster's `job_root` to "
                    "another folder."
                ),
            ) from exc

    def grown(
        self, sizes: Mapping[PurePosixPath, int], *, wait_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        began = time.monotonic()
        known = [(path, str(path), size) for path, size in sizes.items()]
        shortest_s = min(_SHORTEST_TICK_S, _TICK_OF_A_FILE_S * max(len(known), 1))
        while True:
            found = {path: now for path, name, size in known if (now := _size(name)) > size}
            quiet_s = time.monotonic() - began
            if found or quiet_s >= wait_s:
                return found
            tick_s = min(max(quiet_s / _TICKS_PER_QUIET_TIME, shortest_s), _LONGEST_TICK_S)
            if wake.wait(min(tick_s, wait_s - quiet_s)):
                return {}

    def read(self, path: PurePosixPath, offset: int = 0, limit: int | None = None) -> bytes | None:
        try:
            with open(path, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise limits.no_file(path)
                # If the offset is before the beginning, read from the beginning.
                end = file.seek(0, os.SEEK_END) if offset < 0 else 0
                file.seek(max(0, end + offset) if offset < 0 else offset)
                data = file.read(limits.FILE_BYTES + 1 if limit is None else limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            raise limits.no_file(path) from None
        except OSError as exc:
            raise FileAccessError(f"Cannot read {path}: {exc.strerror or exc}.") from exc
        if limit is None and len(data) > limits.FILE_BYTES:
            raise limits.too_large(path, limits.FILE_BYTES)
        return data

    def read_many(self, spans: Sequence[Span]) -> list[bytes | None]:
        return [self.read(*span) for span in spans]

    def fetch(self, path: PurePosixPath, most_bytes: int) -> Path:
        return Path(path)

    def exists(self, path: PurePosixPath) -> bool:
        return Path(path).exists()

    def listing(self, folder: PurePosixPath) -> list[str]:
        try:
            return sorted(entry.name for entry in Path(folder).iterdir() if _is_text(entry.name))
        except OSError:
            return []

    def send(
        self,
        argv: Sequence[str],
        source: Source,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        pipe = subprocess.PIPE
        process = self._start(argv, None, None, stdin=pipe, stdout=pipe, stderr=pipe)
        return local_program.feed(process, argv[0], source, stop)

    def receive(
        self,
        argv: Sequence[str],
        sink: BinaryIO,
        *,
        most_bytes: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        sink.flush()
        none, pipe = subprocess.DEVNULL, subprocess.PIPE
        file = sink.fileno()
        end = os.lseek(file, 0, os.SEEK_CUR) + most_bytes

        def look() -> None:
            """Check `stop` and the size of the file that the program itself writes."""
            check_stop(stop)
            if os.lseek(file, 0, os.SEEK_CUR) > end:
                raise limits.too_much_output(argv[0], "standard output", most_bytes)

        process = self._start(argv, None, None, stdin=none, stdout=file, stderr=pipe)
        completed = local_program.gather(process, argv[0], look=look)
        look()
        sink.seek(os.lseek(file, 0, os.SEEK_CUR))
        return completed

    def connect(self, sock: socket.socket, host: str, port: int, answered: Answered) -> None:
        connect_in_thread(lambda: _connect(sock, host, port), answered)

    def open_stream(self, argv: Sequence[str]) -> socket.socket:
        near, far = socket.socketpair()
        with near, far:
            process = self._start(argv, None, None, stdin=far.fileno(), stdout=far.fileno())
            return local_program.ProgramSocket(process, near)

    def on_terminal(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> list[str]:
        env = {name: value for name, value in self._env.items() if name != "TERM"}
        text = script(str(folder), argv, ONLY_TERMINALS_VARIABLES + exports(env))
        self.upload_and_run(folder, {**files, START: text}, ["true"])
        return ["/bin/sh", f"{folder}/{START}"]

    def remove_tree(self, *paths: PurePosixPath) -> None:
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):
                Path(path).unlink()

    def close(self) -> None:
        """Do nothing, because this transport does not keep connections."""

    def _run(
        self,
        argv: Sequence[str],
        cwd: Path | None,
        env: Mapping[str, str] | None,
        stdin: bytes,
        timeout_s: float,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> Completed:
        process = self._start(
            argv,
            cwd,
            env,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return local_program.gather(
            process, argv[0], stdin, timeout_s=timeout_s, most_bytes=most_bytes
        )

    def _start(
        self,
        argv: Sequence[str],
        cwd: Path | None,
        env: Mapping[str, str] | None,
        *,
        stdin: int,
        stdout: int,
        stderr: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                list(argv),
                cwd=cwd,
                env={**self._env, **(env or {})},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                # In its own process group, it does not get Ctrl-C from a terminal, and a timeout
                # also kills its children.
                start_new_session=True,
            )
        except FileNotFoundError as exc:
            raise TransportError(
                f"Found no program `{argv[0]}` on this machine.",
                hint="Set `path` in the cluster's profile to the folders of Slurm's commands.",
            ) from exc
        except OSError as exc:
            raise TransportError(f"Cannot run `{argv[0]}`: {exc.strerror or exc}.") from exc


def _connect(sock: socket.socket, host: str, port: int) -> None:
    try:
        there = socket.create_connection((host, port), _CONNECT_S)
    except (OSError, UnicodeError) as exc:  # UnicodeError: a resolver cannot look up this name
        words = getattr(exc, "strerror", None) or str(exc)
        raise ForwardError(f"Cannot reach {host}:{port} from this machine: {words}.") from exc
    there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    there.settimeout(None)
    sock.settimeout(None)
    splice(sock, there)


def _require_private(folder: Path) -> None:
    """Make the folder private if needed. Raise FileAccessError if other users can still read or
    change it."""
    found = folder.lstat()
    if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode):
        if found.st_mode & 0o077:
            folder.chmod(0o700)
            found = folder.lstat()
        if not found.st_mode & 0o077:
            return
    told = f"{stat.filemode(found.st_mode)} {found.st_uid} {found.st_gid} {folder}"
    raise not_private(PurePosixPath(folder), told)


def _place(target: str, content: bytes | Path, ending: str) -> None:
    """Write or move the file into place atomically. Each cell has twenty files, so avoid the cost
    of Path and buffers."""
    partial = target + ending
    try:
        if isinstance(content, bytes):
            mode = 0o700 if content.startswith(b"#!") else 0o600
            created = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                left = memoryview(content)
                while left:
                    left = left[os.write(created, left) :]
            finally:
                os.close(created)
        elif content.exists() or not Path(target).exists():
            content.chmod(0o600)
            with suppress(OSError):  # another file system
                os.replace(content, target)  # noqa: PTH105 (see above)
                return
            shutil.move(content, partial)
        else:
            return
        os.replace(partial, target)  # noqa: PTH105 (see above)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


def _append(file: PurePosixPath, data: bytes, flags: int = os.O_WRONLY | os.O_CREAT) -> None:
    descriptor = os.open(file, flags | os.O_APPEND | os.O_NOCTTY, 0o600)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _is_text(name: str) -> bool:
    """Return whether a name is UTF-8. Other names (with surrogates) can be neither shown nor
    requested."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_waiting(name: str, flags: int) -> int:
    """Open the file without waiting for a writer, in case it is a pipe."""
    return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (looked at often: a Path costs more than the call)
    except OSError:
        return 0


_PIECE_BYTES = 1 << 18


def own_socket(name: str) -> socket.socket | None:
    """Return a connection to the abstract socket of that name on this machine; None if it does not
    exist, or belongs to another user."""
    if sys.platform != "linux":
        return None
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(f"\0{name}")
        told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(told)[1] == os.getuid():
            return sock
    except OSError:
        pass
    sock.close()
    return None


def splice(one: socket.socket, other: socket.socket) -> None:
    """Take over both sockets, forward bytes and the end of each direction between them, and return
    at once. Close both sockets when both directions have ended or one direction has failed."""
    there = threading.Thread(target=_copy, args=[one, other], name="splice there", daemon=True)
    back = threading.Thread(
        target=_copy_last, args=[other, one, there], name="splice back", daemon=True
    )
    there.start()
    back.start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    buffer = memoryview(bytearray(_PIECE_BYTES))
    try:
        while size := source.recv_into(buffer):
            target.sendall(buffer[:size])
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _copy_last(source: socket.socket, target: socket.socket, first: threading.Thread) -> None:
    _copy(source, target)
    first.join()
    source.close()
    target.close()
