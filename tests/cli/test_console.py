"""This process's terminal, lent: the keys that are ours, and how it is given back."""

from __future__ import annotations

import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from jupyter_slurm.cli.console import Escapes, Modes
from tests.cluster.plugin import ROOT

FRAME = struct.Struct(">cI")
PATIENCE_S = 60.0


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        (b"ls\r", b"ls\r"),
        (b"~~x", b"~x"),
        (b"a~.b", b"a~.b"),
        (b"~a", b"~a"),
        (b"x\r~~\r~b", b"x\r~\r~b"),
        (b"~?~x", b"~x"),
        ("größe~\n".encode(), "größe~\n".encode()),
    ],
)
def test_tilde_is_ours_at_the_beginning_of_a_line_only(typed: bytes, sent: bytes) -> None:
    whole, by_bytes = Escapes(), Escapes()
    assert whole.through(typed) == sent
    assert b"".join(by_bytes.through(bytes([byte])) for byte in typed) == sent
    assert not whole.left


@pytest.mark.parametrize("typed", [b"~.rest", b"ls\r~.rest", b"^C\n~.rest"])
def test_tilde_and_a_dot_leave_and_nothing_behind_them_is_sent(typed: bytes) -> None:
    escapes = Escapes()
    assert escapes.through(typed) == typed.removesuffix(b"~.rest")
    assert escapes.left


def test_modes_that_are_on_are_switched_off_the_last_first() -> None:
    modes = Modes()
    for piece in (b"x\x1b[?1049h\x1b[?25l", b"\x1b[?2004h\x1b[?20", b"04l\x1b[?1000;1006h"):
        modes.see(piece)
    assert modes.undone() == b"\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[?1049l"
    modes.see(b"\x1b[?1000;1006l\x1b[?25h\x1b[?1049l")
    assert modes.undone() == b""


LEND = """
import os, socket, sys
from jupyter_slurm.cli.console import lend
print(lend(socket.socket(fileno=int(sys.argv[1])), 0, 1, {"TERM": "vt1", "LC_X": "y", "KEY": "1"}))
"""


class Lent:
    """A process that lends its terminal, of which this is the far side and the person."""

    def __init__(self, master: int, far: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.master = master
        self.far = far
        self.process = process

    def frame(self) -> tuple[bytes, bytes]:
        kind, size = FRAME.unpack(self._exactly(FRAME.size))
        return kind, self._exactly(size)

    def say(self, kind: bytes, body: bytes = b"") -> None:
        self.far.sendall(FRAME.pack(kind, len(body)) + body)

    def shown_until(self, text: bytes) -> bytes:
        shown = b""
        while text not in shown:
            shown += os.read(self.master, 4096)
        return shown

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.far.recv(size - len(data)) or pytest.fail("it has hung up")
        return data


@contextmanager
def lent() -> Iterator[Lent]:
    near, far = socket.socketpair()
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (31, 97))
    far.settimeout(PATIENCE_S)
    with near, far:
        process = subprocess.Popen(
            [sys.executable, "-c", LEND, str(near.fileno())],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            pass_fds=[near.fileno()],
            cwd=ROOT,
            start_new_session=True,
        )
        near.close()
        with process:
            yield Lent(master, far, process)
            process.kill()
    os.close(slave)
    os.close(master)


def usual(master: int) -> bool:
    """Lines are edited and Ctrl-C is a signal, as at first."""
    modes = termios.tcgetattr(master)
    return bool(modes[3] & termios.ICANON and modes[3] & termios.ISIG and modes[3] & termios.ECHO)


def test_keys_sizes_and_output_go_through_and_the_status_comes_back() -> None:
    with lent() as it:
        kind, begin = it.frame()
        assert kind == b"B"
        assert begin == b'{"rows":31,"columns":97,"env":{"TERM":"vt1","LC_X":"y"}}'
        assert not usual(it.master)
        os.write(it.master, b"\x03\x1a\x04")
        assert it.frame() == (b"D", b"\x03\x1a\x04")
        termios.tcsetwinsize(it.master, (10, 20))
        it.process.send_signal(signal.SIGWINCH)
        assert it.frame() == (b"W", struct.pack(">HH", 10, 20))
        it.say(b"D", "größe\r\n".encode())
        it.shown_until("größe\r\n".encode())
        it.say(b"X", struct.pack(">i", 7))
        assert b"EXITED" in it.shown_until(b"status=7")
        assert usual(it.master)


def ended_by_tilde(it: Lent) -> None:
    os.write(it.master, b"~.")


def lost(it: Lent) -> None:
    it.far.close()


def taken(it: Lent) -> None:
    it.say(b"L")


def terminated(it: Lent) -> None:
    it.process.terminate()


def hung_up(it: Lent) -> None:
    it.process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize("end", [ended_by_tilde, lost, taken, terminated, hung_up])
def test_the_terminal_is_given_back_as_it_was(end: Callable[[Lent], None]) -> None:
    with lent() as it:
        it.frame()
        it.say(b"D", b"\x1b[?1049h\x1b[?25lvi")
        it.shown_until(b"vi")
        assert not usual(it.master)
        end(it)
        assert b"\x1b[?25h\x1b[?1049l" in it.shown_until(b"\x1b[?1049l")
        it.process.wait(PATIENCE_S)
        assert usual(it.master)


def test_the_words_of_srun_behind_the_last_frame_are_the_lines_end() -> None:
    with lent() as it:
        it.frame()
        it.say(b"D", b"shown")
        it.far.sendall(b"\n0123456789abcdefsrun: error: Node failure")
        assert b"\r\n[" not in it.shown_until(b"lost")
        it.process.wait(PATIENCE_S)


def test_a_far_end_that_takes_nothing_does_not_keep_its_output_from_being_shown() -> None:
    with lent() as it:
        it.frame()
        it.far.setblocking(True)
        chunk = b"x" * 65536
        for _ in range(80):  # more than a socket takes
            os.write(it.master, b"y" * 4096)
            it.say(b"D", chunk)
            left = len(chunk)
            while left:
                left -= len(os.read(it.master, left))
        it.say(b"X", struct.pack(">i", 0))
        it.shown_until(b"status=0")
