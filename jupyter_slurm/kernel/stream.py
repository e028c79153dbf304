"""The message stream of a kernel in a job: each message arrives once, over any number of
connections.

Messages are numbered and kept until acknowledged. After a disconnect, the next connection resumes
where the last one stopped. frames.py defines the frames. A single thread sends and receives, and
never waits for the reader.
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
from jupyter_slurm.kernel import frames
from jupyter_slurm.kernel.frames import NUMBER, NodeConnection, message_body, parts_of
from jupyter_slurm.wire.framing import ALIVE

_ALIVE_S, _SILENCE_S = 20.0, 90.0
_PAUSES_S = (0.0, 0.2, 1.0, 3.0)
_LONGEST_PAUSE_S = 10.0
_PENDING_MOST = 1 << 20
_UNACKNOWLEDGED_MOST = 1 << 20
_ACKNOWLEDGE_S = 2.0
_UNREAD_MOST = 64 << 20
"""Maximum number of received bytes that the proxy has not passed on. Above it, the stream stops
receiving, and the node keeps the messages."""
_NOTHING = message_body("ours", [b'{"command": ""}'])


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message from the remote kernel."""

    channel: str
    parts: list[bytes]
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the kernel itself, numbered like the messages."""

    event: frames.Event
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The stream is open. `info` is None if the kernel does not listen yet."""

    info: dict[str, Any] | None
    count: int
    """The number of ipykernel starts in this job."""
    busy: bool
    is_another: bool
    """True if node/kernel.py has restarted. Earlier messages and the kernel's state are then lost.
    """


@dataclass(frozen=True, slots=True)
class Cut:
    """A lost connection and its error. `KernelStream` reconnects automatically."""

    error: JupyterSlurmError


@dataclass(frozen=True, slots=True)
class Taken:
    """Another client has taken over the kernel. No messages follow."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text from the agent about the connection to the kernel."""

    text: str


News = Arrived | Happened | Opened | Cut | Taken | Said


