"""Why a login failed: OpenSSH's words as an error with a remedy. PURE.

OpenSSH says it in English, in words that differ a little between releases; they go into `detail` as
they are, so that nothing is lost where none of these patterns fits.
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
"""Lines that are no news to anybody."""
_BY_PERSON = re.compile(r'Authenticated .* using "(password|keyboard-interactive)"')
_DENIED = re.compile(r"Permission denied \(([^)]*)\)")
_SENT_KEY = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(\S+)")
_OFFENDING = re.compile(r"^(?:Offending|Add correct).* key in (.+):(\d+)\s*$", re.MULTILINE)
_MOST_DETAIL = 2000

_ADMINISTRATORS = "Its administrators can open it again."
_GATEWAY = "Is a VPN or a gateway (ProxyJump) needed from here, or does a firewall drop it?"
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
            "The password of {host} has expired, and the host wants a new one.",
            "Change it in a terminal: `{ssh}`. Then connect again.",
        ),
        (
            r"maintenance|nologin|logins? (are|is) .{0,20}disabled|going down",
            "{host} lets nobody in at the moment.",
            "Try again later.",
        ),
        (
            r"too many (authentication|failed)",
            "{host} takes no further tries in one login.",
            "Every key that your agent offers counts as one: `IdentitiesOnly yes` and "
            "`IdentityFile` in ~/.ssh/config offer only the right one.",
        ),
    )
)
"""A host's own words, in lower case on one line."""
_EXPIRED = _HOST_SAYS[2]
_ON_THE_WAY: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), sentence, hint)
    for pattern, sentence, hint in (
        (
            r"Could not resolve hostname",
            "There is no host {name}: its name cannot be resolved.",
            "Is the name right, is this machine online, or is a gateway (ProxyJump) needed?",
        ),
        (
            r"Connection refused",
            "{place} refuses connections: nothing listens on that port.",
            "Is the port right, and is its SSH server running?",
        ),
        (r"timed out", "{place} did not answer within {seconds} s.", _GATEWAY),
        (r"No route to host|Network is unreachable", "There is no route to {place}.", _GATEWAY),
        (
            r"no matching (host key type|cipher|key exchange method|MAC) found|no mutual",
            "{host} and this OpenSSH share no algorithm.",
            "`Ciphers`, `HostKeyAlgorithms` and `KexAlgorithms` in ~/.ssh/config can allow one.",
        ),
        (
            r"kex_exchange_identification|banner exchange|Connection (closed|reset)|ssh_exchange",
            "{host} ended the connection before the login began, or does not speak SSH.",
            "After many connections or failed logins a host refuses more for some minutes; "
            "a firewall in between may do it too.",
        ),
    )
)
_BY_GATEWAY: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), sentence, hint)
    for pattern, sentence, hint in (
        (
            r"open failed: administratively prohibited",
            "{gateway} does not let connections through to {place}.",
            "Its administrators forbid it (AllowTcpForwarding, PermitOpen), or another host is "
            "the one to jump from.",
        ),
        (
            r"open failed",
            "{gateway} cannot reach {place}.",
            "Is the name right, as that host knows it, and is the machine up?",
        ),
    )
)
"""What the master of the hop before says of a connection that it was to connect."""


def needs_person(log: str) -> bool:
    """Tell whether a host was content with an answer that it will want again."""
    return _BY_PERSON.search(log) is not None


def news(log: str) -> str:
    """Return what a log says to a person: without lines that everybody has always."""
    return "\n".join(line for line in log.splitlines() if not _OURS.match(line)).strip()


def password_expired(hop: Hop, said: str) -> LoginError | None:
    """Return the error for a first command that was refused because of the password's age."""
    pattern, sentence, hint = _EXPIRED
    if not pattern.search(_one_line(said)):
        return None
    return LoginError(_filled(sentence, hop), hint=_filled(hint, hop), detail=shown(said))


