"""The keys a login may try for a hop, in OpenSSH's order, and who signs for each.

Finds key files, certificates and the agent's keys; what is in a key file is for `private_keys.py`.
Knows nothing of the conversation with the host.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paramiko.message import Message

from jupyter_slurm.transport.login.private_keys import (
    BEGIN_OPENSSH,
    CERTIFICATE,
    AskPassphrase,
    CannotSignError,
    UnlockedKeys,
    key_type,
    load,
    public_blob,
    public_inside,
    signature,
)
from jupyter_slurm.transport.login.ssh_agent import SshAgent, SshAgentError
from jupyter_slurm.transport.ssh_config import Hop


@dataclass(frozen=True, slots=True)
class Identity:
    """A public key or certificate that may be offered, and who signs for it."""

    name: str
    """As people know it: a path, or a comment in the agent."""
    blob: bytes | None
    """None: not known before the key's passphrase is."""
    path: Path | None
    """Where its private key lies; None: the agent has it."""
    agent_blob: bytes = b""
    """The key as the agent knows it."""


def identities(hop: Hop) -> list[Identity]:
    """In OpenSSH's order (sshconnect2.c, pubkey_prepare): certificates, keys of the agent that the
    configuration names, the agent's others (not with IdentitiesOnly), and the files. Keys that
    would ask for a passphrase before they can even be offered come last."""
    agent = _agent_keys(hop)
    files = [(path, public) for path in hop.identity_files if (public := _public_of(path))]
    named = {blob for _, (blob, _) in files if blob}
    certificates = list(_certificates(hop, files, agent))
    in_agent = [Identity(name, blob, None, blob) for blob, name in agent.items()]
    in_files = [
        Identity(str(path), blob, path)
        for path, (blob, private) in files
        if private and blob not in agent
    ]
    return _once(
        [
            *certificates,
            *[identity for identity in in_agent if identity.blob in named],
            *([] if hop.identities_only else in_agent),
            *[identity for identity in in_files if identity.blob is not None],
            *[identity for identity in in_files if identity.blob is None],
        ]
    )


def sign(
    identity: Identity, hop: Hop, unlocked: UnlockedKeys, ask: AskPassphrase
) -> Callable[[bytes, str], bytes]:
    """What signs for `identity`: (data, algorithm) -> signature. CannotSignError, here or there."""
    if identity.path is None:
        return lambda data, algorithm: _agent_signature(hop, identity.agent_blob, data, algorithm)
    key = unlocked.private_key(identity.path, ask)
    return lambda data, algorithm: signature(key, data, algorithm)


def algorithm(blob: bytes, accepted: tuple[str, ...]) -> str | None:
    """The name of the signature for this key, given the host's `server-sig-algs` (RFC 8308), or ()
    where it did not say. None: the host takes none that we would make (SHA-1 is not made)."""
    kind = key_type(blob)
    if not kind.startswith("ssh-rsa"):
        return kind
    suffix = CERTIFICATE if kind.endswith(CERTIFICATE) else ""
    for name in ("rsa-sha2-512", "rsa-sha2-256"):
        if not accepted or name in accepted:
            return name + suffix
    return None


# --- finding them ---


class _Public(NamedTuple):
    blob: bytes | None
    private: bool
    """The private key lies there too."""


def _agent_keys(hop: Hop) -> dict[bytes, str]:
    if not hop.identity_agent:
        return {}
    try:
        with SshAgent(hop.identity_agent) as agent:
            return {key.blob: f"{key.comment or 'a key'} (agent)" for key in agent.identities()}
    except SshAgentError:
        return {}


def _public_of(path: Path) -> _Public | None:
    """None: there is nothing of a key at `path`. A file may also be a public key alone, which
    says that the agent's is meant."""
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    beside = _public_line(path.with_name(path.name + ".pub"))
    if b"PRIVATE KEY-----" not in data:
        blob = _public_line(path) or beside
        return _Public(blob, private=False) if blob else None
    if BEGIN_OPENSSH in data:
        return _Public(public_inside(data) or beside, private=True)
    try:
        key = load(data, None)
    except CannotSignError:
        return _Public(beside, private=True)
    return _Public(public_blob(key) if key else beside, private=True)


def _public_line(path: Path) -> bytes | None:
    try:
        words = path.read_bytes().split(maxsplit=2)
        blob = base64.b64decode(words[1], validate=True)
    except (OSError, IndexError, binascii.Error):
        return None
    return blob if key_type(blob).encode() == words[0] else None


def _certificates(
    hop: Hop, files: list[tuple[Path, _Public]], agent: dict[bytes, str]
) -> Iterator[Identity]:
    """Those named by CertificateFile and those beside a key, each with who signs for it."""
    holders: dict[bytes, Path] = {
        public.blob: path for path, public in files if public.private and public.blob
    }
    beside = [path.with_name(path.name.removesuffix(".pub") + "-cert.pub") for path, _ in files]
    for path in dict.fromkeys([*hop.certificate_files, *beside]):
        blob = _public_line(path)
        plain = blob and _certified_key(blob)
        if not blob or not plain:
            continue
        if plain in agent:
            yield Identity(str(path), blob, None, plain)
        elif plain in holders:
            yield Identity(str(path), blob, holders[plain])


def _certified_key(blob: bytes) -> bytes | None:
    """The plain public key inside a certificate (PROTOCOL.certkeys): the type, a nonce, then the
    fields of the key."""
    message = Message(blob)
    kind = message.get_string().decode(errors="replace")
    if not kind.endswith(CERTIFICATE):
        return None
    plain_kind = kind.removesuffix(CERTIFICATE)
    message.get_string()
    fields = {"ssh-rsa": 2, "ssh-ed25519": 1}.get(plain_kind, 2)  # ECDSA: curve and point
    plain = Message()
    for value in (plain_kind.encode(), *(message.get_string() for _ in range(fields))):
        plain.add_string(value)
    return plain.asbytes()


def _once(found: list[Identity]) -> list[Identity]:
    """Each key once, at its first place."""
    seen: set[bytes | str] = set()
    result = []
    for identity in found:
        mark = identity.blob or identity.name
        if mark not in seen:
            seen.add(mark)
            result.append(identity)
    return result


def _agent_signature(hop: Hop, blob: bytes, data: bytes, algorithm: str) -> bytes:
    try:
        with SshAgent(hop.identity_agent or "") as agent:
            return agent.sign(blob, data, algorithm)
    except SshAgentError as exc:
        raise CannotSignError(f"the agent did not sign: {exc}") from exc
