"""One program with a channel of its own, for as long as that takes: its streams to and from here.

Each function takes a shell that was opened for it and leaves it at its end. What is asked of a
shell that stays is in `helper.py`.
"""

from __future__ import annotations

import contextlib
import math
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport import Completed, limits
from jupyter_slurm.transport.shell.far_shell import (
    FarShell,
    FloodError,
    ShellAnswer,
    ShellGoneError,
    send_all,
)
from jupyter_slurm.transport.shell.helper import completed
from jupyter_slurm.transport.shell.words import quote, words

_PIECE_BYTES = 1 << 18
_STOP_LOOK_S = 0.1
_END_S = 5.0
"""Seconds that a program whose input has ended is given to end by itself."""

_GONE = (OSError, ConnectionLostError)


def send(
    shell: FarShell,
    argv: Sequence[str],
    source: Iterable[bytes | memoryview] | BinaryIO,
    stop: threading.Event | None,
) -> Completed:
    """Run a program with `source` as its standard input, whose end is the end of the channel's.
    What reading it raises is raised; ShellGoneError: it broke, or `stop` was set."""
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
    shell: FarShell,
    argv: Sequence[str],
    sink: BinaryIO,
    most_bytes: int,
    stop: threading.Event | None,
) -> Completed:
    """Run a program whose standard output goes to `sink`, a real file. ConnectionLostError,
    ShellGoneError; TooMuchError: it is more than `most_bytes`; OSError: `sink` cannot be
    written."""
    # The mark goes to one stream only, and the shell lets go of both, so that they end with the
    # program. Meanwhile it reads on, and takes the program with it when its own input ends.
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
        # The program has ended, and has said how. Standard error ends with the shell.
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


def open_stream(shell: FarShell, argv: Sequence[str], kill: Callable[[int], None]) -> socket.socket:
    """Return a socket whose other end are the program's standard input and output. `kill` is called
    with signals for what does not end after its input. ShellGoneError."""
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
    """Write what comes to `sink`, and go no further where that is more than `most_bytes`. Return
    how many bytes. ConnectionLostError: `stop` was set; OSError: `sink` cannot be written."""
    buffer = memoryview(bytearray(_PIECE_BYTES))
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    total = 0
    while total <= most_bytes:
        if stop is not None and stop.is_set():
            raise ConnectionLostError("The transfer was stopped.")
        if not poll.poll(1000 * _STOP_LOOK_S):
            continue
        try:
            n = sock.recv_into(buffer)
        except OSError:  # closed in another thread
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


def _out(shell: FarShell, far: socket.socket) -> None:
    """Pass on what the program says, until it ends; then end the socket in both directions."""
    _listen(shell.session.stdout.recv, far.sendall)
    with contextlib.suppress(OSError):
        far.shutdown(socket.SHUT_RDWR)


def _in(
    shell: FarShell, far: socket.socket, output: threading.Thread, kill: Callable[[int], None]
) -> None:
    """Pass on what the program is told; when that ends, give it some seconds."""
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
