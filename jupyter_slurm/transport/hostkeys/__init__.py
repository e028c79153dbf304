"""Whether a host is who it says: its key against the files of known hosts, and a person's word.

Decides as OpenSSH does (check_host_key in sshconnect.c), and is never laxer: a changed or revoked
key is refused whatever StrictHostKeyChecking says. Knows nothing of connections.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import shlex
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import paramiko

from jupyter_slurm.errors import HostKeyError
from jupyter_slurm.transport.ask import Ask, Prompt
from jupyter_slurm.transport.hostkeys import host_certificate, known_hosts_file
from jupyter_slurm.transport.hostkeys.known_hosts_file import KnownHostsEntry
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.wire import Message, QuestionKind, together

_log = logging.getLogger(__name__)

_ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
"""Type of a key → the algorithms it can prove itself by, in the order of preference."""


def known_algorithms(hop: Hop) -> tuple[str, ...]:
    """Return the algorithms of host keys to offer first: those of certificates where an authority
    is known for the host, then those of its known keys. () for a host nobody knows.

    Without this a host with several keys would show one that is not in the file.
    """
    entries = _HopEntries.of(hop).that_count()
    types = {entry.key_type for entry in entries if not entry.marker}
    plain = [a for kind, names in _ALGORITHMS.items() if kind in types for a in names]
    certified = [a + host_certificate.SUFFIX for names in _ALGORITHMS.values() for a in names]
    has_authority = any(entry.marker == "cert-authority" for entry in entries)
    return (*(certified if has_authority else ()), *plain)


def check(hop: Hop, key: paramiko.PKey, ask: Ask) -> None:
    """Return when the key that `hop` has shown is trusted.

    An unknown one is shown to a person, and remembered in the first of `hop.known_hosts` when
    they say yes. HostKeyError: changed, revoked, not accepted, or unknown where the configuration
    wants only known ones. What `ask` raises goes through.
    """
    shown = _Shown.of(key)
    known = _HopEntries.of(hop)
    _refuse_revoked(hop, shown, known.named + known.without_port)
    if _is_trusted(hop, shown, known.that_count()):
        return
    others = [entry for entry in known.named if not entry.marker]
    # All keys in the file were offered first. One that could have been used and was not is gone.
    gone = [entry for entry in others if entry.key_type in _ALGORITHMS]
    if gone:
        raise _changed(hop, shown, gone)
    _vouch(hop, shown, others, ask)
    _remember(hop, shown)


class _Shown(NamedTuple):
    """The key that a host has proved to own."""

    key_type: str
    blob: bytes
    """The public key alone, also of a certificate."""
    certificate: host_certificate.HostCertificate | None

    @classmethod
    def of(cls, key: paramiko.PKey) -> _Shown:
        # paramiko keeps a certificate beside the key that it was made for.
        certificate = getattr(key, "public_blob", None)
        parsed = host_certificate.parse(certificate.key_blob) if certificate is not None else None
        return cls(key.get_name(), key.asbytes(), parsed)

    def flaw(self, hop: Hop) -> Message | None:
        """Return why the certificate does not hold; None: it does, or there is none."""
        if self.certificate is None:
            return None
        return self.certificate.flaw(hop.host_key_alias or hop.host, time.time())


def _names(hop: Hop) -> tuple[str, ...]:
    """Return the host's names in the file, the one to write first."""
    if hop.host_key_alias:
        return (hop.host_key_alias,)
    return (hop.host,) if hop.port == 22 else (f"[{hop.host}]:{hop.port}", hop.host)


class _HopEntries(NamedTuple):
    """The lines that are about a hop."""

    named: list[KnownHostsEntry]
    without_port: list[KnownHostsEntry]

    @classmethod
    def of(cls, hop: Hop) -> _HopEntries:
        entries = known_hosts_file.read(hop.known_hosts)
        name, *others = _names(hop)
        return cls(
            [entry for entry in entries if entry.names_host(name)],
            [entry for entry in entries for other in others if entry.names_host(other)],
        )

    def that_count(self) -> list[KnownHostsEntry]:
        """Return the entries that count, as in OpenSSH: what is known of a host without the port
        holds for its other ports as long as no key is known with the port."""
        if any(not entry.marker for entry in self.named):
            return self.named
        return self.named + self.without_port


