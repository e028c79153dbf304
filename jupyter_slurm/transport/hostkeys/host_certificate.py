"""Certificates of hosts (PROTOCOL.certkeys of OpenSSH): what they say, and whether they hold.

Pure: which authorities are trusted is the caller's to say, by comparing `authority`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import paramiko

from jupyter_slurm.transport.ssh_config.config_words import matches
from jupyter_slurm.wire import Message

SUFFIX: Final = "-cert-v01@openssh.com"
_HOST = 2
_NAME = re.compile(r"[A-Za-z0-9.*?_-]{1,80}")
_MOST_NAMES = 3
_FIELDS_OF_KEY = {"ssh-rsa": 2, "ssh-ed25519": 1} | {
    f"ecdsa-sha2-nistp{bits}": 2 for bits in (256, 384, 521)
}
_AUTHORITIES: Final[dict[str, Callable[[bytes], paramiko.PKey]]] = {
    "ssh-rsa": lambda blob: paramiko.RSAKey(data=blob),
    "ssh-ed25519": lambda blob: paramiko.Ed25519Key(data=blob),
} | {
    f"ecdsa-sha2-nistp{bits}": lambda blob: paramiko.ECDSAKey(data=blob) for bits in (256, 384, 521)
}


class HostCertificate(NamedTuple):
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    """UTC epoch seconds."""
    valid_before: int
    critical_options: bytes
    authority: bytes
    """The public key that signed it, as it stands in a file of known hosts."""
    signed: bytes
    signature: bytes

    def flaw(self, host: str, now_s: float) -> Message | None:
        """Return why it does not hold for `host` (lower case, no port); None: it does.

        As OpenSSH of 2026: a certificate without principals holds for nobody, principals may be
        patterns, signatures with SHA-1 count for nothing.
        """
        if self.kind != _HOST:
            return Message.of("it is not one for hosts")
        if not self.valid_after <= now_s:
            return Message.of("it does not hold yet")
        if not now_s < self.valid_before:
            return Message.of("it has expired")
        if not self.principals:
            return Message.of("it is for no host at all")
        if not any(matches(host, principal) for principal in self.principals):
            return Message.of(
                "it is for {names}, not for {host}",
                names=_shown_principals(self.principals),
                host=host,
            )
        if self.critical_options:
            return Message.of("it has options that are not understood")
        if not self._is_signed():
            return Message.of("its signature is wrong or of a kind that is not accepted")
        return None

    def _is_signed(self) -> bool:
        try:
            authority_kind = _Reader(self.authority).text()
            signature = _Reader(self.signature)
            kind, proof = signature.string(), signature.string()
            signature.end()
            key = _AUTHORITIES[authority_kind](self.authority)
            message = paramiko.Message()
            message.add_string(kind)
            message.add_string(proof)
            return key.verify_ssh_sig(self.signed, paramiko.Message(message.asbytes()))
        except (KeyError, ValueError, paramiko.SSHException):
            return False


def _shown_principals(principals: Sequence[str]) -> str:
    """Return the first that look like names of hosts. The host that shows a certificate may have
    made it, and would put a fingerprint there for a person to compare, or a question of ours."""
    names = [one for one in principals if _NAME.fullmatch(one)]
    shown = names[:_MOST_NAMES]
    return ", ".join([*shown, *(["others"] if len(principals) > len(shown) else [])])


def parse(blob: bytes) -> HostCertificate | None:
    """Parse the certificate in `blob`, a public key as it came in the key exchange; None: not a
    certificate of a known kind, or a damaged one."""
    try:
        return _parse(_Reader(blob))
    except (KeyError, ValueError):
        return None


def _parse(reader: _Reader) -> HostCertificate:
    plain, suffix, _ = reader.text().partition(SUFFIX)
    for _ in range(1 + _FIELDS_OF_KEY[plain if suffix else ""]):  # nonce, public key
        reader.string()
    reader.number(8)  # serial
    kind, key_id = reader.number(4), reader.text()
    principals = _Reader(reader.string()).texts()
    valid_after, valid_before = reader.number(8), reader.number(8)
    critical_options = reader.string()
    reader.string()  # extensions
    reader.string()  # reserved
    authority = reader.string()
    signed = reader.so_far()
    signature = reader.string()
    reader.end()
    return HostCertificate(
        kind=kind,
        key_id=key_id,
        principals=principals,
        valid_after=valid_after,
        valid_before=valid_before,
        critical_options=critical_options,
        authority=authority,
        signed=signed,
        signature=signature,
    )


class _Reader:
    """Numbers and strings of RFC 4251, 5. ValueError where there are fewer bytes than said:
    paramiko's Message makes up what is missing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def string(self) -> bytes:
        return self._take(self.number(4))

    def text(self) -> str:
        return self.string().decode("utf-8")

    def texts(self) -> tuple[str, ...]:
        """Return all that is left."""
        found = []
        while self._at < len(self._data):
            found.append(self.text())
        return tuple(found)

    def so_far(self) -> bytes:
        return self._data[: self._at]

    def end(self) -> None:
        if self._at != len(self._data):
            raise ValueError("there is more than there should be")

    def _take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise ValueError("it has been cut off")
        self._at += size
        return self._data[self._at - size : self._at]
