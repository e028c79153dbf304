"""Errors and remedies for failed logins, from OpenSSH's output.

The output is English and varies a little between releases. Its relevant lines become the error's
`detail`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from jupyter_slurm.errors import (
    ConfigError,
    ConnectionLostError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport.server_text import shown
from jupyter_slurm.transport.ssh.route import Hop

_OURS = re.compile(
    r"^(Authenticated (to|using)|Transferred: |Bytes per second: |Warning: Permanently added"
    r"|Connection to .* closed|Pseudo-terminal|Killed by signal|debug\d:).*$"
)
"""Lines that any login may print."""
_BY_PERSON = re.compile(r'Authenticated .* using "(password|keyboard-interactive)"')
_DENIED = re.compile(r"Permission denied \(([^)]*)\)")
_OFFENDING = re.compile(r"^(?:Offending|Add correct).* key in (.+):(\d+)\s*$", re.MULTILINE)
_SENT = re.compile(r"sent by the remote host is\s+(\S+?)\.?\s*$", re.MULTILINE)
_MOST_DETAIL = 2000

_ADMINISTRATORS = "Ask the host's administrators."
_GATEWAY = (
    "Check whether you need a VPN or a gateway (ProxyJump), or whether a firewall drops the "
    "connection."
)
_HOST_SAYS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), sentence, hint)
    for pattern, sentence, hint in (
        (r"account.{0,40}expired", "The account {host} has expired.", _ADMINISTRATORS),
        (
            r"(account|login|user).{0,60}(lock|disabled|suspend|blocked)",
            "The account {host} is locked.",
            _ADMINISTRATORS,
        ),
        (
            r"password.{0,40}(expired|must be changed|change required)|change your password",
            "The password of {host} has expired, and the host requires a new one.",
            "Change the password in a terminal with `{ssh}`, then log in again.",
        ),
        (
            r"maintenance|nologin|logins? (are|is) .{0,20}disabled|going down",
            "{host} does not allow logins at the moment.",
            "Try again later.",
        ),
        (
            r"too many (authentication|failed)",
            "{host} does not allow more attempts in this login.",
            "Each key in your SSH agent counts as an attempt. Offer only the right key with "
            "`IdentitiesOnly yes` and `IdentityFile` in ~/.ssh/config.",
        ),
    )
)
"""Patterns for the host's message, which is first converted to lower case and one line."""
_EXPIRED = _HOST_SAYS[2]
_ON_THE_WAY: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), sentence, hint)
    for pattern, sentence, hint in (
        (
            r"Could not resolve hostname",
            "Cannot resolve the host name {name}.",
            "Check the name, your network, and whether you need a gateway (ProxyJump).",
        ),
        (
            r"Connection refused",
            "{place} refuses connections: no program listens on that port.",
            "Check the port, and that the SSH server is running.",
        ),
        (r"timed out", "{place} did not answer within {seconds} s.", _GATEWAY),
        (r"No route to host|Network is unreachable", "Found no route to {place}.", _GATEWAY),
        (
            r"no matching (host key type|cipher|key exchange method|MAC) found|no mutual",
            "{host} and this OpenSSH do not share an algorithm.",
            "Allow the host's algorithms with `Ciphers`, `HostKeyAlgorithms` or `KexAlgorithms` in "
            "~/.ssh/config.",
        ),
        (
            r"kex_exchange_identification|banner exchange|Connection (closed|reset)|ssh_exchange",
            "{host} ended the connection before the login began, or does not speak SSH.",
            "Wait a few minutes: hosts and firewalls block new connections after many failed "
            "logins.",
        ),
    )
)
_BY_GATEWAY: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), sentence, hint)
    for pattern, sentence, hint in (
        (
            r"open failed: administratively prohibited",
            "{gateway} does not forward connections to {place}.",
            "Use another gateway, because this gateway forbids forwarding (AllowTcpForwarding, "
            "PermitOpen).",
        ),
        (
            r"open failed",
            "{gateway} cannot reach {place}.",
            "Check the name, as the gateway resolves it, and that the machine is up.",
        ),
    )
)
"""Patterns in the log of the previous hop's master about a forwarded connection."""


