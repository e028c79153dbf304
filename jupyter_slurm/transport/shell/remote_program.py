"""Programs in separate channels, and their streams. Each function gets a dedicated shell, and ends
it.
"""

from __future__ import annotations

import contextlib
import math
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport import Completed, Source, check_stop, limits
from jupyter_slurm.transport.shell.helper import completed
from jupyter_slurm.transport.shell.quoting import quote, words
from jupyter_slurm.transport.shell.remote_shell import (
    FloodError,
    RemoteShell,
    ShellAnswer,
    ShellGoneError,
    send_all,
)

_PIECE_BYTES = 1 << 18
_STOP_LOOK_S = 0.1
_END_S = 5.0
"""Seconds that a program may take to exit once its input is closed."""

_GONE = (OSError, ConnectionLostError)


def send(
    shell: RemoteShell,
    argv: Sequence[str],
    source: Source,
    stop: threading.Event | None,
) -> Completed:
    """Run a program with `source` as its standard input. After `source`, close the channel's input,
    which also ends the program's input. Raise errors from reading `source`, and ShellGoneError if
    the channel broke or `stop` was set."""
    script = b'( exec %b ) 2>&4 4>&-; _f $? %b; eval "$_x"; exit' % (words(argv), quote(argv[0]))
    (number,), line = shell.numbered(script)

    def ended() -> None:
        with contextlib.suppress(OSError):
            shell.session.stdin.shutdown(socket.SHUT_WR)

    try:
        answer = shell.send_stream(line, source, number, math.inf, stop, ended)
    except FloodError as exc:
        raise limits.too_much_output(argv[0], exc.stream, exc.most_bytes) from exc
    return completed(answer, argv[0])


def receive(
    shell: RemoteShell,
    argv: Sequence[str],
    sink: BinaryIO,
    most_bytes: int,
    stop: threading.Event | None,
) -> Completed:
    """Run a program and write its standard output to `sink`, a real file. Raises
    ConnectionLostError, ShellGoneError, TooMuchError after more than `most_bytes`, or OSError if
    `sink` cannot be written."""
    # Only standard error gets the mark. The shell closes both streams, so they end with the
    # program. The shell keeps reading its own input, and kills the program when that input is
    # closed.
    mark = b"_m() { printf '%s' \"$_k$_i $1$_n\" >&4; }"
    command = b"( exec %b ) </dev/null 2>&4 4>&-; _f $? %b" % (words(argv), quote(argv[0]))
    (number,), line = shell.numbered(b"%b; { %b; } & exec >/dev/null 4>&-" % (mark, command))
    said = bytearray()
    flooded = threading.Event()

    def take(data: bytes) -> None:
        if len(said) <= limits.ERRORS_BYTES:
            said.extend(data)
        else:
            flooded.set()
            shell.close()

    listener = threading.Thread(
        target=_listen, args=[shell.session.stderr.recv, take], name="stderr", daemon=True
    )
    listener.start()
    try:
        shell.send(line)
        if _receive_into(shell.session.stdout, sink, stop, most_bytes) > most_bytes:
            raise limits.too_much_output(argv[0], "standard output", most_bytes)
        # The program has ended and its status is known. Standard error ends with the shell.
        with contextlib.suppress(OSError):
            shell.session.stdin.shutdown(socket.SHUT_WR)
        listener.join()
    finally:
        shell.close()
        listener.join()
    if flooded.is_set():
        raise limits.too_much_output(argv[0], "standard error", limits.ERRORS_BYTES)
    stderr, marked, status = bytes(said).rpartition(shell.mark(number))
    if not marked:
        raise ShellGoneError("the shell on the host has ended", begun=True)
    return completed(ShellAnswer(status.decode().strip(), b"", stderr), argv[0])


def open_stream(
    shell: RemoteShell, argv: Sequence[str], kill: Callable[[int], None]
) -> socket.socket:
    """Return a socket connected to the program's standard input and output. `kill` sends signals to
    a program that still runs after the end of its input. Raises ShellGoneError."""
    near, far = socket.socketpair()
    try:
        shell.send(b'( exec %b ) 2>/dev/null 4>&-; eval "$_x"; exit\n' % words(argv))
        output = threading.Thread(target=_out, args=[shell, far], name="output", daemon=True)
        output.start()
        given = [shell, far, output, kill]
        threading.Thread(target=_in, args=given, name="input", daemon=True).start()
    except BaseException:
        near.close()
        far.close()
        raise
    return near


def _receive_into(
    sock: socket.socket, sink: BinaryIO, stop: threading.Event | None, most_bytes: int
) -> int:
    """Write received bytes to `sink`, and stop after more than `most_bytes`. Return their number.
    Raise ConnectionLostError if `stop` was set, OSError if `sink` cannot be written."""
    buffer = memoryview(bytearray(_PIECE_BYTES))
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    total = 0
    while total <= most_bytes:
        check_stop(stop)
        if not poll.poll(1000 * _STOP_LOOK_S):
            continue
        try:
            n = sock.recv_into(buffer)
        except OSError:  # another thread closed it
            n = 0
        if not n:
            break
        sink.write(buffer[:n])
        total += n
    return total


def _listen(recv: Callable[[int], bytes], take: Callable[[bytes], object]) -> None:
    with contextlib.suppress(*_GONE):
        while data := recv(_PIECE_BYTES):
            take(data)


def _out(shell: RemoteShell, far: socket.socket) -> None:
    """Pass on the program's output until it ends; then end the socket in both directions."""
    _listen(shell.session.stdout.recv, far.sendall)
    with contextlib.suppress(OSError):
        far.shutdown(socket.SHUT_RDWR)


def _in(
    shell: RemoteShell, far: socket.socket, output: threading.Thread, kill: Callable[[int], None]
) -> None:
    """Pass on the program's input. Then wait for the program to end, and kill it after a few
    seconds."""
    with contextlib.suppress(*_GONE):
        send_all(shell.session.stdin, _received(far))
        shell.session.stdin.shutdown(socket.SHUT_WR)
    for number in (signal.SIGTERM, signal.SIGKILL):
        output.join(_END_S)
        if not output.is_alive():
            break
        kill(number)
    shell.close()
    output.join()
    far.close()


def _received(sock: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := sock.recv(_PIECE_BYTES):
            yield data
