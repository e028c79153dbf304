"""A job's output records and log from a cursor on, merged into outputs.

The cursor has the position in each file, so any front end can continue after any other, and after a
restart.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from jupyter_slurm.errors import NotAFileError, RequestError
from jupyter_slurm.formatting import size
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.result import parse_records
from jupyter_slurm.slurm.fields import optional_int
from jupyter_slurm.transport import Span, TimedOutError, Transport
from jupyter_slurm.wire import JobSpec, Output, Stream

_CURSOR = re.compile(r"[0-9]{1,9}(:[0-9]{1,18}){3,4}")
_PIECE_BYTES = 1 << 20
_LONGEST_CHARACTER = 4
_CHARACTER_GOES_ON = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""
_MOST_BYTES = 64 << 20
"""The most to read in one call, so that it answers within a second."""
_LONGEST_RECORD_BYTES = 16 << 20
"""Enough for a large picture; every front end holds several copies of a record."""
_CUT_CHARACTERS = 1000
"""Shown of a line that is longer."""
_MOST_SHOWN_BYTES = 8 << 20
"""The most of records that no budget drops (displays), in one answer beside the last one."""
_MOST_RECORDS = 20_000
"""Read at a time: of true ones not even so many fit into a piece, of empty lines a million."""
_MOST_RECORDS_A_CALL = 10 * _MOST_RECORDS


@dataclass(frozen=True, slots=True)
class Cursor:
    attempt: int = 0
    output: int = 0
    log: int = 0
    revision: int = 0
    """The job's, when the cursor was given out: a change since then is news."""
    cut: int = 0
    """Bytes left out so far of the line in which `output` stands; 0: in none."""

    def __str__(self) -> str:
        words = f"{self.attempt}:{self.output}:{self.log}:{self.revision}"
        return f"{words}:{self.cut}" if self.cut else words


def parse_cursor(text: str) -> Cursor:
    """Parse the cursor of a log. RequestError: it is not one of ours."""
    if not text:
        return Cursor()
    if not _CURSOR.fullmatch(text):
        raise RequestError(f"{text[:100]!r} is not a cursor of a log.")
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
    shown_bytes: int
    """Those of them that no budget drops."""
    last: bool
    """Nothing more was there in this attempt's files."""


