"""Messages of Jupyter's protocol: parsing, signing and creating them. No I/O.

Content is parsed only on access, and forwarded unchanged.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

DELIMITER = b"<IDS|MSG>"
PROTOCOL = "5.3"


@dataclass(frozen=True)
class Message:
    """A message with its addressees, four parts of JSON as bytes, and buffers."""

    identities: tuple[bytes, ...]
    """The addressees or, on iopub, the topic."""
    header_bytes: bytes
    parent_bytes: bytes
    metadata: bytes
    content_bytes: bytes
    buffers: tuple[bytes, ...] = field(default=(), repr=False)

    @cached_property
    def header(self) -> dict[str, Any]:
        return _object(self.header_bytes)

    @cached_property
    def parent(self) -> dict[str, Any]:
        return _object(self.parent_bytes)

    @cached_property
    def content(self) -> dict[str, Any]:
        return _object(self.content_bytes)

    @property
    def kind(self) -> str:
        return str(self.header.get("msg_type", ""))

    @property
    def id(self) -> str:
        return str(self.header.get("msg_id", ""))

    def parts(self, signature: bytes) -> list[bytes]:
        return [
            *self.identities,
            DELIMITER,
            signature,
            self.header_bytes,
            self.parent_bytes,
            self.metadata,
            self.content_bytes,
            *self.buffers,
        ]


class Signer:
    """A signer and verifier of messages. An empty `key` disables both, as in Jupyter."""

    def __init__(self, scheme: str, key: bytes) -> None:
        """Choose the hash of the scheme. Raise ValueError if the scheme is unknown."""
        name = scheme.removeprefix("hmac-")
        if name == scheme or name not in hashlib.algorithms_available:
            raise ValueError(f"{scheme!r} is not a known signature scheme")
        self._hash: Callable[..., Any] = getattr(hashlib, name)
        self._key = key

    def parts(self, message: Message) -> list[bytes]:
        """Return the parts to send through a socket."""
        return message.parts(self._signature(message))

    def message(self, parts: Sequence[bytes]) -> Message | None:
        """Return the message received through a socket; None if it is not a message or its
        signature is invalid."""
        try:
            at = list(parts).index(DELIMITER)
            signature, header, parent, metadata, content, *buffers = parts[at + 1 :]
        except ValueError:
            return None
        made = Message(tuple(parts[:at]), header, parent, metadata, content, tuple(buffers))
        return made if hmac.compare_digest(signature, self._signature(made)) else None

    def _signature(self, message: Message) -> bytes:
        if not self._key:
            return b""
        made = hmac.new(self._key, digestmod=self._hash)
        for part in (
            message.header_bytes,
            message.parent_bytes,
            message.metadata,
            message.content_bytes,
        ):
            made.update(part)
        return made.hexdigest().encode("ascii")


UNSIGNED = Signer("hmac-sha256", b"")
"""The signer for messages of the kernel in the job. It does not sign them, because only this user
can reach the stream."""


def made(
    kind: str,
    content: Mapping[str, Any],
    *,
    parent: bytes = b"{}",
    session: str,
    identities: Sequence[bytes] = (),
) -> Message:
    """Return a new message from the proxy."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "session": session,
        "username": "kernel",
        "date": datetime.datetime.now(datetime.UTC).isoformat(),
        "msg_type": kind,
        "version": PROTOCOL,
    }
    return Message(
        tuple(identities),
        json.dumps(header).encode(),
        parent,
        b"{}",
        json.dumps(content).encode(),
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