def failure(
    hop: Hop, log: str, gateway: Hop | None, gateway_log: str, *, asked: int, person: bool
) -> JupyterSlurmError:
    """Return why there is no login. `log`: what ssh wrote; `gateway_log`: what the master of the
    hop before wrote meanwhile; `asked`: how many answers the host got; `person`: somebody was there
    to answer."""
    said = news(log)
    detail = shown(said, _MOST_DETAIL) or None
    if error := _host_key(hop, log, person=person):
        return error
    if "bad configuration option" in log.lower() or re.search(r"line \d+: ", log):
        return ConfigError(f"The SSH configuration for {hop.alias} cannot be used.", detail=detail)
    denied = _DENIED.search(log)
    if denied or asked:
        return _refused(hop, said, denied[1] if denied else "", asked=asked, person=person)
    if gateway is not None and (
        error := _found(_BY_GATEWAY, gateway_log, hop, gateway, TransportError)
    ):
        return error
    if hop.settings.get("proxycommand", "none") != "none":
        return TransportError(
            f"The ProxyCommand of {hop.label} leads to no SSH server: "
            f"`{hop.settings['proxycommand']}`.",
            hint="Does the command work in a terminal?",
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
            hint="Somebody may have stolen it. Ask the administrators of the host.",
            detail=shown(news(log)),
        )
    if "IDENTIFICATION HAS CHANGED" in log:
        return _changed(hop, log)
    if "Host key verification failed" not in log:
        return None
    if "requested strict checking" in log:
        return HostKeyError(
            f"No key of {hop.label} is known, and StrictHostKeyChecking is yes.",
            hint="Add the key to ~/.ssh/known_hosts when the host's administrators confirm it.",
            detail=shown(news(log)),
        )
    if not person:
        return LoginNeededError(
            f"Nobody has vouched for the key of {hop.label} yet.", hint="Log in: `%slurm login`."
        )
    return HostKeyError(f"The key of {hop.label} was not accepted.", detail=shown(news(log)))


def _changed(hop: Hop, log: str) -> HostKeyError:
    sent, place = _SENT_KEY.search(log), _OFFENDING.search(log)
    now = f"{sent[1]} {sent[2].rstrip('.')}" if sent else "not told"
    lines = [f"now:   {now}"]
    hint = "Only when the host's administrators confirm the new key, remove the old one."
    if place:
        known = _known_key(Path(place[1]), int(place[2]))
        lines.append(f"known: {known or 'not readable'} ({place[1]}:{place[2]})")
        name = hop.settings.get("hostkeyalias") or (
            hop.host if hop.port == 22 else f"[{hop.host}]:{hop.port}"
        )
        remedy = shlex.join(("ssh-keygen", "-R", name, "-f", place[1]))
        hint = f"Only when the host's administrators confirm the new key: {remedy}"
    return HostKeyError(
        f"The key of {hop.label} is not the one that is known. It may be another machine that "
        "pretends to be it, so nothing was sent there.",
        hint=hint,
        detail="\n".join(lines),
    )


def _known_key(path: Path, number: int) -> str | None:
    """Return `ED25519 SHA256:…` of a line of a known_hosts file."""
    try:
        words = path.read_text(errors="replace").splitlines()[number - 1].split()
        words = words[1:] if words[0].startswith("@") else words
        digest = hashlib.sha256(base64.b64decode(words[2], validate=True)).digest()
    except (OSError, IndexError, binascii.Error):
        return None
    kind = words[1].removeprefix("ssh-").split("-")[0].upper()
    return f"{kind} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _refused(hop: Hop, said: str, methods: str, *, asked: int, person: bool) -> JupyterSlurmError:
    detail = shown(said, _MOST_DETAIL) or None
    for pattern, sentence, hint in _HOST_SAYS:
        if pattern.search(_one_line(said)):
            return LoginError(_filled(sentence, hop), hint=_filled(hint, hop), detail=detail)
    if asked and methods:
        times = f" {asked} times" if asked > 1 else ""
        return LoginError(
            f"{hop.label} refused the answers{times}: a wrong password or code.",
            hint="A code is good for one login only: wait for the next one. Is the clock of the "
            "device that makes them right? The account may be locked, too: many hosts do that for "
            "a while after several wrong answers.",
            detail=detail,
        )
    if asked:
        return LoginError(
            f"{hop.label} ended the connection during the login.",
            hint="Hosts wait for an answer for a while only, often two minutes. Try again.",
            detail=detail,
        )
    if not person and {"password", "keyboard-interactive"} & set(methods.split(",")):
        return LoginNeededError(
            f"{hop.label} asks for an answer that only you can give.",
            hint="Log in: `%slurm login`.",
        )
    if "gssapi" in methods and hop.settings.get("gssapiauthentication") == "yes":
        return LoginError(
            f"{hop.label} accepted neither a key nor a Kerberos ticket. It takes: {methods}.",
            hint="`klist` shows your tickets, `kinit` gets a new one.",
            detail=detail,
        )
    return LoginError(
        f"{hop.label} accepted none of your keys. It takes: {methods}.",
        hint="Is the public key in ~/.ssh/authorized_keys there, is it the right user, and is the "
        "account open? `IdentityFile` in ~/.ssh/config names a key; `ssh-add -l` says what your "
        "agent holds.",
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