def needs_person(log: str) -> bool:
    """Return whether the host accepted an answer that it will ask for again."""
    return _BY_PERSON.search(log) is not None


def news(log: str) -> str:
    """Return a log without the lines that any login may print."""
    return "\n".join(line for line in log.splitlines() if not _OURS.match(line)).strip()


def password_expired(hop: Hop, said: str) -> LoginError | None:
    """Return the error if the host refused the first command because the password has expired."""
    pattern, sentence, hint = _EXPIRED
    if not pattern.search(_one_line(said)):
        return None
    return LoginError(_filled(sentence, hop), hint=_filled(hint, hop), detail=shown(said))


def failure(
    hop: Hop, log: str, gateway: Hop | None, gateway_log: str, *, asked: int, person: bool
) -> JupyterSlurmError:
    """Return the error of a failed login. `log` is ssh's output, and `gateway_log` the output of
    the previous hop's master during the login. `asked` is the number of answers that the host got.
    `person` is true if the user could answer."""
    said = news(log)
    detail = shown(said, _MOST_DETAIL) or None
    if error := _host_key(hop, log, person=person):
        return error
    if "bad configuration option" in log.lower() or re.search(r"line \d+: ", log):
        return ConfigError(f"Cannot use the SSH configuration for {hop.alias}.", detail=detail)
    denied = _DENIED.search(log)
    if denied or asked:
        return _refused(hop, said, denied[1] if denied else "", asked=asked, person=person)
    if gateway is not None and (
        error := _found(_BY_GATEWAY, gateway_log, hop, gateway, TransportError)
    ):
        return error
    if hop.settings.get("proxycommand", "none") != "none":
        return TransportError(
            f"The ProxyCommand of {hop.label} does not reach an SSH server: "
            f"`{hop.settings['proxycommand']}`.",
            hint="Try the command in a terminal.",
            detail=detail,
        )
    for pattern, sentence, hint in _HOST_SAYS:
        if pattern.search(_one_line(said)):
            return LoginError(_filled(sentence, hop), hint=_filled(hint, hop), detail=detail)
    return _found(_ON_THE_WAY, said, hop, hop, TransportError) or ConnectionLostError(
        f"{hop.label} ended the connection during the login.", detail=detail
    )


def _host_key(hop: Hop, log: str, *, person: bool) -> JupyterSlurmError | None:
    if "REVOKED HOST KEY" in log:
        return HostKeyError(
            f"The key of {hop.label} is marked as revoked.",
            hint="Ask the host's administrators, because the key may have been stolen.",
            detail=shown(news(log)),
        )
    if "IDENTIFICATION HAS CHANGED" in log:
        return _changed(hop, log)
    if "Host key verification failed" not in log:
        return None
    if "requested strict checking" in log:
        return HostKeyError(
            f"The key of {hop.label} is unknown, and StrictHostKeyChecking is yes.",
            hint="Add the key to ~/.ssh/known_hosts when the host's administrators confirm it.",
            detail=shown(news(log)),
        )
    if not person:
        return LoginNeededError(
            f"You have not accepted the key of {hop.label} yet.", hint="Log in with `%slurm login`."
        )
    return HostKeyError(f"ssh did not accept the host key of {hop.label}.", detail=shown(news(log)))


