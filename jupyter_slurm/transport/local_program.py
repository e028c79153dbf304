"""Streams of a running local program, which `local.py` starts."""

from __future__ import annotations

import math
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, cast

from jupyter_slurm.transport import Completed, FilePart, Source, TimedOutError, check_stop, limits

_STOP_LOOK_S = 0.1
_PIECE_BYTES = 1 << 20
_LONG_S = 3600.0
_PIPE_BYTES = 1 << 16
"""The capacity of a pipe, in bytes."""
_END_S = 5.0
"""Seconds that a program may take to exit once its input is closed."""


def gather(
    process: subprocess.Popen[bytes],
    program: str,
    stdin: bytes = b"",
    *,
    timeout_s: float = math.inf,
    most_bytes: int = limits.OUTPUT_BYTES,
    look: Callable[[], None] | None = None,
) -> Completed:
    """Write `stdin` to the process and collect its output until it ends. Call `look` regularly.
    Raises TimedOutError or TooMuchError. Any exception, even from `look`, kills the program.
    """
    with process, selectors.DefaultSelector() as selector:
        pipes = _Pipes(process, program, memoryview(stdin), most_bytes, selector)
        try:
            pipes.gather(timeout_s, look)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Completed(process.wait(), bytes(pipes.out), bytes(pipes.err))


class _Pipes:
    """The pipes to and from a running program."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        program: str,
        stdin: memoryview,
        most_bytes: int,
        selector: selectors.BaseSelector,
    ) -> None:
        self.out, self.err = bytearray(), bytearray()
        self._program = program
        self._stdin = stdin
        self._most_bytes = most_bytes
        self._selector = selector
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, self._give)
        if process.stdout is not None:
            selector.register(process.stdout, selectors.EVENT_READ, self._take_out)
        if process.stderr is not None:
            selector.register(process.stderr, selectors.EVENT_READ, self._take_err)

    def gather(self, timeout_s: float, look: Callable[[], None] | None) -> None:
        deadline_s = time.monotonic() + timeout_s
        while self._selector.get_map():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimedOutError(f"`{self._program}` did not end within {timeout_s:g} s")
            for key, _ in self._selector.select(min(left_s, _STOP_LOOK_S if look else _LONG_S)):
                key.data(key.fileobj)
            if look is not None:
                look()

    def _give(self, pipe: IO[bytes]) -> None:
        try:
            self._stdin = self._stdin[os.write(pipe.fileno(), self._stdin[:_PIPE_BYTES]) :]
        except BrokenPipeError:  # it does not read all its input
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._selector.unregister(pipe)
            pipe.close()

    def _take_out(self, pipe: IO[bytes]) -> None:
        self._take(pipe, self.out)
        if len(self.out) > self._most_bytes:
            raise limits.too_much_output(self._program, "standard output", self._most_bytes)

    def _take_err(self, pipe: IO[bytes]) -> None:
        self._take(pipe, self.err)
        if len(self.err) > limits.ERRORS_BYTES:
            raise limits.too_much_output(self._program, "standard error", limits.ERRORS_BYTES)

    def _take(self, pipe: IO[bytes], buffer: bytearray) -> None:
        data = os.read(pipe.fileno(), _PIPE_BYTES)
        buffer += data
        if not data:
            self._selector.unregister(pipe)


def feed(
    process: subprocess.Popen[bytes],
    program: str,
    source: Source,
    stop: threading.Event | None,
) -> Completed:
    """Write `source` to the standard input of the process, a pipe, and collect its output as
    `gather` does. An error while reading `source` kills the program, and so does `stop`
    (ConnectionLostError)."""
    # Do not pass standard input to `gather`, which would close it.
    stdin, process.stdin = process.stdin, None
    feeding = _StdinWriter(source, cast("IO[bytes]", stdin))

    def look() -> None:
        if feeding.error is not None:
            raise feeding.error
        check_stop(stop)

    try:
        completed = gather(process, program, look=look)
    finally:
        feeding.thread.join()
    if feeding.error is not None:
        raise feeding.error
    return completed


class _StdinWriter:
    """A thread that writes a source to a program's standard input."""

    def __init__(self, source: Source, stdin: IO[bytes]) -> None:
        self.error: Exception | None = None
        self._source = source
        self._stdin = stdin
        self.thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            with self._stdin as stdin:
                for chunk in _chunks(self._source):
                    stdin.write(chunk)
        except BrokenPipeError:
            pass  # it ended before reading all its input
        except Exception as exc:  # noqa: BLE001 (it is raised by the sender)
            self.error = exc


def _chunks(source: Source) -> Iterator[bytes | memoryview]:
    if hasattr(source, "read"):
        yield from iter(lambda: source.read(_PIECE_BYTES), b"")
        return
    for chunk in source:
        if isinstance(chunk, FilePart):
            yield os.pread(chunk.file.fileno(), chunk.size_bytes, chunk.offset)
        else:
            yield chunk


class ProgramSocket(socket.socket):
    """One end of a program's standard streams; closing it ends the program."""

    def __init__(self, process: subprocess.Popen[bytes], near: socket.socket) -> None:
        super().__init__(fileno=near.detach())
        self._process: subprocess.Popen[bytes] | None = process

    def close(self) -> None:
        super().close()
        process, self._process = self._process, None
        if process is not None:
            name = f"end of {process.pid}"
            threading.Thread(target=_see_off, args=[process], name=name, daemon=True).start()


def _see_off(process: subprocess.Popen[bytes]) -> None:
    """Wait for the program to end. After a timeout, end it with SIGTERM first, so that srun ends
    its step. If srun got SIGKILL, the step would continue."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return
        os.killpg(process.pid, number)
    process.wait()