def _refuse_revoked(hop: Hop, shown: _Shown, lines: Sequence[KnownHostsEntry]) -> None:
    authority = shown.certificate.authority if shown.certificate else shown.blob
    for entry in lines:
        if entry.marker == "revoked" and entry.blob in (shown.blob, authority):
            raise HostKeyError(
                "The key of {label} is marked as revoked ({place}): {described}."
                if entry.blob == shown.blob
                else "The authority of the certificate of {label} is marked as revoked ({place}): "
                "{described}.",
                hint="Somebody may have stolen it. Ask the administrators of the host.",
                label=hop.label,
                place=entry.place,
                described=_described(entry.key_type, entry.blob),
            )


def _is_trusted(hop: Hop, shown: _Shown, lines: Sequence[KnownHostsEntry]) -> bool:
    if any(not entry.marker and entry.blob == shown.blob for entry in lines):
        return True
    certificate = shown.certificate
    if certificate is None:
        return False
    authorities = [entry for entry in lines if entry.marker == "cert-authority"]
    return (
        any(entry.blob == certificate.authority for entry in authorities)
        and shown.flaw(hop) is None
    )


def _changed(hop: Hop, shown: _Shown, gone: Sequence[KnownHostsEntry]) -> HostKeyError:
    old = next((entry for entry in gone if entry.key_type == shown.key_type), gone[0])
    remedy = shlex.join(("ssh-keygen", "-R", _names(hop)[0], "-f", str(old.path)))
    return HostKeyError(
        "The key of {label} is not the one that is known. It may be another "
        "machine that pretends to be it, so nothing was sent there.",
        detail=(
            f"now:   {_described(shown.key_type, shown.blob)}\n"
            f"known: {_described(old.key_type, old.blob)} ({old.place})"
        ),
        hint=together(
            _flaw_text(shown.flaw(hop)),
            Message.of(
                "Only when the host's administrators confirm the new key: {remedy}", remedy=remedy
            ),
        ),
        label=hop.label,
    )


def _vouch(hop: Hop, shown: _Shown, others: Sequence[KnownHostsEntry], ask: Ask) -> None:
    """Return when a person or the configuration takes the unknown key for the right one."""
    key = _described(shown.key_type, shown.blob)
    name = _names(hop)[0]
    if hop.strict == "yes":
        raise HostKeyError(
            "No key of {label} is known, and StrictHostKeyChecking is yes.",
            detail=key,
            hint=together(
                _flaw_text(shown.flaw(hop)),
                Message.of(
                    "Add the key to {known_hosts} when the host's administrators confirm it.",
                    known_hosts=hop.known_hosts[0],
                ),
            ),
            label=hop.label,
        )
    if hop.strict in ("accept-new", "no") and not others:
        return
    said = [
        Message.of("{host} is not known on this machine yet. Its key:", host=name),
        Message.of("{key}", key=key),
    ]
    said += [
        Message.of(
            "Another kind of key is known: {kind} ({place})", kind=entry.key_type, place=entry.place
        )
        for entry in others
    ]
    said += [
        Message.of("The same key is known in {place}", place=entry.place)
        for entry in known_hosts_file.read(hop.known_hosts)
        if entry.blob == shown.blob and not entry.marker
    ]
    prompt = Prompt(
        kind=QuestionKind.HOST_KEY,
        host=hop.label,
        text=Message.of("Is this the key of {host}, and shall it be remembered?", host=name),
        instruction=together(*said, _flaw_text(shown.flaw(hop)), between="\n"),
    )
    if ask(prompt).strip().lower() != "yes":
        raise HostKeyError(
            "The key of {label} was not accepted: {key}.",
            hint="Log in again when you know the host's fingerprint.",
            label=hop.label,
            key=key,
        )


def _remember(hop: Hop, shown: _Shown) -> None:
    name, path = _names(hop)[0], hop.known_hosts[0]
    if not known_hosts_file.can_be_written(name):
        _log.warning("%s cannot stand in a file of known hosts: its key is not remembered", name)
        return
    try:
        known_hosts_file.append(path, name, shown.key_type, shown.blob, hashed=hop.hash_known_hosts)
    except OSError as exc:
        # As ssh: the login goes on, and the question comes again.
        _log.warning("the key of %s could not be added to %s: %s", name, path, exc)


def _described(key_type: str, blob: bytes) -> str:
    """Return `ED25519 SHA256:…`, as OpenSSH shows it."""
    kind = key_type.removeprefix("sk-").removeprefix("ssh-").split("-")[0].split("@")[0].upper()
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"{kind} SHA256:{digest}"


def _flaw_text(flaw: Message | None) -> Message | None:
    return flaw and Message.of("Its certificate was not taken: {flaw}.", flaw=flaw)
