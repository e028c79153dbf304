"""Commands through shells that stay open, so each command takes only one round trip. A `Helper` is
a shell that runs one command at a time in the background and keeps reading. When its input is
closed, after a timeout or a lost connection, it kills the command and all processes of its session.
`Helpers` lends helpers.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport import Completed, TimedOutError, limits
from jupyter_slurm.transport.server_text import shown_line
from jupyter_slurm.transport.shell.quoting import exports, quote, words
from jupyter_slurm.transport.shell.remote_shell import (
    FloodError,
    RemoteShell,
    ShellAnswer,
    ShellGoneError,
    SilentError,
)

DEFINITIONS = """
_e() { :; }
_r() {
  ( _e; exec "$@" ) </dev/null 2>&4 4>&-
  _f $? "$1"
}
_f() {
  case $1 in
  127) command -v "$2" >/dev/null 2>&1 || set -- missing ;;
  126) case $2 in
    */*) [ -x "$2" ] && [ ! -d "$2" ] ;;
    *) command -v "$2" >/dev/null 2>&1 ;;
    esac || set -- denied ;;
  esac
  _m "$1"
}
"""
"""`_r ARGV` runs a command in the environment that `_e` sets. `_f STATUS PROGRAM` marks the
command's end, and distinguishes a missing program from one that itself returns 127 or 126 (POSIX,
`Exit Status for Commands`)."""

_MOST_HELPERS = 2
_AGAIN_S = 1.0
"""Seconds between attempts to open another helper while one is busy."""
_SENT_AT_ONCE_BYTES = 1 << 18
"""Maximum number of bytes to send at once. It is well below the window that sshd gives a session (2
MiB), so sending cannot block."""
_STATUS = re.compile("[0-9]{1,3}")
_SIGNALS = range(129, 193)
"""Exit codes of programs ended by a signal: common shells return 128 + the signal's number. A
program that calls exit(137) looks the same."""


class Helper:
    """A shell for one command at a time."""

    def __init__(self, shell: RemoteShell) -> None:
        self._shell = shell

    @property
    def alive(self) -> bool:
        return self._shell.alive

    def ask(self, *scripts: bytes, timeout_s: float, most_bytes: int) -> list[ShellAnswer]:
        """Run scripts in the shell itself, in one round trip. Return the answers, each of at most
        `most_bytes`. Raises ShellGoneError, TimedOutError or TooMuchError. The last two also close
        the shell.
        """
        numbers, line = self._shell.numbered(*scripts)
        self._shell.send(in_background(line))
        deadline_s = time.monotonic() + timeout_s
        with self._in_time("sh", timeout_s):
            return [
                self._shell.answer(number, deadline_s, most_bytes=most_bytes) for number in numbers
            ]

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        stdin: bytes,
        timeout_s: float,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> Completed:
        """Run a program. Raise TransportError if it does not exist, and the errors of `ask`."""
        if stdin:
            return self._run_with(argv, env, stdin, timeout_s)
        (number,), line = self._shell.numbered(command(argv, env))
        self._shell.send(in_background(line))
        deadline_s = time.monotonic() + timeout_s
        with self._in_time(argv[0], timeout_s):
            answer = self._shell.answer(number, deadline_s, most_bytes=most_bytes)
        return completed(answer, argv[0])

    def _run_with(
        self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes, timeout_s: float
    ) -> Completed:
        command = b"( %bexec %b ) <&3 2>&4 3<&- 4>&-" % (exports(env), words(argv))
        # The shell must not read the command's unread input as lines.
        work = b"{ %b; _s=$?; cat <&3 >/dev/null; _f $_s %b; } &" % (command, quote(argv[0]))
        return completed(self.feed(work, len(stdin), [stdin], timeout_s, argv[0]), argv[0])

    def feed(
        self,
        work: bytes,
        size_bytes: int,
        stream: Iterable[bytes | memoryview],
        timeout_s: float,
        what: str,
    ) -> ShellAnswer:
        """Run `work`, which gets `size_bytes` of `stream` on descriptor 3. `work` must read all of
        these bytes and mark its own end. The timeout starts when all bytes are sent."""
        (number,), line = self._shell.numbered(
            b"head -c %d | ( exec 3<&0 </dev/null; %b )" % (size_bytes, work)
        )
        with self._in_time(what, timeout_s):
            if size_bytes > _SENT_AT_ONCE_BYTES:
                return self._shell.send_stream(line, stream, number, timeout_s)
            self._shell.send(line + b"".join(stream))
            return self._shell.answer(number, time.monotonic() + timeout_s)

    def answers(self, timeout_s: float) -> bool:
        """Return whether the shell answers in time. If not, close it, but do not check the
        connection: that check calls this method."""
        (number,), line = self._shell.numbered(b"_m 0")
        try:
            self._shell.send(line)
            self._shell.answer(number, time.monotonic() + timeout_s)
        except (ShellGoneError, SilentError, FloodError):
            self._shell.close()
            return False
        return True

    @contextmanager
    def _in_time(self, what: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except SilentError as exc:
            self._shell.end()
            raise TimedOutError(f"`{what}` did not end within {timeout_s:g} s") from exc
        except FloodError as exc:
            self._shell.end()
            raise limits.too_much_output(what, exc.stream, exc.most_bytes) from exc

    def close(self) -> None:
        self._shell.close()


class Helpers:
    """A pool of helpers. It opens the first helper on demand, and another when all are busy."""

    def __init__(self, open_shell: Callable[[], RemoteShell], most: Callable[[], int]) -> None:
        """Prepare the helpers. `most` returns the maximum number of sessions that helpers may
        use."""
        self._open_shell = open_shell
        self._most = most
        self._changed = threading.Condition()
        self._idle: list[Helper] = []
        self._open: set[Helper] = set()
        self._opening = 0
        self._aside = 0
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[Helper]:
        """Yield a live helper. If none is available, raise TransportError before any work
        starts."""
        helper = None
        while helper is None:
            helper = self._take() or self._opened()
        try:
            yield helper
        finally:
            self._give_back(helper)

    def _take(self) -> Helper | None:
        """Wait for an idle helper and return it. Return None as soon as the caller may open
        another. Raises TransportError."""
        with self._changed:
            while True:
                if self._closed:
                    raise TransportError("The connection to the cluster was closed.")
                while self._idle and not self._aside:
                    helper = self._idle.pop()
                    if helper.alive:
                        return helper
                    self._drop(helper)
                if not self._aside and self._in_use < max(1, min(self._most(), _MOST_HELPERS)):
                    self._opening += 1
                    return None
                self._changed.wait()

    def _opened(self) -> Helper | None:
        """Open a helper. Return None if that failed but another helper exists."""
        shell = None
        try:
            shell = self._open_shell()
        except TransportError:
            if not self._open:
                raise
        finally:
            with self._changed:
                self._opening -= 1
                helper = Helper(shell) if shell else None
                if helper is not None:
                    self._open.add(helper)
                self._changed.notify_all()
        if helper is None:  # an immediate retry would be refused again
            with self._changed:
                self._changed.wait_for(lambda: self._idle or not self._open, _AGAIN_S)
        return helper

    @property
    def _in_use(self) -> int:
        return len(self._open) + self._opening

    def pulse(self, timeout_s: float) -> bool | None:
        """Return whether an idle helper answers; None if all are busy."""
        with self._changed:
            helper = self._idle.pop() if self._idle else None
        if helper is None:
            return None
        try:
            return helper.answers(timeout_s)
        finally:
            self._give_back(helper)

    def any_open(self) -> bool:
        return bool(self._open)

    def shrink(self) -> None:
        """Close surplus helpers, now or when they are returned."""
        with self._changed:
            while self._idle and self._too_many():
                self._drop(self._idle.pop())

    def _too_many(self) -> bool:
        return len(self._open) > max(1, self._most())

    def _drop(self, helper: Helper) -> None:
        """Close a helper. The caller holds the lock."""
        self._open.discard(helper)
        helper.close()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Wait until no command runs, and keep all helpers closed during the block."""
        with self._changed:
            self._aside += 1
            self._changed.wait_for(lambda: self._in_use == len(self._idle))
            while self._idle:
                self._drop(self._idle.pop())
        try:
            yield
        finally:
            with self._changed:
                self._aside -= 1
                self._changed.notify_all()

    def _give_back(self, helper: Helper) -> None:
        with self._changed:
            if helper.alive and not self._closed and not self._too_many():
                self._idle.append(helper)
            else:
                self._drop(helper)
            self._changed.notify_all()

    def close(self) -> None:
        """Kill the running commands and end the calls that wait for them."""
        with self._changed:
            self._closed = True
            helpers, self._open = self._open, set()
            self._idle.clear()
            self._changed.notify_all()
        for helper in helpers:
            helper.close()


def in_background(line: bytes) -> bytes:
    """Return a line that runs commands while the shell keeps reading."""
    return b"{ %b; } &\n" % line.rstrip(b"\n")


def command(argv: Sequence[str], env: Mapping[str, str] | None) -> bytes:
    """Return a script that runs `argv` with empty standard input and marks its end."""
    run = b"_r %b" % words(argv)
    return b"_e() { %b}; %b; _e() { :; }" % (exports(env), run) if env else run


def completed(answer: ShellAnswer, program: str) -> Completed:
    """Return the program's result. Raise TransportError if the program is missing or not
    executable, ConnectionLostError if the answer lacks an exit status."""
    if answer.status == "missing":
        raise TransportError(
            f"Found no program `{program}` on the cluster.",
            hint="Set `path` in the cluster's profile to the folders of Slurm's commands.",
        )
    if answer.status == "denied":
        words_ = answer.stderr.decode(errors="replace").strip()
        raise TransportError(f"Cannot run `{program}` on the cluster.", detail=words_ or None)
    if not _STATUS.fullmatch(answer.status):
        raise ConnectionLostError(
            f"The shell on the cluster did not report the exit status of `{program}`.",
            detail=shown_line(answer.status) or None,
        )
    status = int(answer.status)
    if status in _SIGNALS:
        status = 128 - status
    return Completed(status, answer.stdout, answer.stderr)
