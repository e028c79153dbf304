"""PURE. Our half of what is said at the port of a lab's door; node/lab_port.py has the other, and
tells what it is for. A client without the key gets 32 random bytes and no more."""

from __future__ import annotations

import hashlib
import hmac
import os

from jupyter_slurm.errors import ForwardError

_RANDOM_BYTES = 32
_PROOF_BYTES = 32


class DoorGreeting:
    """A `Greeting` of one connection to `host:port`; `key` is the job's."""

    answer_bytes = _RANDOM_BYTES + _PROOF_BYTES

    def __init__(self, key: bytes, host: str, port: int) -> None:
        self._key = hmac.new(key.strip(), b"door", hashlib.sha256).digest()
        self._where = f"{host} {port}".encode()
        self.first = os.urandom(_RANDOM_BYTES)

    def last(self, answer: bytes) -> bytes:
        theirs, proof = answer[:_RANDOM_BYTES], answer[_RANDOM_BYTES:]
        if not hmac.compare_digest(proof, self._proof(b"node", theirs)):
            raise ForwardError("Whoever is at the lab's port is not the lab.")
        return self._proof(b"visitor", theirs)

    def _proof(self, who: bytes, theirs: bytes) -> bytes:
        return hmac.new(self._key, who + self.first + theirs + self._where, hashlib.sha256).digest()