class KernelStream:
    """The stream of messages to and from the kernel on the node. `open_stream` returns a socket to
    the kernel, or raises an error. The stream's thread calls `wake` when messages or events have
    arrived."""

    def __init__(self, open_stream: Callable[[], socket.socket], wake: Callable[[], None]) -> None:
        self._open_stream = open_stream
        self._wake = wake
        self._client = secrets.token_hex(16)
        self._boot = ""
        self._lock = threading.Lock()
        self._news: deque[News] = deque()
        self._kept: deque[bytes] = deque()
        self._first = 1
        """The number of the oldest stored message."""
        self._got = 0
        self._passed_on = 0
        self._unread_bytes = 0
        self._unacknowledged_bytes = 0
        self._ends = threading.Event()
        self._wake_in, self._wake_out = socket.socketpair()
        for sock in (self._wake_in, self._wake_out):
            sock.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="kernel-stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Close the connection and leave the kernel running."""
        self._ends.set()
        self._wake_thread()
        if self._thread.ident is not None:
            self._thread.join(5.0)
        if not self._thread.is_alive():
            self._wake_in.close()
            self._wake_out.close()

    def send(self, channel: str, parts: Sequence[bytes]) -> None:
        """Send a message. It arrives once, over any number of connections, as long as both
        processes run. Raises TooLargeError."""
        body = message_body(channel, parts)
        with self._lock:
            self._kept.append(body)
        self._wake_thread()

    def command(self, **words: object) -> None:
        self.send("ours", [json.dumps(words).encode()])

    def news(self) -> list[News]:
        with self._lock:
            found = list(self._news)
            self._news.clear()
        return found

    def acknowledge(self, arrived: Arrived | Happened) -> None:
        """Note that the proxy passed on a message, so that the node need not keep it."""
        with self._lock:
            self._passed_on = arrived.number
            was_full = self._unread_bytes > _UNREAD_MOST
            self._unread_bytes -= arrived.size
            self._unacknowledged_bytes += arrived.size
            wakes = was_full or self._unacknowledged_bytes > _UNACKNOWLEDGED_MOST
        if wakes:
            self._wake_thread()

    # --- the thread ---

    def _run(self) -> None:
        tries = 0
        while not self._ends.is_set():
            try:
                sock = self._open_stream()
            except JupyterSlurmError as exc:
                self._queue(Cut(exc))
            except Exception as exc:  # noqa: BLE001 - a worker never dies silently
                self._queue(Cut(TransportError(f"Cannot connect to the kernel: {exc!r}.")))
            else:
                line = NodeConnection(sock)
                error = TransportError("The connection to the kernel dropped.")
                try:
                    worked = self._exchange(line)
                except (ValueError, KeyError, struct.error, zlib.error) as exc:
                    error = TransportError(f"The kernel sent invalid data: {exc!r}.")
                    worked = False
                finally:
                    sock.close()
                tries = 0 if worked else tries
                if line.taken:
                    self._queue(Taken())
                    return
                self._queue(Cut(error))
            pause_s = _PAUSES_S[tries] if tries < len(_PAUSES_S) else _LONGEST_PAUSE_S
            tries += 1
            self._ends.wait(pause_s)

    def _exchange(self, line: NodeConnection) -> bool:
        """Exchange frames until the connection ends. Return whether the kernel answered."""
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
                self._send_kept(line)
            if not line.flush():
                break
            full = self._unread_bytes > _UNREAD_MOST
            reads = [self._wake_in, *([] if full else [line.sock])]
            ready, _, _ = select.select(reads, [line.sock] if line.outbox else [], [], _ALIVE_S / 4)
            if self._wake_in in ready:
                with suppress(BlockingIOError):
                    while self._wake_in.recv(4096):
                        pass
            now_s = time.monotonic()
            if now_s - line.received_s > _SILENCE_S and not full:
                break
            if now_s - line.sent_s > _ALIVE_S:
                line.say(ALIVE)
            if line.sock in ready and not self._receive(line):
                break
        if self._ends.is_set():
            self._acknowledge_last(line)
        return line.welcomed

    def _acknowledge_last(self, line: NodeConnection) -> None:
        """Acknowledge the messages that the proxy passed on. Otherwise the node would send them
        again, and clients would get them twice."""
        if line.welcomed and self._passed_on > line.acknowledged:
            line.say(b"K", NUMBER.pack(self._passed_on))
        line.flush()

    def _receive(self, line: NodeConnection) -> bool:
        received = line.receive()
        news: list[News] = []
        for kind, body in received or ():
            if kind == b"M":
                (number,) = NUMBER.unpack_from(body)
                if number <= self._got:
                    continue
                self._got = number
                news.append(_message(number, body))
            elif kind == b"K":
                self._drop_kept(NUMBER.unpack(body)[0])
            elif kind == b"W":
                news.append(self._welcome(line, frames.welcome(body)))
            elif kind == b"T":
                news.append(Said(body.decode(errors="replace")))
            elif kind == b"Q" and not line.outbox:
                line.say(ALIVE)
            elif kind == b"L":
                line.taken = True
        if news:
            self._queue(*news)
        return received is not None and not line.taken

    def _welcome(self, line: NodeConnection, welcome: frames.Welcome) -> Opened:
        is_another = self._boot not in ("", welcome.boot)
        self._boot = welcome.boot
        self._drop_kept(welcome.got)
        if is_another or welcome.next > self._got + 1:
            self._got = welcome.next - 1
        if is_another:
            self._withdraw()
        line.welcomed = True
        if welcome.packs:
            line.pack()
        line.sent = self._first - 1
        return Opened(welcome.info, welcome.count, welcome.busy, is_another)

    def _send_kept(self, line: NodeConnection) -> None:
        with self._lock:
            while line.sent + 1 < self._first + len(self._kept):
                if len(line.outbox) > _PENDING_MOST:
                    break
                line.sent += 1
                line.say_message(NUMBER.pack(line.sent) + self._kept[line.sent - self._first])
            # Hold an acknowledgement until a message follows or it is due: sent alone, it would
            # delay the next request (node/framing.py).
            due = (
                self._unacknowledged_bytes > _UNACKNOWLEDGED_MOST
                or time.monotonic() - line.sent_s > _ACKNOWLEDGE_S
            )
            if self._passed_on > line.acknowledged and (line.outbox or due):
                line.acknowledged, self._unacknowledged_bytes = self._passed_on, 0
                line.say(b"K", NUMBER.pack(line.acknowledged))

    def _drop_kept(self, number: int) -> None:
        with self._lock:
            while self._kept and self._first <= number:
                self._kept.popleft()
                self._first += 1

    def _withdraw(self) -> None:
        """Replace the stored messages with empty ones. The earlier kernel may have received them,
        and their senders get an error. The numbers stay, because the node does not accept gaps."""
        with self._lock:
            self._kept = deque(_NOTHING for _ in self._kept)

    def _queue(self, *news: News) -> None:
        with self._lock:
            self._news.extend(news)
            self._unread_bytes += sum(
                one.size for one in news if isinstance(one, Arrived | Happened)
            )
        self._wake()

    def _wake_thread(self) -> None:
        with suppress(OSError):  # the socket is full or closed
            self._wake_out.send(b"x")


def _message(number: int, body: bytes) -> Arrived | Happened:
    channel, parts = parts_of(body)
    if channel == "ours":
        return Happened(frames.event(b"".join(parts)), number, len(body))
    return Arrived(channel, parts, number, len(body))
