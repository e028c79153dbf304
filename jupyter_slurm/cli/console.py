"""This process's own terminal, lent to a program elsewhere: keys there, output here, in frames.

The near half of node/terminal.py. It knows no jobs and no agent: the caller gives it a socket.
Whatever happens, it restores the terminal.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import termios
import time
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, NamedTuple

from jupyter_slurm.readable import visible
from jupyter_slurm.wire import said, terminal_frames
from jupyter_slurm.wire.framing import ALIVE, GarbledError, frame
from jupyter_slurm.wire.terminal_frames import (
    ALIVE_EVERY_S,
    DATA,
    EXIT,
    NUMBER,
    SAID,
    TAKEN,
    Numbered,
)

_PENDING_MOST = 256 * 1024
_PIECE_BYTES = 1 << 16
_LINE_ENDS = b"\r\n"
_MODES = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_LONGEST_MODE = 4
"""The most digits of a mode; no terminal has longer ones, and we keep each that we see."""
_RESET_MODES = {b"25": b"h", b"7": b"h"}
"""The modes that are usually on: the cursor shows, lines wrap. All others are usually off."""


class How(Enum):
    EXITED = "exited"
    LEFT = "left"  # the user typed ~., or this terminal was closed
    TAKEN = "taken"  # another terminal has taken it
    LOST = "lost"  # for an unknown reason
    ABSENT = "absent"  # the job has no such terminal


class TerminalEnd(NamedTuple):
    how: How
    status: int | None = None
    """The program's exit status, as a shell reports it; None: it has not exited."""
    which: Numbered = Numbered(number=1, others=())
    """Which of the job's terminals it was, as last told."""


class _Signalled(SystemExit):
    """SIGTERM or SIGHUP, as an exception, so that the terminal is restored first."""


def lend(
    sock: socket.socket, keyboard: int, screen: int, environ: Mapping[str, str]
) -> TerminalEnd:
    """Lend the terminal until the program there ends or either side goes away; close `sock`.

    `keyboard` and `screen` are descriptors of a terminal. Call it only in the main thread.
    """
    with sock, _raw(keyboard), _size_changes() as changed:
        session = _Console(sock, keyboard, screen, changed)
        try:
            return session.run(environ)
        finally:
            with suppress(OSError):
                _write_all(screen, session.modes.undone())


class Escapes:
    """The filter that takes our own escapes (`~.`) out of what the user types."""

    def __init__(self) -> None:
        self._at_line_start = True
        self._held = False
        self.left = False
        self.asked = False
        """The user typed `~?`; the caller shows the help and resets this."""

    def through(self, data: bytes) -> bytes:
        """Return what to send on, but nothing after `~.`."""
        out = bytearray()
        for byte in data:
            if self._held:
                self._held = False
                if byte == ord("."):
                    self.left = True
                    break
                if byte == ord("?"):
                    self.asked = True
                    continue
                if byte != ord("~"):
                    out += b"~"
            elif self._at_line_start and byte == ord("~"):
                self._held = True
                continue
            out.append(byte)
            self._at_line_start = byte in _LINE_ENDS
        return bytes(out)


class Modes:
    """The modes that the output has switched on in the terminal (DEC private modes): the other
    screen, the mouse, bracketed paste."""

    def __init__(self) -> None:
        self._now: dict[bytes, bytes] = {}
        self._tail = b""

    def see(self, data: bytes) -> None:
        text = self._tail + data
        for match in _MODES.finditer(text):
            for mode in match[1].split(b";"):
                if len(mode) <= _LONGEST_MODE:
                    self._now[mode] = match[2]
        self._tail = text[text.rfind(b"\x1b") :][:32] if b"\x1b" in text[-32:] else b""

    def undone(self) -> bytes:
        """Return the sequences that switch the modes back."""
        usual = {mode: _RESET_MODES.get(mode, b"l") for mode in self._now}
        changed = [mode for mode, now in self._now.items() if now != usual[mode]]
        return b"".join(b"\x1b[?" + mode + usual[mode] for mode in reversed(changed))


