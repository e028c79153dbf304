"""What a job has written, from a cursor on: its output records and its log, merged into outputs.

Reads files through a transport; keeps nothing. The cursor says how far each file has been read, so
any front end can go on where any other left off, after a restart of everything.
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.result import parse_records
from jupyter_slurm.transport import Transport
from jupyter_slurm.wire import JobKind, Output, Stream

_PIECE_BYTES = 1 << 20
_MOST_BYTES = 64 << 20
"""Read at most at one call, so that a front end that is far behind is answered within a second."""


@dataclass(frozen=True, slots=True)
class Cursor:
    attempt: int = 0
    output: int = 0
    log: int = 0
    revision: int = 0
    """Of the job, when the cursor was given out: a change since then is news."""

    def __str__(self) -> str:
        return f"{self.attempt}:{self.output}:{self.log}:{self.revision}"


def parse_cursor(text: str) -> Cursor:
    """RequestError: that is none of ours."""
    if not text:
        return Cursor()
    try:
        attempt, output, log, revision = (int(part) for part in text.split(":"))
    except ValueError as exc:
        raise RequestError(f"{text!r} is no cursor of a log.") from exc
    return Cursor(attempt, output, log, revision)


@dataclass(slots=True)
class Chunk:
    outputs: deque[Output]
    cursor: Cursor
    skipped_bytes: int = 0
    complete: bool = True
    """Nothing more was there to read when it was read."""


class LogReader:
    """`attempts`: how many there have been, the one that runs included."""

    def __init__(
        self, transport: Transport, job_dir: JobDir, kind: JobKind, script_log: str | None = None
    ) -> None:
        self._transport = transport
        self._dir = job_dir
        self._kind = kind
        self._script_log = script_log

    def read(self, cursor: Cursor, attempts: int, budget_bytes: int | None) -> Chunk:
        """What has come since `cursor`. With a budget, older stream text is skipped and counted;
        without one, the call ends after about a megabyte."""
        chunk = Chunk(deque(), cursor)
        text_bytes = 0
        read_bytes = 0
        while True:
            outputs, following, size = self._piece(chunk.cursor)
            if size == 0:
                if chunk.cursor.attempt + 1 >= attempts:
                    return chunk
                outputs, following = [_again(chunk.cursor)], Cursor(chunk.cursor.attempt + 1)
            chunk.cursor = following
            chunk.outputs.extend(outputs)
            text_bytes += sum(_text_bytes(output) for output in outputs)
            read_bytes += size
            if budget_bytes is not None and text_bytes > budget_bytes:
                dropped = _drop_oldest(chunk.outputs, text_bytes - budget_bytes)
                chunk.skipped_bytes += dropped
                text_bytes -= dropped
            if read_bytes >= (_PIECE_BYTES if budget_bytes is None else _MOST_BYTES):
                chunk.complete = False
                return chunk

    def _piece(self, cursor: Cursor) -> tuple[list[Output], Cursor, int]:
        """Outputs, the cursor behind them, and how many bytes they were read from."""
        log = self._log_path(cursor.attempt)
        if log is not None:
            text, size = self._text(log, cursor.log)
            if size:
                is_cell = self._kind is JobKind.CELL
                stream = Stream(name="stderr" if is_cell else "stdout", text=text)
                return [stream], replace(cursor, log=cursor.log + size), size
        if self._kind is not JobKind.CELL:
            return [], cursor, 0
        path = self._dir.output(cursor.attempt)
        outputs, consumed = self._records(path, cursor.output)
        return outputs, replace(cursor, output=cursor.output + consumed), consumed

    def _records(self, path: PurePosixPath, offset: int) -> tuple[list[Output], int]:
        limit = _PIECE_BYTES
        while True:
            data = self._transport.read(path, offset, limit)
            if not data:
                return [], 0
            outputs, consumed = parse_records(data)
            if consumed or len(data) < limit:
                return outputs, consumed
            limit *= 4  # one record longer than a piece: a picture, say

    def _text(self, path: PurePosixPath, offset: int) -> tuple[str, int]:
        data = self._transport.read(path, offset, _PIECE_BYTES)
        if not data:
            return "", 0
        # A character may be cut at the end of what is there; it is read with what follows it.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return decoder.decode(data), len(data) - len(decoder.getstate()[0])

    def _log_path(self, attempt: int) -> PurePosixPath | None:
        if self._kind is JobKind.SCRIPT:
            return PurePosixPath(self._script_log) if self._script_log and not attempt else None
        return self._dir.log(attempt)


def _again(cursor: Cursor) -> Stream:
    number = cursor.attempt + 2
    text = f"\n--- Slurm has put the job back into the queue; attempt {number} ---\n"
    return Stream(name="stderr", text=text)


def _text_bytes(output: Output) -> int:
    return len(output.text) if isinstance(output, Stream) else 0


def _drop_oldest(outputs: deque[Output], surplus: int) -> int:
    """Takes `surplus` characters of stream text from the front; gives back how many it took."""
    dropped = 0
    kept: deque[Output] = deque()
    while outputs and dropped < surplus:
        output = outputs.popleft()
        if not isinstance(output, Stream):
            kept.append(output)
            continue
        rest = output.text[surplus - dropped :]
        dropped += len(output.text) - len(rest)
        if rest:
            kept.append(Stream(name=output.name, text=rest))
    outputs.extendleft(reversed(kept))
    return dropped
