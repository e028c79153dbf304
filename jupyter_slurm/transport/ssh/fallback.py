"""A hop with paramiko, for machines without an `ssh` program, such as slim containers.

It logs in to one hop after the other, with keys from ~/.ssh and the SSH agent, passwords and codes.
It does not read `~/.ssh/config`. It uses only paramiko's public interface, and copies channels to
sockets, so all layers above work as with OpenSSH.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import paramiko

from jupyter_slurm.errors import (
    ConnectionLostError,
    HostKeyError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.places import make_private
from jupyter_slurm.transport.ask import Ask, Prompt, no_prompt
from jupyter_slurm.transport.relay_streams import break_off
from jupyter_slurm.transport.server_text import shown, shown_line
from jupyter_slurm.transport.ssh.mux import Answered, Link, RefusedError
from jupyter_slurm.transport.ssh.route import NO_SSH, Hop
from jupyter_slurm.wire import QuestionKind

_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_PIECE_BYTES = 1 << 18
_MOST_WRONG = 3
_END_S = 5.0

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # lower levels would log names and banners


class PumpedSession:
    """A command on the host, with the same interface as `mux.Session`."""

    def __init__(self, channel: paramiko.Channel, link: Link) -> None:
        self.link: Link | None = link
        self._channel = channel
        pairs = [socket.socketpair() for _ in range(3)]
        self.stdin, self.stdout, self.stderr = (ours for ours, _ in pairs)
        stdin, stdout, stderr = (theirs for _, theirs in pairs)
        for run in (
            lambda: _pump(stdin.recv, channel.sendall, channel.shutdown_write, stdin.close),
            lambda: _pump(channel.recv, stdout.sendall, stdout.close),
            lambda: _pump(channel.recv_stderr, stderr.sendall, stderr.close),
        ):
            threading.Thread(target=run, name="ssh-session", daemon=True).start()

    @property
    def ended(self) -> bool:
        return self._channel.closed or self._channel.exit_status_ready()

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the exit status as `Session.exit_status` does."""
        if not self._channel.status_event.wait(timeout_s):
            raise TimeoutError
        status = self._channel.recv_exit_status()
        return None if status < 0 else status

    def close(self) -> None:
        _close(self._channel)
        for sock in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def _close(channel: paramiko.Channel) -> None:
    with contextlib.suppress(EOFError, OSError, paramiko.SSHException):  # the connection has ended
        channel.close()


