"""The messages of a kernel in a job, over one line after the other: numbered, kept, sent once.

What a line consists of is in `frames.py`. A line that is cut is opened again and goes on where the
last one was. Nothing is known here of what messages are, nor of jobs. One thread of its own, which
never waits for who reads.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, TransportError
from jupyter_slurm.kernel import node_messages
from jupyter_slurm.kernel.frames import NUMBER, NodeLine, message_body, parts_of
from jupyter_slurm.wire.framing import ALIVE

_ALIVE_S, _SILENCE_S = 20.0, 90.0
_PAUSES_S = (0.0, 0.2, 1.0, 3.0)
_LONGEST_PAUSE_S = 10.0
_PENDING_MOST = 1 << 20
_UNTOLD_MOST = 1 << 20
_TELL_S = 2.0
_UNREAD_MOST = 64 << 20
"""What nobody has fetched yet; more is left to the other end to keep."""
_NOTHING = message_body("ours", [b'{"command": ""}'])


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message from the far kernel."""

    channel: str
    parts: list[bytes]
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened to the kernel itself; numbered among its messages."""

    event: node_messages.Event
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Opened:
    """An open line to the kernel. `info` None: the kernel does not listen yet."""

    info: dict[str, Any] | None
    count: int
    """How often an ipykernel has been started in this job."""
    busy: bool
    is_another: bool
    """It is not the one of before: what that one had been told and had set is gone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A line that is cut, and why. `Far` opens it again by itself."""

    error: JupyterSlurmError


@dataclass(frozen=True, slots=True)
class Taken:
    """The end of the messages: somebody else has the kernel now."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text that the way to the kernel has sent."""

    text: str


News = Arrived | Happened | Opened | Cut | Taken | Said


