"""What a job has written, from a cursor on: its output records and its log, merged into outputs.

Reads files through a transport; keeps nothing. The cursor says how far each file has been read, so
any front end can go on where any other left off, after a restart of everything.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.result import parse_records
from jupyter_slurm.transport import Span, Transport
from jupyter_slurm.wire import JobKind, Output, Stream

_CURSOR = re.compile(r"[0-9]{1,9}(:[0-9]{1,18}){3}")
_PIECE_BYTES = 1 << 20
_WITH_RECORDS = (JobKind.CELL, JobKind.SESSION)
_LONGEST_CHARACTER = 4
_CHARACTER_GOES_ON = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""
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
    if not _CURSOR.fullmatch(text):
        raise RequestError(f"{text[:100]!r} is no cursor of a log.")
    return Cursor(*map(int, text.split(":")))


@dataclass(slots=True)
class Chunk:
    outputs: deque[Output]
    cursor: Cursor
    skipped_bytes: int = 0
    complete: bool = True
    """Nothing more was there to read when it was read."""


@dataclass(slots=True)
class _Piece:
    outputs: list[Output]
    cursor: Cursor
    """Behind them."""
    size: int
    """Bytes they were read from."""
    last: bool
    """Nothing more was there in this attempt's files."""


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
        is_end_near = False
        while True:
            piece = self._piece(chunk.cursor)
            outputs, chunk.cursor = piece.outputs, piece.cursor
            if piece.last and chunk.cursor.attempt + 1 < attempts:
                outputs.append(_again(chunk.cursor))
                chunk.cursor = Cursor(chunk.cursor.attempt + 1)
                piece.last = is_end_near = False
            chunk.outputs.extend(outputs)
            text_bytes += sum(_text_bytes(output) for output in outputs)
            read_bytes += piece.size
            if budget_bytes is not None and text_bytes > budget_bytes:
                dropped = _drop_oldest(chunk.outputs, text_bytes - budget_bytes)
                chunk.skipped_bytes += dropped
                text_bytes -= dropped
            if piece.last:
                return chunk
            if budget_bytes is not None and not is_end_near:
                is_end_near = True
                begin = self._end_of_log(chunk.cursor, budget_bytes)
                if begin.log > chunk.cursor.log:
                    chunk.skipped_bytes += _drop_oldest(chunk.outputs, text_bytes)
                    chunk.skipped_bytes += begin.log - chunk.cursor.log
                    chunk.cursor, text_bytes = begin, 0
            if read_bytes >= (_PIECE_BYTES if budget_bytes is None else _MOST_BYTES):
                chunk.complete = False
                return chunk

    def _end_of_log(self, cursor: Cursor, budget_bytes: int) -> Cursor:
        """Where its last `budget_bytes` begin, so that what is older is not even read; not so where
        records come with it, for among these are displays."""
        path = self._log_path(cursor.attempt)
        if path is None or self._kind in _WITH_RECORDS:
            return cursor
        counted = self._transport.run(["wc", "-c", str(path)]).stdout.split()
        begin = int(counted[0]) - budget_bytes if counted and counted[0].isdigit() else 0
        if begin <= cursor.log:
            return cursor
        cut = self._transport.read(path, begin, _LONGEST_CHARACTER) or b""
        begin += len(cut) - len(cut.lstrip(_CHARACTER_GOES_ON))
        return replace(cursor, log=begin)

    def _piece(self, cursor: Cursor) -> _Piece:
        """What comes next in both files, read in one round trip."""
        log, output = self._log_path(cursor.attempt), self._output_path(cursor.attempt)
        spans = [
            Span(path, offset, _PIECE_BYTES)
            for path, offset in ((log, cursor.log), (output, cursor.output))
            if path is not None
        ]
        found = self._transport.read_many(spans)
        read = {span.path: data for span, data in zip(spans, found, strict=True)}
        log_data, data = (read.get(path) or b"" if path else b"" for path in (log, output))
        text, taken = _text(log_data)
        piece = _Piece([], cursor, taken, last=len(log_data) < _PIECE_BYTES)
        if taken:
            of_tools = self._kind in _WITH_RECORDS
            piece.outputs.append(Stream(name="stderr" if of_tools else "stdout", text=text))
        records, consumed, whole = self._records(output, cursor.output, data)
        piece.outputs += records
        piece.size += consumed
        piece.last = piece.last and whole
        piece.cursor = replace(cursor, log=cursor.log + taken, output=cursor.output + consumed)
        return piece

    def _records(
        self, path: PurePosixPath | None, offset: int, data: bytes
    ) -> tuple[list[Output], int, bool]:
        """The records in `data`, their length, and whether nothing more was there."""
        limit = _PIECE_BYTES
        while True:
            outputs, consumed = parse_records(data) if data else ([], 0)
            whole = len(data) < limit
            if consumed or whole or path is None:
                return outputs, consumed, whole
            limit *= 4  # one record longer than a piece: a picture, say
            data = self._transport.read(path, offset, limit) or b""

    def _output_path(self, attempt: int) -> PurePosixPath | None:
        return self._dir.output(attempt) if self._kind in _WITH_RECORDS else None

    def _log_path(self, attempt: int) -> PurePosixPath | None:
        if self._kind is JobKind.SCRIPT:
            return PurePosixPath(self._script_log) if self._script_log and not attempt else None
        return self._dir.log(attempt)


def _text(data: bytes) -> tuple[str, int]:
    """As text, and how many bytes that took: a character may be cut at the end of what is there;
    it is read with what follows it."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return decoder.decode(data), len(data) - len(decoder.getstate()[0])


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
