"""Shells on the cluster. This module opens them with the right environment, lends them to callers,
and replaces lost shells.

It also decides which call gets one of the few sessions that sshd allows, and which commands to
repeat after a lost connection.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple, TypeVar

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport import TimedOutError, check_stop, limits
from jupyter_slurm.transport.shell.helper import DEFINITIONS, Helper, Helpers
from jupyter_slurm.transport.shell.quoting import exports, quote, raw
from jupyter_slurm.transport.shell.remote_shell import RemoteShell, ShellAnswer, ShellGoneError
from jupyter_slurm.transport.ssh.connection import SshConnection

_FILES_S = 60.0
"""Seconds to wait for commands that only read files."""
_SETTLE_S = 0.05
_OPEN_S = 60.0
"""Seconds to wait for the start of a login shell, whose start-up files may load modules from a slow
file system."""
_KILL_S = 10.0
_EXTRA_S = 5.0
"""Seconds to wait for an extra session that is not essential."""
_SESSIONS_FOR_FOLLOW = 3
"""The smallest session limit that leaves a session for watching files, besides commands and
transfers."""
_PLENTY = 4
"""The session limit above which our permanent sessions leave enough sessions for other programs."""

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
"""A script that prints the user, the home folder and PATH. `$_p` is the profile's prefix of PATH.
If Slurm is only in the PATH of a login shell, that PATH is used."""

_T = TypeVar("_T")


class Facts(NamedTuple):
    """Facts about the remote machine, queried once."""

    user: str
    home: str
    path: bytes


class Shells:
    """The shells of one machine. `path` precedes PATH, and `env` is added to every program's
    environment."""

    def __init__(
        self, connection: SshConnection, path: Sequence[str], env: Mapping[str, str] | None
    ) -> None:
        self._connection = connection
        self._path = raw("".join(f"{folder}:" for folder in path))
        self._env = exports(env)
        self._variables = dict(env or {})
        self._facts: Facts | None = None
        self._helpers = Helpers(self._helper_shell, self._most_helpers)
        connection.pulse = self._helpers.pulse

    def facts(self) -> Facts:
        if self._facts is None:
            with self._helpers.lent():
                pass
        assert self._facts is not None  # every opened helper has set them
        return self._facts

    def environment(self) -> dict[str, str]:
        """Return the PATH and the variables that every program gets."""
        return {"PATH": os.fsdecode(self.facts().path), **self._variables}

    def once(self, work: Callable[[Helper], _T]) -> _T:
        """Do `work` with a helper. Repeat it only if the first attempt did not start."""
        try:
            return self._lent(work)
        except ShellGoneError as exc:
            if exc.begun:
                raise self.lost() from exc
        return self._again(work)

    def twice(
        self, *scripts: bytes, timeout_s: float = _FILES_S, most_bytes: int = limits.OUTPUT_BYTES
    ) -> list[ShellAnswer]:
        """Run scripts with a helper, and run them again after an interruption. Return the answers,
        each of at most `most_bytes`."""

        def work(helper: Helper) -> list[ShellAnswer]:
            return helper.ask(*scripts, timeout_s=timeout_s, most_bytes=most_bytes)

        try:
            try:
                return self._lent(work)
            except ShellGoneError:
                return self._again(work)
        except TimedOutError as exc:
            raise TransportError(
                f"{self._connection.hops[-1].label} did not read its files within {timeout_s:g} s.",
                hint="Check whether a file system of that host hangs.",
            ) from exc

    def _again(self, work: Callable[[Helper], _T]) -> _T:
        link = self._connection.standing()
        if link is not None:
            link.wait(_SETTLE_S)  # the other shells may also be about to end
        try:
            return self._lent(work)
        except ShellGoneError as exc:
            raise self.lost() from exc

    def _lent(self, work: Callable[[Helper], _T]) -> _T:
        with self._helpers.lent() as helper:
            link = self._connection.standing()
            try:
                return work(helper)
            except TimedOutError as exc:
                if link is None or self._connection.standing() is not link:
                    # The connection caused the timeout, not the program.
                    raise ShellGoneError(str(exc), begun=True) from exc
                raise

    def lost(self) -> ConnectionLostError:
        problem = self._connection.problem
        return ConnectionLostError(
            f"The connection to {self._connection.name} dropped before the answer arrived.",
            detail=str(problem.message) if problem else None,
        )

    # --- shells ---

    def shell(self) -> RemoteShell:
        """Return a shell that the caller has to close. Raise TransportError if none is
        available."""
        return self._shell(_OPEN_S)

    @contextmanager
    def shell_of_its_own(self, stop: threading.Event | None) -> Iterator[RemoteShell]:
        """Yield a shell for one program. If the host allows only one session, close the helpers
        first. Raise ConnectionLostError if the shell broke, or if `stop` was set.
        """
        self.facts()  # the first shell belongs to a helper, and waits as long as a login may take
        with ExitStack() as stack:
            try:
                shell = self._shell(_EXTRA_S)
            except TransportError:
                if self._connection.sessions_limit > _PLENTY:
                    raise
                # All allowed sessions are open; the limit may just have become known.
                if self._connection.sessions_limit == 1:
                    stack.enter_context(self._helpers.set_aside())
                self._helpers.shrink()
                shell = self._shell(_OPEN_S)
            stack.callback(shell.close)
            try:
                yield shell
            except ShellGoneError as exc:
                self.kill(shell, signal.SIGKILL)
                check_stop(stop)
                raise self.lost() from exc
            except BaseException:
                self.kill(shell, signal.SIGKILL)
                raise

    def may_follow(self) -> bool:
        """Return whether the host allows enough sessions to use one for watching files."""
        return self._connection.sessions_limit >= _SESSIONS_FOR_FOLLOW

    def shell_to_follow(self) -> RemoteShell | None:
        """Return a shell for watching files; None if the host does not allow enough sessions."""
        self.facts()
        if not self.may_follow():
            return None
        try:
            return self._shell(_EXTRA_S)
        except TransportError:
            if self._connection.sessions_limit <= _PLENTY:
                return None
            raise

    def _helper_shell(self) -> RemoteShell:
        return self._shell(_EXTRA_S if self._helpers.any_open() else _OPEN_S)

    def kill(self, shell: RemoteShell, number: int) -> None:
        """Send a signal to the shell's processes, which may outlive its channel. Ignore errors."""
        if not shell.group:
            return
        argv = ["kill", f"-{number:d}", "--", f"-{shell.group}"]
        with suppress(TransportError, TimedOutError, ShellGoneError):
            self._lent(lambda helper: helper.run(argv, None, b"", _KILL_S))

    def _most_helpers(self) -> int:
        return 1 if self._connection.sessions_limit <= _SESSIONS_FOR_FOLLOW else 2

    def _shell(self, session_s: float) -> RemoteShell:
        """Start a shell with the programs' environment, after a reconnect if needed."""
        try:
            return self._started(session_s)
        except ConnectionLostError:
            pass  # from a dead connection not yet detected
        try:
            return self._started(session_s)
        except ConnectionLostError as exc:
            # Do not raise ConnectionLostError, because the caller's work did not start.
            raise TransportError(exc.message, hint=exc.hint, detail=exc.detail) from exc

    def _started(self, session_s: float) -> RemoteShell:
        facts = self._facts
        if facts is None:
            setting = b"_p=%b\n%b" % (quote(self._path), _PROBE.encode())
        else:
            setting = b"PATH=%b\n" % quote(facts.path)
        setting += b"export PATH\n" + self._env + DEFINITIONS.encode() + b"\n_m 0"
        shell = RemoteShell(self._connection, setting, session_s=session_s, timeout_s=_OPEN_S)
        if facts is None:
            user, home, path, _ = shell.told.split(b"\0")
            self._facts = Facts(_text(user), _text(home), path)
        return shell

    def close(self) -> None:
        self._helpers.close()


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")