class LogReader:
    """`attempts`: how many there have been, the one that runs included."""

    def __init__(
        self,
        transport: Transport,
        job_dir: JobDir,
        kind: Kind[JobSpec],
        script_log: str | None = None,
        script_errors: str | None = None,
        rank: int = 0,
    ) -> None:
        self._transport = transport
        self._dir = job_dir
        self._kind = kind
        self._script_log = script_log
        self._script_errors = script_errors
        self._rank = rank

    def read(
        self, cursor: Cursor, attempts: int, budget_bytes: int | None, log_time_s: int = 0
    ) -> Chunk:
        """Return what has come since `cursor`. With a budget, older stream text is skipped and
        counted; without one, the call ends after about a megabyte. `log_time_s`: when the log
        had what follows `cursor`, since of a file alone that is not known; 0: not known."""
        chunk = Chunk(deque(), cursor)
        text_bytes = shown_bytes = records = 0
        read_bytes = 0
        is_end_near = False
        while True:
            piece = self._piece(chunk.cursor, log_time_s)
            outputs, chunk.cursor = piece.outputs, piece.cursor
            if piece.last and chunk.cursor.attempt + 1 < attempts:
                outputs.append(_again(chunk.cursor))
                chunk.cursor = Cursor(chunk.cursor.attempt + 1)
                piece.last = is_end_near = False
            chunk.outputs.extend(_merged(outputs))
            text_bytes += sum(_text_bytes(output) for output in outputs)
            read_bytes += piece.size
            shown_bytes += piece.shown_bytes
            records += len(outputs)
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
            is_much = shown_bytes > _MOST_SHOWN_BYTES or records > _MOST_RECORDS_A_CALL
            if is_much or read_bytes >= (_PIECE_BYTES if budget_bytes is None else _MOST_BYTES):
                chunk.complete = False
                return chunk

    def _end_of_log(self, cursor: Cursor, budget_bytes: int) -> Cursor:
        """Return the cursor where the last `budget_bytes` of the log begin, so that older text is
        not even read; unchanged where records come with it, for among these are displays."""
        path = self._log_path(cursor.attempt)
        if path is None or self._kind.uses_runner:
            return cursor
        try:
            counted = self._transport.run(["wc", "-c", str(path)]).stdout.split()
        except TimedOutError:
            return cursor
        size_bytes = optional_int(counted[0].decode("ascii", "replace")) if counted else None
        begin = 0 if size_bytes is None else size_bytes - budget_bytes
        if begin <= cursor.log:
            return cursor
        cut = self._transport.read(path, begin, _LONGEST_CHARACTER) or b""
        begin += len(cut) - len(cut.lstrip(_CHARACTER_GOES_ON))
        return replace(cursor, log=begin)

    def _piece(self, cursor: Cursor, log_time_s: int) -> _Piece:
        """Read what comes next in both files, in one round trip."""
        log, output = self._log_path(cursor.attempt), self._output_path(cursor.attempt)
        spans = [
            Span(path, offset, _PIECE_BYTES)
            for path, offset in ((log, cursor.log), (output, cursor.output))
            if path is not None
        ]
        read, refused = self._read(spans)
        log_data, data = (read.get(path) or b"" if path else b"" for path in (log, output))
        text, taken = _text(log_data)
        piece = _Piece(list(refused.values()), cursor, taken, 0, last=len(log_data) < _PIECE_BYTES)
        if taken:
            name: Literal["stdout", "stderr"] = "stderr" if self._kind.uses_runner else "stdout"
            piece.outputs.append(Stream(name=name, text=text, time_s=log_time_s))
        as_written = self._kind.is_raw_script
        found = _errors(cursor, data) if as_written else self._records(output, cursor, data)
        piece.outputs += found.outputs
        piece.size += found.size
        piece.shown_bytes = found.shown_bytes
        piece.last = piece.last and found.last
        # A path that is not a file is reported once: the cursor is behind its beginning then.
        piece.cursor = replace(
            found.cursor,
            log=cursor.log + (taken or log in refused),
            output=found.cursor.output + (output in refused),
        )
        return piece

    def _read(
        self, spans: list[Span]
    ) -> tuple[dict[PurePosixPath, bytes | None], dict[PurePosixPath | None, Output]]:
        """Read what is there; return also what to say of each path that is not a file."""
        try:
            found = self._transport.read_many(spans)
        except NotAFileError:
            found = []
        read = {span.path: data for span, data in zip(spans, found, strict=False)}
        refused: dict[PurePosixPath | None, Output] = {}
        for span in spans:
            if span.path not in read:
                try:
                    read[span.path] = self._transport.read(*span)
                except NotAFileError as exc:
                    if not span.offset:
                        refused[span.path] = Stream(name="stderr", text=f"[{exc.message}]\n")
        return read, refused

    def _records(self, path: PurePosixPath | None, cursor: Cursor, data: bytes) -> _Piece:
        """Return the records in `data`, read at the cursor, and the one that is longer."""
        if cursor.cut:
            return _rest_of_line(cursor, data)
        limit = _PIECE_BYTES
        while True:
            lines = _first_lines(data)
            outputs, consumed = parse_records(lines) if lines else ([], 0)
            whole = len(data) < limit
            if consumed or whole or path is None:
                last = whole and len(lines) == len(data)
                text_bytes = sum(map(_text_bytes, outputs))
                shown = any(not isinstance(output, Stream) for output in outputs)
                outputs = [one for one in outputs if not (isinstance(one, Stream) and not one.text)]
                behind = replace(cursor, output=cursor.output + consumed)
                return _Piece(outputs, behind, consumed, shown and consumed - text_bytes, last)
            if limit >= _LONGEST_RECORD_BYTES:
                return _cut_line(cursor, data)
            limit *= 4  # one record longer than a piece: a picture, say
            data = self._transport.read(path, cursor.output, limit) or b""

    def _output_path(self, attempt: int) -> PurePosixPath | None:
        if self._kind.is_raw_script:
            return _script_path(self._script_errors, attempt)
        return self._dir.output(attempt, self._rank) if self._kind.uses_runner else None

    def _log_path(self, attempt: int) -> PurePosixPath | None:
        if self._rank:  # what tools say is shown with rank 0
            return None
        if self._kind.is_raw_script:
            return _script_path(self._script_log, attempt)
        return self._dir.log(attempt)


