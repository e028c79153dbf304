"""Who sits at a terminal of a job, without a terminal: what console.py does, by hand."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_FRAME = struct.Struct(">cI")
_PATIENCE_S = 60.0


class HungUpError(Exception):
    """The far end has."""


class NearEnd:
    """`sock` leads to node/terminal.py."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(_PATIENCE_S)
        self.shown = ""
        """All of it."""
        self.said: list[str] = []
        self.told: dict[str, Any] = {}
        """Which terminal of the job it is, as was last told."""
        self._seen = 0

    def begin(self, rows: int = 24, columns: int = 80, **env: str) -> None:
        told = {"rows": rows, "columns": columns, "env": {"TERM": "dumb", **env}}
        self.say(b"B", json.dumps(told).encode())

    def prompted(self) -> None:
        """Sits down at a shell, which shows what is typed no more."""
        self.begin()
        # A shell complains of a locale that its image lacks, and again when Docker tells it the
        # size of the terminal: whenever that comes.
        self.type("export LC_ALL=C; PS1='ready''> '; stty -echo; echo be''gun")
        self.until("begun\r\nready> ")

    def type(self, line: str) -> None:
        self.say(b"D", line.encode() + b"\r")

    def answer(self, line: str) -> str:
        """What the shell prints for it."""
        self.type(line)
        return self.until("ready> ").removesuffix("ready> ")

    def say(self, kind: bytes, body: bytes = b"") -> None:
        self.sock.sendall(_FRAME.pack(kind, len(body)) + body)

    def until(self, text: str) -> str:
        """What is shown up to and with it, since the last call."""
        while (at := self.shown.find(text, self._seen)) < 0:
            assert self.take() is None, f"it has ended; shown: {self.shown!r}"
        begun, self._seen = self._seen, at + len(text)
        return self.shown[begun : self._seen]

    def status(self) -> int:
        """Once the program has ended."""
        while (status := self.take()) is None:
            pass
        return status

    def take(self) -> int | None:
        """One frame; the status where it is the last. HungUpError."""
        kind, size = _FRAME.unpack(self._exactly(_FRAME.size))
        body = self._exactly(size)
        if kind == b"D":
            self.shown += body.decode(errors="replace")
        elif kind == b"T":
            self.said.append(body.decode())
        elif kind == b"N":
            self.told = json.loads(body)
        elif kind == b"L":
            raise HungUpError("taken by another")
        else:
            assert kind == b"X", kind
            return int(struct.unpack(">i", body)[0])
        return None

    def close(self) -> None:
        self.sock.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise HungUpError(f"shown: {self.shown!r}")
            data += more
        return data