class ParamikoLink:
    """A logged-in hop, like `Master` for OpenSSH. It ends with this process."""

    def __init__(self, hop: Hop, previous: ParamikoLink | None) -> None:
        self.hop = hop
        self.previous = previous
        self.needs_person = False
        self.sessions = True
        self._transport: paramiko.Transport | None = None

    @classmethod
    def log_in(
        cls,
        hop: Hop,
        previous: ParamikoLink | None,
        ask: Ask,
        begun: Callable[[ParamikoLink], None],
    ) -> Self:
        """Log in as `Master.log_in` does."""
        self = cls(hop, previous)
        try:
            begun(self)
            self._transport = paramiko.Transport(self._stream())
            self._transport.start_client(timeout=hop.connect_timeout_s)
            _check_host_key(hop, self._transport.get_remote_server_key(), ask)
            self.needs_person = _Login(self._transport, hop, ask).run()
            self._transport.set_keepalive(hop.alive_interval_s)
        except (paramiko.SSHException, EOFError, OSError) as exc:
            self.close()
            raise TransportError(
                f"Cannot reach {hop.label}.", hint=NO_SSH, detail=shown(str(exc)) or None
            ) from exc
        except BaseException:
            self.close()
            raise
        return self

    def _stream(self) -> socket.socket | paramiko.Channel:
        place = (self.hop.host, self.hop.port)
        if self.previous is None:
            return socket.create_connection(place, timeout=self.hop.connect_timeout_s)
        return self.previous._opened("direct-tcpip", place, self.hop.connect_timeout_s)

    @property
    def alive(self) -> bool:
        return self._transport is not None and self._transport.is_active()

    def wait(self, timeout_s: float) -> bool:
        if self._transport is not None:
            self._transport.join(timeout_s)
        return not self.alive

    def ping(self, timeout_s: float) -> float | None:
        began_s = time.monotonic()
        try:
            self.session("true", timeout_s).close()
        except RefusedError:
            pass
        except (ConnectionLostError, OSError):
            return None
        return time.monotonic() - began_s

    def session(self, command: str, timeout_s: float) -> PumpedSession:
        channel = self._opened("session", None, timeout_s)
        try:
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError) as exc:
            _close(channel)
            raise RefusedError(str(exc)) from exc
        return PumpedSession(channel, self)

    def has_terminal(self) -> bool:
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

        def open_channel() -> None:
            channel = self._opened("direct-tcpip", (host, port), timeout_s)
            sock.setblocking(True)
            left = threading.Semaphore(1)

            def pass_on(*ends: Any) -> None:
                _pump(*ends)
                if not left.acquire(blocking=False):  # both directions have ended
                    sock.close()
                    _close(channel)

            for ends in (
                (sock.recv, channel.sendall, channel.shutdown_write),
                (channel.recv, sock.sendall, lambda: self._end_of(sock)),
            ):
                threading.Thread(target=pass_on, args=ends, name="tunnel", daemon=True).start()

        def run() -> None:
            try:
                open_channel()
            except Exception as exc:  # noqa: BLE001 (the callback reports every failure)
                answered(exc)
            else:
                answered(None)

        threading.Thread(target=run, name="tunnel", daemon=True).start()

    def _end_of(self, sock: socket.socket) -> None:
        """End the data for the reader of `sock`; reset it if the connection is lost."""
        if self.alive:
            sock.shutdown(socket.SHUT_WR)
        else:
            break_off(sock)

    def _opened(
        self, kind: str, place: tuple[str, int] | None, timeout_s: float
    ) -> paramiko.Channel:
        if self._transport is None:
            raise ConnectionLostError("The SSH connection has ended.")
        try:
            return self._transport.open_channel(kind, place, ("127.0.0.1", 0), timeout=timeout_s)
        except paramiko.ChannelException as exc:
            raise RefusedError(str(exc)) from exc
        except (paramiko.SSHException, EOFError, OSError) as exc:
            if self.alive:
                raise TimeoutError from exc
            raise ConnectionLostError("The SSH connection has ended.") from exc

    def log(self, since: int = 0) -> str:
        return ""

    def log_bytes(self) -> int:
        return 0

    def leave(self) -> None:
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport.join(_END_S)


