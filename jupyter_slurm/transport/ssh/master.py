"""The master of one hop, an `ssh -M -N` process that has logged in. Its socket identifies it, also
for later processes. Each hop has its own master, through which the next hop's traffic passes
(`ssh -W` with its socket). So each hop has its own socket for questions, and the last hop can
reconnect alone. A master outlives this process, and the next process finds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Self

import psutil

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, ConnectionLostError
from jupyter_slurm.transport.ask import Ask, no_prompt
from jupyter_slurm.transport.ssh import refusals
from jupyter_slurm.transport.ssh.mux import Answered, Mux, RefusedError, Session
from jupyter_slurm.transport.ssh.questions import Questions
from jupyter_slurm.transport.ssh.route import Hop

_PATIENCE_S = 180
"""Seconds of silence after which ssh gives up; most networks recover sooner."""
_LOOK_S = 0.02
_FIRST_COMMAND_S = 10.0
_END_S = 5.0
_SOCKET_PATH_BYTES = 100 - 17
"""Maximum length of the path of a socket: sun_path has 104 bytes on macOS, and ssh appends 17 while
it binds."""
_MOST_LOG_BYTES = 1 << 20
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_OPTIONS = (
    # These options override configurations in which a master would not start, or would do more than
    # log in. ssh uses the first value, and reads the command line first.
    "ControlMaster=yes",
    "ControlPersist=no",
    "ClearAllForwardings=yes",
    "EscapeChar=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "Tunnel=no",
    "TCPKeepAlive=yes",
    "LogLevel=VERBOSE",  # logs the methods by which the login succeeded
)
_SINCE_8_7 = ("SessionType=none", "ForkAfterAuthentication=no", "StdinNull=yes")


class Master:
    """A logged-in hop."""

    def __init__(self, base: Path, hop: Hop, previous: Master | None) -> None:
        self.hop = hop
        self.previous = previous
        self.needs_person = False
        """True if the user had to answer, and will have to answer again at the next login."""
        self.sessions = True
        """True if commands may run; otherwise the hop only forwards connections."""
        self._base = base
        self._pid = 0
        self._watch: socket.socket | None = None
        self.mux = Mux(os.fspath(self._base))

    # -- login -----------------------------------------------------------------------------------

    @classmethod
    def found(cls, cluster: str, hop: Hop, previous: Master | None) -> Self | None:
        """Return the master of an earlier process, or None."""
        for base in _bases(cluster, hop, previous):
            self = cls(base, hop, previous)
            self._pid = self.mux.pid() or 0
            self.needs_person = refusals.needs_person(self.log()) or self._note.exists()
            try:
                self._stand()
            except ConnectionLostError:
                self.close()
            else:
                return self
        return None

    @classmethod
    def log_in(
        cls,
        cluster: str,
        hop: Hop,
        previous: Master | None,
        ask: Ask,
        begun: Callable[[Master], None],
    ) -> Self:
        """Log in to `hop` through `previous`, or directly. `begun` gets the master early: closing
        it ends the attempt. Raises LoginError, LoginNeededError, HostKeyError or TransportError."""
        # Use a new path, because an earlier master removes its socket when it ends.
        base = _prefix(cluster, hop, previous)
        self = cls(base.with_name(base.name + secrets.token_hex(2)), hop, previous)
        try:
            begun(self)
            self._log_in(ask)
            self._stand()
            self.sessions = self._runs_commands()
        except BaseException:
            self.close()
            raise
        return self

    def _log_in(self, ask: Ask) -> None:
        before = self.previous.log_bytes() if self.previous else 0
        heard = 0

        def told() -> str:
            nonlocal heard
            since, heard = heard, self.log_bytes()
            return refusals.news(self.log(since))

        questions = Questions(
            self._base.with_suffix(".ask"), self.hop.label, version() >= (8, 5), told
        )
        with questions:
            self._start(questions.environment, batch=ask is no_prompt)
            self._wait(questions, ask)
        if self.mux.pid() is None:
            self._end_process()
            raise refusals.failure(
                self.hop,
                self.log(),
                self.previous.hop if self.previous else None,
                self.previous.log(before) if self.previous else "",
                asked=questions.count,
                person=ask is not no_prompt,
            )
        self.needs_person = questions.by_person or refusals.needs_person(self.log())
        if self.needs_person:
            self._note.touch(mode=0o600)

    def _start(self, environment: dict[str, str], *, batch: bool) -> None:
        try:
            # Do not use Popen, which requires a wait: the master may outlive this process.
            self._pid = os.posix_spawnp(
                "ssh",
                self._argv(batch=batch),
                {**os.environ, **environment},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.fspath(self._log), _LOG_FLAGS, 0o600),
                ],
                # Without a terminal, ssh cannot prompt on it, and does not get our Ctrl-C.
                setsid=True,
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as exc:
            raise ConfigError(f"Cannot run `ssh`: {exc.strerror}.") from exc

    def _argv(self, *, batch: bool) -> list[str]:
        hop = self.hop
        options = [
            *_OPTIONS,
            *(_SINCE_8_7 if version() >= (8, 7) else ()),
            f"BatchMode={'yes' if batch else 'no'}",
            f"ConnectTimeout={hop.connect_timeout_s}",
            f"ServerAliveInterval={hop.alive_interval_s}",
            f"ServerAliveCountMax={max(1, _PATIENCE_S // hop.alive_interval_s)}",
        ]
        if hop.accepts_changed_keys:
            options.append("StrictHostKeyChecking=accept-new")
        if hop.settings.get("ciphers") == default_ciphers():
            # AES-GCM is twice as fast as chacha20, which OpenSSH prefers.
            options.append("Ciphers=^aes128-gcm@openssh.com")
        if self.previous is not None:
            options.append(f"ProxyCommand={self.previous._way()}")
        words = [word for one in options for word in ("-o", one)]
        return ["ssh", "-M", "-N", "-S", _literal(self._base), *words, *hop.flags, "--", hop.alias]

    def _way(self) -> str:
        """Return a ProxyCommand through this master. It fails if the master has ended."""
        argv = ["ssh", "-F", "/dev/null", "-o", "ProxyCommand=false", "-S", _literal(self._base)]
        command = shlex.join([*argv, "-W", "[TARGET]", "--", self.hop.alias])
        return command.replace("%", "%%").replace("'[TARGET]'", "'[%h]:%p'")

    def _wait(self, questions: Questions, ask: Ask) -> None:
        """Return when ssh has logged in or exited."""
        poll = select.poll()
        poll.register(questions.listener, select.POLLIN)
        while not self._has_exited() and not self._base.exists():
            if poll.poll(1000 * _LOOK_S):
                questions.serve(self._pid, ask, self._end_process)

    def _stand(self) -> None:
        self._watch = self.mux.watch()

    def _runs_commands(self) -> bool:
        """Run `true`, and return False if commands are forbidden. Until the first command, sshd
        delays small messages by up to 40 ms (OpenSSH 9.2 sets TCP_NODELAY only at that command).
        Raise LoginError if the user has to change the password first.
        """
        try:
            session = self.mux.session("true", _FIRST_COMMAND_S)
        except RefusedError:
            return False
        except TimeoutError:  # e.g. a menu that waits for a choice
            return True
        words = b""
        until_s = time.monotonic() + _FIRST_COMMAND_S
        try:
            for sock in (session.stdout, session.stderr):
                sock.settimeout(max(0.01, until_s - time.monotonic()))
                while len(words) < _MOST_LOG_BYTES and (data := sock.recv(4096)):
                    words += data
            status = session.exit_status(max(0.01, until_s - time.monotonic()))
        except TimeoutError:
            return True
        finally:
            session.close()
        if not self.alive_now():
            raise ConnectionLostError(f"{self.hop.label} ended the connection after the login.")
        # If the password has expired, sshd runs passwd(1) instead of the command, and passwd fails
        # without a terminal.
        said = words.decode(errors="replace")
        expired = refusals.password_expired(self.hop, said) if status != 0 else None
        if expired is not None:
            raise expired
        return True

    # -- while it is open ------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        watch = self._watch
        return watch is not None and not self.wait(0.0)

    def alive_now(self) -> bool:
        return self._watch is not None and self.mux.pid() is not None

    def wait(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for the master to end; return whether it has ended."""
        watch = self._watch
        if watch is None:
            return True
        poll = select.poll()
        try:
            poll.register(watch, select.POLLIN)
        except (OSError, ValueError):  # another thread closed it
            return True
        return bool(poll.poll(max(0, round(1000 * timeout_s))))

    def ping(self, timeout_s: float) -> float | None:
        """Return the round-trip time in seconds of a command that does nothing or is refused; None
        if the master has ended or did not answer in time."""
        began_s = time.monotonic()
        try:
            self.mux.session("true", timeout_s).close()
        except RefusedError:
            pass
        except (ConnectionLostError, OSError):
            return None
        return time.monotonic() - began_s

    def session(self, command: str, timeout_s: float) -> Session:
        """Run a command as `Mux.session` does."""
        session = self.mux.session(command, timeout_s)
        session.link = self
        return session

    def terminal_argv(self, command: str) -> list[str]:
        """Return the argv of an `ssh` that runs `command` over this login, on its own terminal. If
        the host refuses the session, that `ssh` prints a message and does not log in again."""
        refused = (
            f"jupyter-slurm: {self.hop.label} did not open a session. The connection dropped, "
            "or all its sessions are in use (MaxSessions in sshd_config). Close a terminal."
        )
        options = (
            "ProxyCommand=" + shlex.join(["/bin/sh", "-c", 'echo "$0" >&2', refused]),
            "SendEnv=LANG LC_* COLORTERM",
            "LogLevel=ERROR",  # otherwise it reports the shared connection when it ends
        )
        words = [word for one in options for word in ("-o", one)]
        ssh = ["ssh", "-F", "/dev/null", "-S", _literal(self._base), "-t"]
        return [*ssh, *words, "--", self.hop.alias, command]

    def has_terminal(self) -> bool:
        """Return whether a terminal of `terminal_argv` runs over this login."""
        path = _literal(self._base)
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "-t" in words and path in words:
                return True
        return False

    def connect(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        timeout_s: float,
        answered: Answered,
    ) -> None:
        """Connect as `Mux.connect` does."""
        self.mux.connect(sock, host, port, timeout_s, answered)

    def log(self, since: int = 0) -> str:
        """Return ssh's log after its first `since` bytes."""
        try:
            with self._log.open("rb") as file:
                file.seek(since)
                return file.read(_MOST_LOG_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def log_bytes(self) -> int:
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

    # -- end -------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Release the master, which continues without this process."""
        self.mux.close()
        watch, self._watch = self._watch, None
        if watch is not None:
            with contextlib.suppress(OSError):
                watch.shutdown(socket.SHUT_RDWR)  # to wake waiting threads
            watch.close()

    def close(self) -> None:
        """End the master."""
        self.leave()
        self._end_process()
        for path in (self._base, self._note, self._log):
            path.unlink(missing_ok=True)

    def _end_process(self) -> None:
        """End ssh and the programs that it started, which form its process group."""
        pid, self._pid = self._pid, 0
        if not pid:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
            try:
                psutil.Process(pid).wait(_END_S)
            except psutil.TimeoutExpired:
                continue
            except psutil.NoSuchProcess:
                pass
            return

    def _has_exited(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG) != (0, 0)
        except ChildProcessError:  # its end was already noticed
            return True

    @property
    def _log(self) -> Path:
        return self._base.with_suffix(".log")

    @property
    def _note(self) -> Path:
        """The file that exists if the user had to answer."""
        return self._base.with_suffix(".asked")


def _bases(cluster: str, hop: Hop, previous: Master | None) -> list[Path]:
    """Return the paths of the sockets of the cluster's masters for `hop` behind `previous`."""
    prefix = _prefix(cluster, hop, previous)
    return [path for path in prefix.parent.glob(f"{prefix.name}????") if path.is_socket()]


def _prefix(cluster: str, hop: Hop, previous: Master | None) -> Path:
    """Return the common prefix of the paths from `_bases`."""
    way = [cluster, *_identity(hop)]
    while previous is not None:
        way += _identity(previous.hop)
        previous = previous.previous
    digest = hashlib.sha256(os.fsencode("\0".join(way))).hexdigest()[:12]
    folder = places.runtime_dir() / "ssh"
    if len(os.fsencode(folder / digest)) + 4 > _SOCKET_PATH_BYTES:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"jslurm-{os.getuid()}-{name}"
    return places.private_dir(folder) / digest


def _identity(hop: Hop) -> tuple[str, ...]:
    return (hop.alias, hop.label, *hop.flags)


def _literal(path: Path) -> str:
    return os.fspath(path).replace("%", "%%")


@cache
def version() -> tuple[int, int]:
    """Return the version of this machine's OpenSSH; (0, 0) if unknown."""
    done = subprocess.run(["ssh", "-V"], capture_output=True, check=False)
    found = re.match(rb"OpenSSH_(\d+)\.(\d+)", done.stderr)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@cache
def default_ciphers() -> str | None:
    """Return the default ciphers of this machine's OpenSSH; None if unknown."""
    argv = ["ssh", "-G", "-F", "/dev/null", "localhost"]
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    found = re.search(r"^ciphers (.*)$", done.stdout, re.MULTILINE)
    return found[1] if found else None
