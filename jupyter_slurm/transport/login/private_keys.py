"""Private keys in files: opened with a passphrase where they have one, and what they sign.

Which of them is tried for which host is in `identities.py`.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from paramiko.message import Message

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
AskPassphrase = Callable[[Path], str | None]
"""The passphrase of a key file; None: there will be none, go on without this key."""

CERTIFICATE = "-cert-v01@openssh.com"
BEGIN_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END_OPENSSH = b"-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"
_PASSPHRASE_TRIES = 3
_CURVE_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    "ecdsa-sha2-nistp256": hashes.SHA256(),
    "ecdsa-sha2-nistp384": hashes.SHA384(),
    "ecdsa-sha2-nistp521": hashes.SHA512(),
}


class CannotSignError(Exception):
    """This key cannot be used; the text says why, to follow its name."""


class UnlockedKeys:
    """Private keys whose passphrase a person has given, kept in memory as ssh-agent keeps them, so
    that a lost connection comes back without a question."""

    def __init__(self) -> None:
        self._keys: dict[Path, PrivateKey] = {}

    def private_key(self, path: Path, ask: AskPassphrase) -> PrivateKey:
        """CannotSignError."""
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise CannotSignError(exc.strerror or str(exc)) from exc
        if path in self._keys:
            return self._keys[path]
        key = load(data, None)
        for _ in range(_PASSPHRASE_TRIES):
            if key is not None:
                return key
            passphrase = ask(path)
            if passphrase is None:
                raise CannotSignError("it has a passphrase")
            key = load(data, passphrase.encode())
            if key is not None:
                self._keys[path] = key
        if key is None:
            raise CannotSignError("wrong passphrase")
        return key

    def clear(self) -> None:
        self._keys.clear()


def public_blob(key: PrivateKey) -> bytes:
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return base64.b64decode(line.split()[1])


def key_type(blob: bytes) -> str:
    """`ssh-ed25519`, `ssh-rsa-cert-v01@openssh.com` …; "" where it is no key."""
    return Message(blob).get_string().decode(errors="replace")


def public_inside(data: bytes) -> bytes | None:
    """The public key that an OpenSSH private key holds in clear (PROTOCOL.key)."""
    try:
        body = data.split(BEGIN_OPENSSH, 1)[1].split(_END_OPENSSH, 1)[0]
        raw = base64.b64decode(body)
    except (IndexError, binascii.Error):
        return None
    if not raw.startswith(_MAGIC):
        return None
    message = Message(raw[len(_MAGIC) :])
    for _ in range(3):  # cipher, key derivation, its options
        message.get_string()
    return message.get_string() if message.get_int() == 1 else None


def load(data: bytes, passphrase: bytes | None) -> PrivateKey | None:
    """None: the passphrase is missing or wrong. CannotSignError: a key that only OpenSSH knows."""
    read = (
        serialization.load_ssh_private_key
        if BEGIN_OPENSSH in data
        else serialization.load_pem_private_key
    )
    public = public_inside(data)
    if public and key_type(public).startswith("sk-"):
        raise CannotSignError("it is on a security key, which needs the agent or OpenSSH itself")
    try:
        key = read(data, passphrase)
    except (TypeError, struct.error):
        return None
    except ValueError as exc:
        if passphrase is not None:
            return None
        raise CannotSignError("its file cannot be read") from exc
    except UnsupportedAlgorithm as exc:
        raise CannotSignError("it is of a kind that only OpenSSH knows") from exc
    if isinstance(key, PrivateKey):
        return key
    raise CannotSignError("DSA keys are no longer accepted")


def signature(key: PrivateKey, data: bytes, algorithm: str) -> bytes:
    name = algorithm.removesuffix(CERTIFICATE)
    if isinstance(key, rsa.RSAPrivateKey):
        digest = hashes.SHA512() if name == "rsa-sha2-512" else hashes.SHA256()
        raw = key.sign(data, padding.PKCS1v15(), digest)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        pair = utils.decode_dss_signature(key.sign(data, ec.ECDSA(_CURVE_HASHES[name])))
        numbers = Message()
        for number in pair:
            numbers.add_mpint(number)
        raw = numbers.asbytes()
    else:
        raw = key.sign(data)
    message = Message()
    message.add_string(name)
    message.add_string(raw)
    return message.asbytes()
