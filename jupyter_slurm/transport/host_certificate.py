"""Certificates of hosts (PROTOCOL.certkeys of OpenSSH): what they say, and whether they hold.

Pure: which authorities are trusted is the caller's to say, by comparing `authority`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import paramiko
from paramiko.message import Message

from jupyter_slurm.transport.ssh_config_words import matches

SUFFIX: Final = "-cert-v01@openssh.com"
_HOST = 2
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

    def flaw(self, host: str, now_s: float) -> str | None:
        """Why it does not hold for `host` (lower case, no port); None: it does.

        As OpenSSH of 2026: a certificate without principals holds for nobody, principals may be
        patterns, signatures with SHA-1 count for nothing.
        """
        if self.kind != _HOST:
            return "it is not one for hosts"
        if not self.valid_after <= now_s:
            return "it does not hold yet"
        if not now_s < self.valid_before:
            return "it has expired"
        if not any(matches(host, principal) for principal in self.principals):
            return f"it is for {', '.join(self.principals) or 'no host at all'}, not for {host}"
        if self.critical_options:
            return "it has options that are not understood"
        if not self._is_signed():
            return "its signature is wrong or of a kind that is not accepted"
        return None

    def _is_signed(self) -> bool:
        kind = Message(self.authority).get_binary().decode("ascii", "replace")
        if kind not in _AUTHORITIES:
            return False
        try:
            key = _AUTHORITIES[kind](self.authority)
            return key.verify_ssh_sig(self.signed, Message(self.signature))
        except (paramiko.SSHException, ValueError, UnicodeDecodeError):
            return False


def parse(blob: bytes) -> HostCertificate | None:
    """The certificate in `blob`, a public key as it came in the key exchange; None: no certificate
    of a known kind, or a damaged one."""
    message = Message(blob)
    kind = message.get_binary().decode("ascii", "replace")
    plain = kind.removesuffix(SUFFIX)
    if plain == kind or plain not in _FIELDS_OF_KEY:
        return None
    for _ in range(1 + _FIELDS_OF_KEY[plain]):  # nonce, public key
        message.get_binary()
    message.get_int64()  # serial
    certificate_kind, key_id = message.get_int(), message.get_binary()
    principals = Message(message.get_binary())
    names = []
    while principals.get_remainder():
        names.append(principals.get_binary().decode("utf-8", "replace"))
    valid_after, valid_before = message.get_int64(), message.get_int64()
    critical_options = message.get_binary()
    message.get_binary()  # extensions
    message.get_binary()  # reserved
    authority = message.get_binary()
    signed = message.get_so_far()
    signature = message.get_binary()
    if message.get_remainder() or not signature:
        return None
    return HostCertificate(
        kind=certificate_kind,
        key_id=key_id.decode("utf-8", "replace"),
        principals=tuple(names),
        valid_after=valid_after,
        valid_before=valid_before,
        critical_options=critical_options,
        authority=authority,
        signed=signed,
        signature=signature,
    )
