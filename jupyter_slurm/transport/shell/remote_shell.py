"""A POSIX shell on a channel: its start, and the separation of answers from other output.

The cluster needs a Bourne shell at /bin/sh, and `env`. The login shell (csh, fish) only has to
`exec` ours. The output of its start-up files ends at the first mark.

The shell reads lines with `read`, which must not read beyond the line (POSIX, `read`), so a
command's input may follow its line. An answer is the text on the channel's two streams up to a mark
on each. The mark contains a nonce that programs on the cluster do not know. When its input is
closed, also after the channel breaks, the shell kills its process group (sshd gives every session
its own).
"""

from __future__ import annotations

import secrets
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from typing import NamedTuple, Protocol

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport import HANDED_ON, FilePart, Source, check_stop, limits
from jupyter_slurm.transport.server_text import shown
from jupyter_slurm.transport.shell.quoting import quote
from jupyter_slurm.transport.ssh.mux import Session

_LOOP = 'while IFS= read -r _l; do eval "$_l"; done'
LOGIN_COMMAND = f"exec /bin/sh -c '{_LOOP}'"
"""The command that starts our shell. The loop avoids characters that bash, csh, fish or zsh
interpret within single quotes."""

_KEPT = "TMPDIR KRB5CCNAME SSH_AUTH_SOCK TZ SLURM_CONF"
"""The variables of the login's environment that programs need; see `local.py`."""

_CLEAN = (
    'exec env -i HOME="$HOME" USER="$USER" LOGNAME="$LOGNAME" SHELL="$SHELL" PATH="$PATH" '
    "TERM=dumb "
    + " ".join(f'${{{name}+"{name}=${name}"}}' for name in _KEPT.split())
    + f" /bin/sh -c '{_LOOP}; eval \"$_x\"' sh "
    + " ".join(f'${{{name}+"{name}=${name}"}}' for name in HANDED_ON)
)
"""The command that replaces our shell with a shell in a clean environment. Its arguments are the
user's own variables for jobs (`folder_upload.py`)."""

# Descriptor 4 is the channel's standard error; the shell's own messages (`Killed`) are dropped.
_START = """
exec 4>&2 2>/dev/null
cd || cd /
_m() { printf '%s' "$_k$_i $1$_n"; printf '%s' "$_k$_i$_n" >&4; }
_leads() { read -r _l <"/proc/$$/stat" && set -- $_l && [ "$5" = $$ ]; }
_x=
_i=0
if _leads; then _x='kill -9 0'; _m $$; else _m 0; fi
"""
"""`_m STATUS` marks the end of answer number `_i`. The shell runs `_x` at its end, if it leads its
process group (field 5 of stat in proc(5)). The status of the first answer is that group, or 0."""

_START_S = 25.0
"""Seconds to wait for a login shell's start-up files."""
_GRACE_S = 5.0
_STOP_LOOK_S = 0.1
_LONGEST_WAIT_S = 3600.0
_PIECE_BYTES = 1 << 20


class ShellGoneError(Exception):
    """The shell exited or its connection dropped. `begun` is true if the line was sent."""

    def __init__(self, words: str, *, begun: bool) -> None:
        super().__init__(words)
        self.begun = begun


class SilentError(Exception):
    """The shell did not answer before the deadline."""


class FloodError(Exception):
    """The shell sent too much output on `stream` and is unusable."""

    def __init__(self, stream: str, most_bytes: int) -> None:
        super().__init__(stream, most_bytes)
        self.stream = stream
        self.most_bytes = most_bytes


class ShellAnswer(NamedTuple):
    status: str
    stdout: bytes
    stderr: bytes


class Sessions(Protocol):
    """The interface of `SshConnection` that a shell needs."""

    def session(
        self, command: str, *, timeout_s: float = 60.0
    ) -> AbstractContextManager[Session]: ...

    def heard(self) -> None: ...

    def suspect(self) -> None: ...