class _Console:
    def __init__(self, sock: socket.socket, keyboard: int, screen: int, changed: int) -> None:
        self._sock = sock
        self._keyboard = keyboard
        self._screen = screen
        self._changed = changed
        self._escapes = Escapes()
        self._inbox = terminal_frames.inbox()
        self._outbox = bytearray()
        self._said_s = time.monotonic()
        self._which: Numbered | None = None
        self.modes = Modes()

    def run(self, environ: Mapping[str, str]) -> TerminalEnd:
        self._sock.setblocking(False)
        self._put(terminal_frames.begin(*_size(self._screen), environ))
        while True:
            outcome = self._step()
            if outcome is not None:
                return outcome._replace(which=self._which) if self._which else outcome

    def _step(self) -> TerminalEnd | None:
        reads: list[Any] = [self._sock, self._changed]
        if len(self._outbox) < _PENDING_MOST:
            reads.append(self._keyboard)
        writes = [self._sock] if self._outbox else []
        quiet_s = time.monotonic() - self._said_s
        ready, _, _ = select.select(reads, writes, [], max(0.0, ALIVE_EVERY_S - quiet_s))
        outcome = None
        if self._changed in ready:
            os.read(self._changed, _PIECE_BYTES)
            self._put(terminal_frames.size(*_size(self._screen)))
        if self._sock in ready:
            outcome = self._receive()
        if outcome is None and self._keyboard in ready:
            outcome = self._read_keys()
        if time.monotonic() - self._said_s >= ALIVE_EVERY_S:
            self._say(ALIVE)
        return outcome or self._flush()

    def _read_keys(self) -> TerminalEnd | None:
        try:
            data = os.read(self._keyboard, _PIECE_BYTES)
        except OSError:
            data = b""
        typed = self._escapes.through(data)
        if typed:
            self._say(DATA, typed)
        if self._escapes.asked:
            self._escapes.asked = False
            self._note(
                said("~. leaves the terminal, ~~ is a ~; both only at the beginning of a line")
            )
        return TerminalEnd(How.LEFT) if self._escapes.left or not data else None

    def _receive(self) -> TerminalEnd | None:
        try:
            data = self._sock.recv(_PIECE_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            return TerminalEnd(How.LOST)
        try:
            for kind, body in self._inbox.take(data):
                outcome = self._take(kind, body)
                if outcome is not None:
                    return outcome
        except GarbledError as exc:
            self._note(said("The line from the job is garbled: {why}.", why=exc))
            return TerminalEnd(How.LOST)
        return TerminalEnd(How.LOST) if self._inbox.ended else None

    def _take(self, kind: bytes, body: bytes) -> TerminalEnd | None:
        if kind == DATA:
            self.modes.see(body)
            _write_all(self._screen, body)
        elif kind == SAID:
            self._note(body.decode(errors="replace"))
        elif kind == NUMBER:
            return self._learn(terminal_frames.numbered(body))
        elif kind == TAKEN:
            return TerminalEnd(How.TAKEN)
        elif kind == EXIT:
            return TerminalEnd(How.EXITED, terminal_frames.status_of(body))
        return None

    def _learn(self, which: Numbered) -> TerminalEnd | None:
        """Say which of the job's terminals this is, where it has several."""
        is_first_word, self._which = self._which is None, which
        if which.number is None:
            return TerminalEnd(How.ABSENT)
        if is_first_word and (which.others or which.number > 1):
            told = said(
                "terminal {number} of {count}" if which.others else "terminal {number}",
                number=which.number,
                count=len(which.others) + 1,
            )
            where = f", {said('node {name}', name=visible(which.node))}" if which.node else ""
            self._note(told + where)
        return None

    def _note(self, text: str) -> None:
        _write_all(self._screen, f"\r\n[{text}]\r\n".encode())

    def _say(self, kind: bytes, body: bytes = b"") -> None:
        self._put(frame(kind, body))

    def _put(self, said: bytes) -> None:
        self._outbox += said
        self._said_s = time.monotonic()

    def _flush(self) -> TerminalEnd | None:
        try:
            while self._outbox:
                del self._outbox[: self._sock.send(self._outbox[:_PIECE_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            return TerminalEnd(How.LOST)
        return None


@contextmanager
def _raw(keyboard: int) -> Iterator[None]:
    """Pass every key on as it is; turn SIGTERM and SIGHUP into exceptions."""

    def end(number: int, _: object) -> None:
        raise _Signalled(128 + number)

    modes = termios.tcgetattr(keyboard)
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(keyboard, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # it was closed
            termios.tcsetattr(keyboard, termios.TCSADRAIN, modes)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _size_changes() -> Iterator[int]:
    """Yield a descriptor that becomes readable whenever the terminal's size changes."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def note(*_: object) -> None:
        with suppress(BlockingIOError):
            os.write(writing, b"!")

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield reading
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(reading)
        os.close(writing)


def _size(screen: int) -> tuple[int, int]:
    """Return the terminal's rows and columns."""
    try:
        columns, rows = os.get_terminal_size(screen)
    except OSError:
        return 24, 80
    return rows or 24, columns or 80


def _write_all(screen: int, data: bytes) -> None:
    while data:
        select.select([], [screen], [])
        data = data[os.write(screen, data[:4096]) :]
