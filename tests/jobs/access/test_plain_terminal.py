"""What lies between frames and the bytes of script(1), whose part is played here."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import threading
from collections.abc import Sequence

import pytest

from jupyter_slurm.jobs.access import plain_terminal
from tests.near_end import NearEnd
from tests.ssh.waiting import wait_until

ARGV_MARK = 4


def unread(sock: socket.socket) -> bytes:
    """How much has come that nobody has taken; all zeros: nothing."""
    return fcntl.ioctl(sock, termios.FIONREAD, bytes(struct.calcsize("i")))


@pytest.mark.parametrize("line_end", [b"\r\n", b"\n", b""])
@pytest.mark.parametrize("cut", [1, 2, 3, 20, -3, -2, -1])
def test_the_end_is_seen_also_where_it_comes_in_two_pieces(line_end: bytes, cut: int) -> None:
    far, theirs = socket.socketpair()
    marks: list[bytes] = []

    def converse(argv: Sequence[str]) -> socket.socket:
        marks.append(argv[ARGV_MARK].encode())
        return theirs

    near = NearEnd(plain_terminal.begin(converse, list, ["sh"]))
    with far, near.sock:
        near.begin(30, 90)
        far.sendall(marks[0] + b"+")
        assert far.recv(100) == b"30 90 dumb\n"
        end = line_end + marks[0] + b"13."
        far.sendall(b"bye" + end[:cut])
        wait_until(lambda: not any(unread(theirs)))
        far.sendall(end[cut:])
        assert near.status() == 13
        assert near.shown.rstrip("\r\n") == "bye"


def test_a_terminal_that_is_over_at_once_is_told_to_one_who_only_then_begins() -> None:
    far, theirs = socket.socketpair()

    def converse(argv: Sequence[str]) -> socket.socket:
        with far:
            far.sendall(b"no terminal can be there.\n" + argv[ARGV_MARK].encode() + b"127.")
        return theirs

    near = NearEnd(plain_terminal.begin(converse, list, ["sh"]))
    with near.sock:
        assert near.status() == 127
        near.begin()
        assert "no terminal can be there" in near.shown
    wait_until(lambda: not any(one.name == "plain terminal" for one in threading.enumerate()))