class _Login:
    """A login with keys, then questions, then a password, until the host accepts it."""

    def __init__(self, transport: paramiko.Transport, hop: Hop, ask: Ask) -> None:
        self._transport = transport
        self._hop = hop
        self._ask = ask
        self._by_person = False
        self._told_banner = False
        self._asked: set[str] = set()

    def run(self) -> bool:
        """Log in; return whether the user had to answer. Raises LoginError or LoginNeededError."""
        wanted = self._try(lambda: self._transport.auth_none(self._hop.user), ["publickey"])
        for key in self._keys():
            if not wanted or "publickey" not in wanted:
                break
            wanted = self._try(
                lambda key=key: self._transport.auth_publickey(self._hop.user, key),  # type: ignore[misc]
                wanted,
            )
        for _ in range(_MOST_WRONG):
            if not wanted:
                return self._by_person
            if self._ask is no_prompt and {"keyboard-interactive", "password"} & set(wanted):
                no_prompt(Prompt(QuestionKind.SECRET, self._hop.label, ""))
            if "keyboard-interactive" in wanted:
                self._by_person = True
                wanted = self._try(
                    lambda: self._transport.auth_interactive(self._hop.user, self._answers), wanted
                )
            elif "password" in wanted:
                wanted = self._try(
                    lambda: self._transport.auth_password(
                        self._hop.user, self._put(f"{self._hop.label}'s password:"), fallback=False
                    ),
                    wanted,
                )
            else:
                break
        if wanted:
            raise self._refusal(wanted)
        return self._by_person

    def _try(self, step: Callable[[], list[str]], wanted: list[str]) -> list[str]:
        """Try a method of authentication. Return the methods that the host accepts next; [] after
        the login."""
        try:
            return step()
        except paramiko.BadAuthenticationType as exc:
            return list(exc.allowed_types)
        except paramiko.AuthenticationException:
            return wanted

    def _keys(self) -> Iterator[paramiko.PKey]:
        yield from paramiko.Agent().get_keys()
        for name in _KEYS:
            path = Path.home() / ".ssh" / name
            with contextlib.suppress(OSError, paramiko.SSHException, ValueError):
                yield self._key(path)

    def _key(self, path: Path) -> paramiko.PKey:
        try:
            return paramiko.PKey.from_path(path)
        except (paramiko.PasswordRequiredException, TypeError):
            if self._ask is no_prompt:
                raise paramiko.SSHException from None
        self._by_person = True
        text = f"Passphrase of the key {path}:"
        answer = self._ask(Prompt(QuestionKind.PASSPHRASE, self._hop.label, text))
        return paramiko.PKey.from_path(path, password=answer.encode())  # type: ignore[arg-type] # paramiko needs bytes

    def _answers(self, title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        said = "\n".join(part for part in (shown(title), shown(instructions)) if part)
        return [self._put(text, said, visible=echo) for text, echo in prompts]

    def _put(self, text: str, said: str = "", *, visible: bool = False) -> str:
        self._by_person = True
        banner = "" if self._told_banner else shown(self._transport.get_banner() or b"")
        self._told_banner = True
        *before, asked = shown(text).rsplit("\n", 1)
        prompt = Prompt(
            QuestionKind.TEXT if visible else QuestionKind.SECRET,
            self._hop.label,
            shown_line(asked) or "Answer:",
            instruction="\n".join(part for part in (banner, said, *before) if part),
            refused=text in self._asked,
        )
        self._asked.add(text)
        return self._ask(prompt)

    def _refusal(self, wanted: list[str]) -> LoginError:
        if self._asked:
            return LoginError(
                f"{self._hop.label} rejected the password or code.",
                hint="Wait for the next code, because each code is valid for one login.",
            )
        return LoginError(
            f"{self._hop.label} accepted none of your keys. It accepts: {','.join(wanted)}.",
            hint=NO_SSH,
        )


def _check_host_key(hop: Hop, key: paramiko.PKey, ask: Ask) -> None:
    """Accept a key that is in ~/.ssh/known_hosts, or ask the user and add it to that file. Raises
    HostKeyError or LoginNeededError."""
    path = Path.home() / ".ssh" / "known_hosts"
    name = hop.host if hop.port == 22 else f"[{hop.host}]:{hop.port}"
    keys = paramiko.HostKeys()
    with contextlib.suppress(OSError):
        keys.load(os.fspath(path))
    if keys.check(name, key):
        return
    told = f"{key.get_name()} {key.fingerprint}"
    others = keys.lookup(name)
    if others is not None and key.get_name() in others:
        known = others[key.get_name()]
        raise HostKeyError(
            f"The key of {hop.label} has changed from {known.fingerprint} to {key.fingerprint}. "
            "Another machine may be impersonating this host, so nothing was sent to it.",
            hint=f"If the host's administrators confirm the new key, remove the line of "
            f"{name} from {path}.",
        )
    if ask is no_prompt:
        raise LoginNeededError(
            f"You have not accepted the key of {hop.label} yet.", hint="Log in with `%slurm login`."
        )
    answer = ask(
        Prompt(
            QuestionKind.HOST_KEY,
            hop.label,
            f"Is this the key of {hop.label}? If you answer yes, the key is added to known_hosts.",
            instruction=f"{hop.label} is not known on this machine yet. Its key:\n{told}",
        )
    )
    if answer.strip().lower() != "yes":
        raise HostKeyError(f"You did not accept the host key of {hop.label}.")
    make_private(path.parent)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{name} {key.get_name()} {key.get_base64()}\n")


def _pump(
    source: Callable[[int], bytes], sink: Callable[[bytes], object], *ends: Callable[[], object]
) -> None:
    """Forward bytes, and then the EOF."""
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while data := source(_PIECE_BYTES):
            sink(data)
    for end in ends:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            end()