def _script_path(path: str | None, attempt: int) -> PurePosixPath | None:
    """Return the file that a batch script writes, in all attempts. None: there is none to read."""
    return None if not path or path == os.devnull or attempt else PurePosixPath(path)


def _errors(cursor: Cursor, data: bytes) -> _Piece:
    """Return the error output of a batch script that has a file of its own."""
    text, taken = _text(data)
    outputs: list[Output] = [Stream(name="stderr", text=text)] if taken else []
    behind = replace(cursor, output=cursor.output + taken)
    return _Piece(outputs, behind, taken, 0, last=len(data) < _PIECE_BYTES)


def _merged(outputs: Iterable[Output]) -> Iterator[Output]:
    """Join the records of one stream and second: a cell writes one for each line."""

    def stream(output: Output) -> tuple[Literal["stdout", "stderr"], int] | None:
        return (output.name, output.time_s) if isinstance(output, Stream) else None

    for key, some in groupby(outputs, stream):
        if key is None:
            yield from some
        else:
            text = "".join(output.text for output in some if isinstance(output, Stream))
            yield Stream(name=key[0], text=text, time_s=key[1])


def _text(data: bytes) -> tuple[str, int]:
    """Decode `data`, and return how many bytes that took: a character cut off at the end is read
    with what follows it."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return decoder.decode(data), len(data) - len(decoder.getstate()[0])


def _first_lines(data: bytes) -> bytes:
    """Return as many lines as are read at a time."""
    if data.count(b"\n") <= _MOST_RECORDS:
        return data
    end = 0
    for _ in range(_MOST_RECORDS):
        end = data.index(b"\n", end) + 1
    return data[:end]


def _cut_line(cursor: Cursor, data: bytes) -> _Piece:
    """Return the beginning of a line that is too long, and the cursor in its midst."""
    beginning = data[: 4 * _CUT_CHARACTERS].decode(errors="replace")[:_CUT_CHARACTERS]
    longest = size(_LONGEST_RECORD_BYTES)
    text = f"{beginning}…\n[This line is longer than {longest}; the rest is not shown.]\n"
    behind = replace(cursor, output=cursor.output + len(data), cut=len(data))
    return _Piece([Stream(name="stderr", text=text)], behind, len(data), 0, last=False)


def _rest_of_line(cursor: Cursor, data: bytes) -> _Piece:
    """Skip to the end of such a line, if it is in `data`; then say how much was left out."""
    end = data.find(b"\n")
    if end < 0:
        last = len(data) < _PIECE_BYTES
        behind = replace(cursor, output=cursor.output + len(data), cut=cursor.cut + len(data))
        return _Piece([], behind, len(data), 0, last)
    text = f"[End of the line: {size(cursor.cut + end)} left out.]\n"
    behind = replace(cursor, output=cursor.output + end + 1, cut=0)
    return _Piece([Stream(name="stderr", text=text)], behind, end + 1, 0, last=False)


def _again(cursor: Cursor) -> Stream:
    number = cursor.attempt + 2
    text = f"\n--- Slurm requeued the job; attempt {number} ---\n"
    return Stream(name="stderr", text=text)


def _text_bytes(output: Output) -> int:
    if not isinstance(output, Stream):
        return 0
    return len(output.text) if output.text.isascii() else len(output.text.encode())


def _drop_oldest(outputs: deque[Output], surplus_bytes: int) -> int:
    """Take `surplus_bytes` of stream text from the front, and the rest of the character in which
    they end; return how many bytes were taken."""
    dropped = 0
    kept: deque[Output] = deque()
    while outputs and dropped < surplus_bytes:
        output = outputs.popleft()
        if not isinstance(output, Stream):
            kept.append(output)
            continue
        data = output.text.encode()
        rest = data[surplus_bytes - dropped :].lstrip(_CHARACTER_GOES_ON)
        dropped += len(data) - len(rest)
        if rest:
            kept.append(msgspec.structs.replace(output, text=rest.decode()))
    outputs.extendleft(reversed(kept))
    return dropped