def _changed(hop: Hop, log: str) -> HostKeyError:
    hint = "Remove the old key only if the host's administrators confirm the new one"
    place = _OFFENDING.search(log)
    sent = _SENT.search(log)
    known = _fingerprint(Path(place[1]), int(place[2])) if place else None
    change = f" from {known} to {sent[1]}" if known and sent else ""
    detail = "" if change else shown(news(log), _MOST_DETAIL)  # limit it to a screenful
    if place:
        name = hop.settings.get("hostkeyalias") or (
            hop.host if hop.port == 22 else f"[{hop.host}]:{hop.port}"
        )
        hint += f": `{shlex.join(('ssh-keygen', '-R', name, '-f', place[1]))}`"
    return HostKeyError(
        f"The key of {hop.label} has changed{change}. Another machine may be impersonating "
        "this host, so nothing was sent to it.",
        hint=f"{hint}.",
        detail=detail or None,
    )


def _fingerprint(known_hosts: Path, number: int) -> str | None:
    """Return the fingerprint of the key in line `number` (from 1), which OpenSSH does not print;
    None if it is unreadable."""
    try:
        words = known_hosts.read_text(errors="replace").splitlines()[number - 1].split()
        key = base64.b64decode(words[3 if words[0].startswith("@") else 2])
    except (OSError, IndexError, binascii.Error):
        return None
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _refused(hop: Hop, said: str, methods: str, *, asked: int, person: bool) -> JupyterSlurmError:
    detail = shown(said, _MOST_DETAIL) or None
    for pattern, sentence, hint in _HOST_SAYS:
        if pattern.search(_one_line(said)):
            return LoginError(_filled(sentence, hop), hint=_filled(hint, hop), detail=detail)
    if asked and methods:
        return LoginError(
            f"{hop.label} rejected the password or code.",
            hint=(
                "Wait for the next code, because each code is valid for one login. Check the "
                "clock of the device that generates codes. Many hosts lock an account for a "
                "while after several wrong answers."
            ),
            detail=detail,
        )
    if asked:
        return LoginError(
            f"{hop.label} ended the connection during the login.",
            hint="Try again. Many hosts wait only two minutes for an answer.",
            detail=detail,
        )
    if not person and {"password", "keyboard-interactive"} & set(methods.split(",")):
        return LoginNeededError(
            f"{hop.label} asks a question that only you can answer.",
            hint="Log in with `%slurm login`.",
        )
    if "gssapi" in methods and hop.settings.get("gssapiauthentication") == "yes":
        return LoginError(
            f"{hop.label} accepted neither a key nor a Kerberos ticket. It accepts: {methods}.",
            hint="Get a ticket with `kinit`, or list your tickets with `klist`.",
            detail=detail,
        )
    return LoginError(
        f"{hop.label} accepted none of your keys. It accepts: {methods}.",
        hint=(
            "Check the user name, and that the public key is in the host's "
            "~/.ssh/authorized_keys. Name a key with `IdentityFile` in ~/.ssh/config, or list your "
            "agent's keys with `ssh-add -l`."
        ),
        detail=detail,
    )


def _found(
    table: tuple[tuple[re.Pattern[str], str, str], ...],
    said: str,
    hop: Hop,
    gateway: Hop,
    error: Callable[..., JupyterSlurmError],
) -> JupyterSlurmError | None:
    for pattern, sentence, hint in table:
        if pattern.search(said):
            message = _filled(sentence, hop, gateway)
            return error(message, hint=hint, detail=shown(said, _MOST_DETAIL) or None)
    return None


def _filled(text: str, hop: Hop, gateway: Hop | None = None) -> str:
    port = "" if hop.port == 22 else f" -p {hop.port}"
    host = f"[{hop.host}]" if ":" in hop.host else hop.host
    alias = f" ({hop.alias})" if hop.alias != hop.host else ""
    place = (host if hop.port == 22 else f"{host}:{hop.port}") + alias
    return text.format(
        gateway=gateway.label if gateway else "",
        host=hop.label,
        name=repr(hop.host),
        place=place,
        seconds=hop.connect_timeout_s,
        ssh=f"ssh{port} {hop.user}@{hop.alias}",
    )


def _one_line(text: str) -> str:
    return " ".join(text.lower().split())