class RemoteShell:
    """A running shell, for one thread at a time. Any thread may call `close()`."""

    def __init__(
        self, sessions: Sessions, setting: bytes, *, session_s: float, timeout_s: float
    ) -> None:
        """Start a shell. `setting` is a script to run first; it ends with `_m STATUS`, and its
        output is in `told`. `group` is the process group that the shell leads, or 0. Wait
        `session_s` for a session and `timeout_s` for the shell. Raise TransportError if it does not
        start.
        """
        self._sessions = sessions
        self._stack = ExitStack()
        self._key = b"\n" + secrets.token_hex(8).encode() + b":"
        self._number = 0
        self.group = 0
        self._out = bytearray()
        self._err = bytearray()
        self._over: set[socket.socket] = set()
        self.session = self._stack.enter_context(
            sessions.session(LOGIN_COMMAND, timeout_s=session_s)
        )
        try:
            self.told = self._start(setting, time.monotonic() + timeout_s)
        except BaseException:
            self.close()
            raise

    def _start(self, setting: bytes, deadline_s: float) -> bytes:
        try:
            return self._begin(setting, deadline_s)
        except (SilentError, ShellGoneError, FloodError, OSError) as exc:
            if self.session.link is not None and not self.session.link.alive:
                raise ConnectionLostError("The connection dropped while opening a shell.") from exc
            # A login that ended before we sent a line has printed the reason. A login that only
            # echoes its input (`exec cat`) has not.
            self._take_in(limits.WORDS_BYTES)
            words = bytes(self._out + self._err)
            said = "" if _CLEAN.encode() in words else shown(words) or str(exc)
            raise TransportError(
                "The login did not start a usable shell.",
                hint=(
                    "Check your shell's start-up files (~/.bashrc, ~/.cshrc): without a terminal, "
                    "they must neither wait nor exec another program. `ssh HOST 'echo it works'` "
                    "must print `it works` and end at once."
                ),
                detail=said or None,
            ) from exc

    def _begin(self, setting: bytes, deadline_s: float) -> bytes:
        """Start the shell, note the process group it leads, and return what `setting` prints."""
        newline = b"_n=$(printf '\\nx'); _n=${_n%x}"
        key = b"_k=" + quote(self._key)
        start = [_CLEAN.encode(), newline, key, b"eval " + quote(_START)]
        (number,), line = self.numbered(b"eval " + quote(setting))
        self.send(b"\n".join([*start, line]))
        most_bytes = limits.WORDS_BYTES
        start_s = min(deadline_s, time.monotonic() + _START_S)
        group = self.answer(0, start_s, most_bytes=most_bytes).status
        if not group.isdecimal():
            raise ShellGoneError(f"the shell started with {group!r}", begun=False)
        self.group = int(group)
        return self.answer(number, deadline_s, most_bytes=most_bytes).stdout

    @property
    def alive(self) -> bool:
        return not self.session.ended

    def numbered(self, *scripts: bytes) -> tuple[list[int], bytes]:
        """Return a line that runs `scripts`, and the numbers of their answers. Each script must end
        with `_m STATUS`."""
        numbers = list(range(self._number + 1, self._number + 1 + len(scripts)))
        self._number += len(scripts)
        parts = (b"_i=%d; " % n + script for n, script in zip(numbers, scripts, strict=True))
        return numbers, b"; ".join(parts) + b"\n"

    def mark(self, number: int) -> bytes:
        """Return the mark at the end of an answer. On standard output, a blank and the status
        follow it on the same line."""
        return self._key + b"%d" % number

    def send(self, data: bytes) -> None:
        """Send `data`. Raise ShellGoneError if not all was sent; the shell ignores an incomplete
        line."""
        try:
            self.session.stdin.sendall(data)
        except OSError as exc:
            raise ShellGoneError(str(exc), begun=False) from exc

    def answer(
        self,
        number: int,
        deadline_s: float,
        stop: threading.Event | None = None,
        *,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> ShellAnswer:
        """Return the output since the last answer. Raises SilentError, ShellGoneError (also after
        `stop`), or FloodError after more than `most_bytes` on standard output or too much on
        standard error."""
        out_mark = _Mark(self._out, self.mark(number) + b" ")
        err_mark = _Mark(self._err, self.mark(number))
        while True:
            # Data after a mark may belong to later answers. It must not block the other stream,
            # which shares the channel's window.
            most_out = most_bytes + (limits.OUTPUT_BYTES if out_mark.found() else 0)
            most_err = limits.ERRORS_BYTES * (2 if err_mark.found() else 1)
            moved = self._take_in(most_out, most_err)
            if out_mark.found() and err_mark.found():
                stdout, status = out_mark.cut()
                stderr, _ = err_mark.cut()
                self._sessions.heard()
                return ShellAnswer(status, stdout, stderr)
            if len(self._out) > most_out and (most_out > most_bytes or not out_mark.found()):
                raise FloodError("standard output", most_bytes)
            if len(self._err) > most_err and (
                most_err > limits.ERRORS_BYTES or not err_mark.found()
            ):
                raise FloodError("standard error", limits.ERRORS_BYTES)
            if not moved:
                self._wait(deadline_s, stop)

    def heard(self, mark: bytes, timeout_s: float) -> bytes | None:
        """Return standard output up to `mark`; None if it has not arrived. Raises ShellGoneError or
        FloodError."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            moved = self._take_in(limits.WORDS_BYTES)
            before, found, after = self._out.partition(mark)
            if found:
                self._out[:] = after
                return bytes(before)
            if len(self._out) > limits.WORDS_BYTES:
                raise FloodError("standard output", limits.WORDS_BYTES)
            self._err.clear()  # no expected data arrives there
            if not moved:
                try:
                    self._wait(deadline_s, None)
                except SilentError:
                    return None

    def send_stream(
        self,
        line: bytes,
        stream: Source,
        number: int,
        timeout_s: float,
        stop: threading.Event | None = None,
        then: Callable[[], object] = lambda: None,
    ) -> ShellAnswer:
        """Send a line and its stream, and receive at the same time. When all is sent, call `then`
        in another thread and start the timeout. Raise errors from reading `stream`, and the errors
        of `answer`.
        """

        def send() -> None:
            self.send(line)
            send_all(self.session.stdin, stream, stop)
            then()

        sending = _Sending(send)
        try:
            answer = self._answer_while(sending, number, timeout_s, stop)
            # A shell that answers has usually read its input, so the thread is about to return.
            sending.thread.join(_STOP_LOOK_S)
        finally:
            if sending.thread.is_alive():
                self.close()
            sending.thread.join()
        return answer

    def _answer_while(
        self, sending: _Sending, number: int, timeout_s: float, stop: threading.Event | None
    ) -> ShellAnswer:
        while sending.thread.is_alive():
            with suppress(SilentError):
                return self.answer(number, time.monotonic() + _STOP_LOOK_S, stop)
        if sending.error is not None:
            self.close()
            raise sending.error
        return self.answer(number, time.monotonic() + timeout_s, stop)

    def _take_in(self, most_out: int, most_err: int = limits.ERRORS_BYTES) -> bool:
        """Receive, and return whether data arrived. Stop reading a stream once its buffer has more
        than `most_out` or `most_err` bytes."""
        moved = False
        for sock, buffer, most in (
            (self.session.stdout, self._out, most_out),
            (self.session.stderr, self._err, most_err),
        ):
            while len(buffer) <= most and (data := self._taken(sock)):
                buffer.extend(data)
                moved = True
        return moved

    def _taken(self, sock: socket.socket) -> bytes:
        """Return received bytes; b"" if none arrived, or at the end."""
        if sock in self._over:
            return b""
        try:
            data = sock.recv(_PIECE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""
        except OSError:  # another thread closed it
            data = b""
        if not data:
            self._over.add(sock)
        return data

    def _wait(self, deadline_s: float, stop: threading.Event | None) -> None:
        """Wait for more output. Raise ShellGoneError at the end or after `stop`, SilentError after
        the deadline."""
        open_ones = {self.session.stdout, self.session.stderr} - self._over
        if not open_ones:
            raise ShellGoneError("the shell on the host has ended", begun=True)
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise SilentError
        if stop is not None and stop.is_set():
            raise ShellGoneError("it was stopped", begun=True)
        longest_s = _LONGEST_WAIT_S if stop is None else _STOP_LOOK_S
        poll = select.poll()
        try:
            for sock in open_ones:
                poll.register(sock, select.POLLIN)
        except (OSError, ValueError):  # another thread closed it
            return
        poll.poll(1000 * min(left_s, longest_s))

    def end(self) -> None:
        """End the shell and all that it has started. Check the connection if that takes longer than
        a few seconds."""
        deadline_s = time.monotonic() + _GRACE_S
        try:
            self.session.stdin.shutdown(socket.SHUT_WR)
            while True:
                self._out.clear()
                self._err.clear()
                if not self._take_in(limits.WORDS_BYTES):
                    self._wait(deadline_s, None)
        except (OSError, ShellGoneError):
            self.close()
        except SilentError:
            self.close()
            self._sessions.suspect()

    def close(self) -> None:
        """Close at once. On the cluster, its processes end as soon as sshd notices."""
        self._stack.close()


def send_all(
    sock: socket.socket,
    source: Source,
    stop: threading.Event | None = None,
) -> None:
    """Send a source, but not the EOF. Raise errors from reading the source, and ConnectionLostError
    if `stop` was set or the host stopped reading."""
    chunks = iter(partial(source.read, _PIECE_BYTES), b"") if hasattr(source, "read") else source
    for chunk in chunks:
        if isinstance(chunk, FilePart):
            _send_part(sock, chunk)
            continue
        rest = memoryview(chunk)
        while rest:
            check_stop(stop)
            rest = rest[_send_some(sock, rest) :]


def _send_some(sock: socket.socket, data: memoryview) -> int:
    """Send what the socket accepts within a moment. Return the number of bytes sent. Raises
    ConnectionLostError."""
    poll = select.poll()
    try:
        poll.register(sock, select.POLLOUT)
        return sock.send(data, socket.MSG_DONTWAIT) if poll.poll(1000 * _STOP_LOOK_S) else 0
    except BlockingIOError:
        return 0
    except (OSError, ValueError) as exc:  # another thread may have closed it
        raise ConnectionLostError("The host stopped reading before the end.") from exc


def _send_part(sock: socket.socket, part: FilePart) -> None:
    """Let the kernel copy the file. Closing the socket ends the copy. Raise the errors of
    `send_all`."""
    try:
        sock.sendfile(part.file, part.offset, part.size_bytes)
    except (OSError, ValueError) as exc:
        if isinstance(exc, ConnectionError) or sock.fileno() < 0:
            raise ConnectionLostError("The host stopped reading before the end.") from exc
        raise


class _Mark:
    """A search of a growing buffer for a line that begins with `text`."""

    def __init__(self, buffer: bytearray, text: bytes) -> None:
        self._buffer = buffer
        self._text = text
        self._from = 0
        self._end = -1

    def found(self) -> bool:
        if self._end >= 0:
            return True
        start = self._buffer.find(self._text, self._from)
        # The text may arrive in two pieces.
        self._from = start if start >= 0 else max(0, len(self._buffer) - len(self._text))
        if start >= 0:
            self._end = self._buffer.find(b"\n", start + len(self._text))
        return self._end >= 0

    def cut(self) -> tuple[bytes, str]:
        """Remove and return the bytes before the mark, and the rest of its line."""
        before = bytes(self._buffer[: self._from])
        said = self._buffer[self._from + len(self._text) : self._end].decode(errors="replace")
        del self._buffer[: self._end + 1]
        return before, said


class _Sending:
    """A thread that sends, so that answers can be received at the same time."""

    def __init__(self, send: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=[send], name="stream", daemon=True)
        self.thread.start()

    def _run(self, send: Callable[[], None]) -> None:
        try:
            send()
        except (ShellGoneError, ConnectionLostError):
            pass  # the waiting thread also sees the end
        except Exception as exc:  # noqa: BLE001 (it is raised by the waiting thread)
            self.error = exc
