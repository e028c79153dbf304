"""One hop after the other: a stream, the host's key, the login, until the last one stands.

What becomes of the chain afterwards (keeping it alive, coming back) is in `connection.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import paramiko

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport import hostkeys
from jupyter_slurm.transport.ask import Ask
from jupyter_slurm.transport.connection import reach
from jupyter_slurm.transport.login import log_in
from jupyter_slurm.transport.login.private_keys import UnlockedKeys
from jupyter_slurm.transport.login.refusals import Report
from jupyter_slurm.transport.login.server_text import shown
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_transport import SharedTransport
from jupyter_slurm.transport.ssh_transport.stream import SharedChannel

_GREETING_TIMEOUT_S = 10.0
_PING_TIMEOUT_S = 3.0
_END_TIMEOUT_S = 5.0
_MOST_WORDS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class OpenHop:
    """A hop that has let us in."""

    hop: Hop
    transport: SharedTransport
    needs_person: bool
    """Somebody had to answer for it, and will have to again."""
    sessions: bool
    """It lets commands run; else it is good for what passes through it."""
    stream: reach.HopSocket | None
    """None: OpenSSH's own."""

    @property
    def alive(self) -> bool:
        return bool(self.transport.is_active())

    def ping(self) -> float | None:
        """Return the round trip in seconds; None: it has ended, or nothing came in time."""
        return self.transport.ping(_PING_TIMEOUT_S) if self.alive else None

    def close(self) -> None:
        _end(self.transport, self.stream)


def link(
    hop: Hop,
    previous: OpenHop | None,
    ask: Ask,
    unlocked: UnlockedKeys,
    begun: Callable[[SharedTransport], None],
) -> OpenHop:
    """Log in to `hop` by way of `previous`, or from here. `begun` learns of its transport early:
    closing that ends the attempt. LoginError, LoginNeededError, HostKeyError, TransportError."""
    stream = (
        reach.from_here(hop)
        if previous is None
        else reach.through(previous.transport, hop, previous.hop.label)
    )
    transport = SharedTransport(stream.sock)
    try:
        begun(transport)
        _agree(transport, hop, stream)
        hostkeys.check(hop, transport.get_remote_server_key(), ask)
        needs_person = log_in(transport, hop, ask, unlocked)
        sessions = _greet(transport, hop)
    except BaseException:
        _end(transport, stream)
        raise
    return OpenHop(hop, transport, needs_person, sessions, stream)


def _agree(transport: SharedTransport, hop: Hop, stream: reach.HopSocket) -> None:
    """Exchange keys, up to the host's own, which is not yet trusted."""
    transport.prefer_host_keys(hostkeys.known_algorithms(hop))
    said = _overhear(transport)
    transport.banner_timeout = transport.handshake_timeout = hop.connect_timeout_s
    try:
        transport.start_client(timeout=hop.connect_timeout_s)
    except paramiko.ssh_exception.IncompatiblePeer as exc:
        raise TransportError(
            "{label} and this program have no way of encrypting in common.",
            hint=Report(hop).master_hint(),
            detail=shown(str(exc)),
            label=hop.label,
        ) from exc
    except (paramiko.SSHException, EOFError, OSError) as exc:
        raise _no_ssh(hop, stream, shown("\n".join(said)) or shown(str(exc))) from exc
    if transport.host_key is None:  # paramiko returns when the time is over
        raise _no_ssh(hop, stream, f"no answer within {hop.connect_timeout_s:g} s")


def _overhear(transport: SharedTransport) -> list[str]:
    """Return a list that fills with the lines that come before the SSH protocol begins, where a
    host says why it will not talk ("Exceeded MaxStartups"); paramiko drops them."""
    said: list[str] = []
    read = transport.packetizer.readline

    def readline(timeout: float) -> str:
        line = read(timeout)
        if not line.startswith("SSH-"):
            said.append(line)
        return line

    transport.packetizer.readline = readline  # type: ignore[method-assign]
    return said


def _no_ssh(hop: Hop, stream: reach.HopSocket, detail: str) -> TransportError:
    if hop.proxy_command:
        return TransportError(
            "The ProxyCommand of {label} leads to no SSH server: `{proxy_command}`.",
            hint="Does the command work in a terminal?",
            detail=stream.words() or detail,
            label=hop.label,
            proxy_command=hop.proxy_command,
        )
    return TransportError(
        "{label} ended the connection before the login began, or does not speak SSH.",
        hint="After many connections or failed logins a host refuses more for some minutes; "
        "a firewall in between may do it too.",
        detail=detail,
        label=hop.label,
    )


def _greet(transport: SharedTransport, hop: Hop) -> bool:
    """Run `true`. Before its first command, sshd's side of a connection sends small messages up to
    40 ms late (it sets TCP_NODELAY then, OpenSSH 9.2). False: commands are forbidden there.

    LoginError: the password has to be changed before anything else can be done.
    """
    try:
        channel = transport.open_stream(timeout_s=_GREETING_TIMEOUT_S)
    except paramiko.ChannelException:
        return False
    except (ConnectionLostError, TimeoutError) as exc:
        raise ConnectionLostError(
            "{label} ended the connection after the login.", label=hop.label
        ) from exc
    # `exec_command` and `recv_exit_status` have no time-out of their own.
    too_long = threading.Timer(2 * _GREETING_TIMEOUT_S, transport.close)
    too_long.start()
    try:
        return _run_true(channel, Report(hop))
    except (paramiko.SSHException, EOFError, OSError) as exc:
        if not transport.is_active():
            raise ConnectionLostError(
                "{label} ended the connection after the login.", label=hop.label
            ) from exc
        # Refused; or a menu that waits for a choice, which is not our concern.
        return isinstance(exc, TimeoutError)
    finally:
        too_long.cancel()
        too_long.join()
        channel.close()


def _run_true(channel: SharedChannel, report: Report) -> bool:
    channel.set_combine_stderr(True)
    channel.settimeout(_GREETING_TIMEOUT_S)
    channel.exec_command("true")
    words = b""
    deadline = time.monotonic() + _GREETING_TIMEOUT_S
    while (more := channel.recv(_MOST_WORDS_BYTES)) and time.monotonic() < deadline:
        words = (words + more)[:_MOST_WORDS_BYTES]
    # sshd runs passwd(1) in place of the command, which finds no terminal to ask at.
    if report.hears_of_expiry(shown(words)) and channel.recv_exit_status() != 0:
        raise report.password_expired()
    return True


def _end(transport: SharedTransport, stream: reach.HopSocket | None) -> None:
    transport.close()
    if transport.is_alive():
        transport.join(_END_TIMEOUT_S)
    if stream is not None:
        stream.close()
