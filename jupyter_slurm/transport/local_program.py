"""A program of this machine and its streams, for as long as that takes. Starts none itself.

Its like over there is `shell/far_program.py`; what it is run with is for `local.py`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, BinaryIO, cast

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport import Completed

_STOP_LOOK_S = 0.1
_PIECE_BYTES = 1 << 20
_END_S = 5.0
"""What a program whose input has ended is given to end by itself."""


def feed(
    process: subprocess.Popen[bytes],
    source: Iterable[bytes | memoryview] | BinaryIO,
    stop: threading.Event | None,
) -> Completed:
    """Gives it `source` as its standard input, a pipe. What reading that raises is raised, the
    program having been killed; ConnectionLostError, likewise, for `stop`."""
    # Ours alone: `communicate` would close it.
    stdin, process.stdin = process.stdin, None
    feeding = _Feed(source, cast("IO[bytes]", stdin))
    try:
        completed = awaited(process, stop, feeding)
    finally:
        feeding.thread.join()
    if feeding.error is not None:
        raise feeding.error
    return completed


class _Feed:
    """A source on its way to a program, in a thread."""

    def __init__(self, source: Iterable[bytes | memoryview] | BinaryIO, stdin: IO[bytes]) -> None:
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
            pass  # it has ended without reading everything
        except Exception as exc:  # noqa: BLE001 (it is raised by whoever sends)
            self.error = exc


def _chunks(
    source: Iterable[bytes | memoryview] | BinaryIO,
) -> Iterator[bytes | memoryview]:
    if hasattr(source, "read"):
        return iter(lambda: source.read(_PIECE_BYTES), b"")
    return iter(source)


def awaited(
    process: subprocess.Popen[bytes], stop: threading.Event | None, feeding: _Feed | None = None
) -> Completed:
    """It has ended. ConnectionLostError: `stop` was set, and it was killed."""
    while True:
        try:
            stdout, stderr = process.communicate(timeout=_STOP_LOOK_S)
            return Completed(process.returncode, stdout or b"", stderr or b"")
        except subprocess.TimeoutExpired:
            if feeding is not None and feeding.error is not None:
                os.killpg(process.pid, signal.SIGKILL)
            elif stop is not None and stop.is_set():
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise ConnectionLostError("The transfer was stopped.") from None


class Conversation(socket.socket):
    """One end of a program's standard streams; when it is closed, the program ends."""

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
    """SIGTERM comes first: srun ends its step then, which on the node outlives a SIGKILL of it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return
        os.killpg(process.pid, number)
    process.wait()