class Far:
    """The kernel on the node. `open_line` returns a socket that leads to the kernel, or raises;
    `Far` calls `wake`, from another thread, when there is news."""

    def __init__(self, open_line: Callable[[], socket.socket], wake: Callable[[], None]) -> None:
        self._open_line = open_line
        self._wake = wake
        self._client = secrets.token_hex(16)
        self._boot = ""
        self._lock = threading.Lock()
        self._news: deque[News] = deque()
        self._kept: deque[bytes] = deque()
        self._first = 1
        """The number of the oldest that is kept."""
        self._got = 0
        self._passed_on = 0
        self._unread_bytes = 0
        self._untold_bytes = 0
        self._ends = threading.Event()
        self._stir_in, self._stir_out = socket.socketpair()
        for sock in (self._stir_in, self._stir_out):
            sock.setblocking(False)
        self._thread = threading.Thread(target=self._live, name="far", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Close the line and leave the kernel running."""
        self._ends.set()
        self._stir()
        if self._thread.ident is not None:
            self._thread.join(5.0)
        if not self._thread.is_alive():
            self._stir_in.close()
            self._stir_out.close()

    def send(self, channel: str, parts: Sequence[bytes]) -> None:
        """Send a message: it will arrive, once, whatever happens to the line, as long as both ends
        live. TooLargeError: the message is too large."""
        body = message_body(channel, parts)
        with self._lock:
            self._kept.append(body)
        self._stir()

    def command(self, **words: object) -> None:
        self.send("ours", [json.dumps(words).encode()])

    def news(self) -> list[News]:
        with self._lock:
            found = list(self._news)
            self._news.clear()
        return found

    def passed_on(self, arrived: Arrived | Happened) -> None:
        """Note that a message was passed on: the other end need not keep it any longer."""
        with self._lock:
            self._passed_on = arrived.number
            was_full = self._unread_bytes > _UNREAD_MOST
            self._unread_bytes -= arrived.size
            self._untold_bytes += arrived.size
            stir = was_full or self._untold_bytes > _UNTOLD_MOST
        if stir:
            self._stir()

    # --- the thread ---

    def _live(self) -> None:
        tries = 0
        while not self._ends.is_set():
            try:
                sock = self._open_line()
            except JupyterSlurmError as exc:
                self._tell(Cut(exc))
            except Exception as exc:  # noqa: BLE001 - a worker never dies silently
                self._tell(Cut(TransportError(f"The way to the kernel failed: {exc!r}.")))
            else:
                line = NodeLine(sock)
                error = TransportError("The line to the kernel was cut.")
                try:
                    worked = self._talk(line)
                except (ValueError, KeyError, struct.error, zlib.error) as exc:
                    error = TransportError(f"The kernel's line is garbled: {exc!r}.")
                    worked = False
                finally:
                    sock.close()
                tries = 0 if worked else tries
                if line.taken:
                    self._tell(Taken())
                    return
                self._tell(Cut(error))
            pause_s = _PAUSES_S[tries] if tries < len(_PAUSES_S) else _LONGEST_PAUSE_S
            tries += 1
            self._ends.wait(pause_s)

    def _talk(self, line: NodeLine) -> bool:
        """Talk until the line ends; return whether the kernel has answered."""
        where = {
            "client": self._client,
            "boot": self._boot,
            "got": self._got,
            "from": self._first,
            "packs": True,
        }
        line.say(b"B", json.dumps(where).encode())
        while not self._ends.is_set():
            if line.welcomed:
                self._fill(line)
            if not line.flush():
                break
            full = self._unread_bytes > _UNREAD_MOST
            reads = [self._stir_in, *([] if full else [line.sock])]
            ready, _, _ = select.select(reads, [line.sock] if line.outbox else [], [], _ALIVE_S / 4)
            if self._stir_in in ready:
                with suppress(BlockingIOError):
                    while self._stir_in.recv(4096):
                        pass
            now_s = time.monotonic()
            if now_s - line.heard_s > _SILENCE_S and not full:
                break
            if now_s - line.said_s > _ALIVE_S:
                line.say(ALIVE)
            if line.sock in ready and not self._hear(line):
                break
        if self._ends.is_set():
            self._take_leave(line)
        return line.welcomed

    def _take_leave(self, line: NodeLine) -> None:
        """Tell the other end what has been passed on: otherwise it would send that again to the
        next line, and so to the same client twice."""
        if line.welcomed and self._passed_on > line.told:
            line.say(b"K", NUMBER.pack(self._passed_on))
        line.flush()

    def _hear(self, line: NodeLine) -> bool:
        frames = line.receive()
        news: list[News] = []
        for kind, body in frames or ():
            if kind == b"M":
                (number,) = NUMBER.unpack_from(body)
                if number <= self._got:
                    continue
                self._got = number
                news.append(_message(number, body))
            elif kind == b"K":
                self._forget(NUMBER.unpack(body)[0])
            elif kind == b"W":
                news.append(self._welcome(line, node_messages.welcome(body)))
            elif kind == b"T":
                news.append(Said(body.decode(errors="replace")))
            elif kind == b"Q" and not line.outbox:
                line.say(ALIVE)
            elif kind == b"L":
                line.taken = True
        if news:
            self._tell(*news)
        return frames is not None and not line.taken

    def _welcome(self, line: NodeLine, welcome: node_messages.Welcome) -> Opened:
        is_another = self._boot not in ("", welcome.boot)
        self._boot = welcome.boot
        self._forget(welcome.got)
        if is_another or welcome.next > self._got + 1:
            self._got = welcome.next - 1
        if is_another:
            self._withdraw()
        line.welcomed = True
        if welcome.packs:
            line.pack()
        line.sent = self._first - 1
        return Opened(welcome.info, welcome.count, welcome.busy, is_another)

    def _fill(self, line: NodeLine) -> None:
        with self._lock:
            while line.sent + 1 < self._first + len(self._kept):
                if len(line.outbox) > _PENDING_MOST:
                    break
                line.sent += 1
                line.say_message(NUMBER.pack(line.sent) + self._kept[line.sent - self._first])
            # Not by itself and at once: it would hold up the next request (node/framing.py).
            due = self._untold_bytes > _UNTOLD_MOST or time.monotonic() - line.said_s > _TELL_S
            if self._passed_on > line.told and (line.outbox or due):
                line.told, self._untold_bytes = self._passed_on, 0
                line.say(b"K", NUMBER.pack(line.told))

    def _forget(self, number: int) -> None:
        with self._lock:
            while self._kept and self._first <= number:
                self._kept.popleft()
                self._first += 1

    def _withdraw(self) -> None:
        """Withdraw the kept messages: they were meant for the earlier kernel, which may have had
        them, and their senders hear that they are lost. Keep their numbers, without which the other
        end accepts nothing that follows."""
        with self._lock:
            self._kept = deque(_NOTHING for _ in self._kept)

    def _tell(self, *news: News) -> None:
        with self._lock:
            self._news.extend(news)
            self._unread_bytes += sum(
                one.size for one in news if isinstance(one, Arrived | Happened)
            )
        self._wake()

    def _stir(self) -> None:
        with suppress(OSError):  # full, or closed
            self._stir_out.send(b"x")


def _message(number: int, body: bytes) -> Arrived | Happened:
    channel, parts = parts_of(body)
    if channel == "ours":
        return Happened(node_messages.event(b"".join(parts)), number, len(body))
    return Arrived(channel, parts, number, len(body))
