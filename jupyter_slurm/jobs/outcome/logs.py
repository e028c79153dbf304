"""A job's output records and log after a cursor, merged into outputs.

The cursor contains the position in each file. A front end can therefore continue after a restart,
or from the position of another front end.
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
"""UTF-8 continuation bytes."""
_MOST_BYTES = 64 << 20
"""Maximum bytes to read in one call, so that the call returns within a second."""
_LONGEST_RECORD_BYTES = 16 << 20
"""The size limit of a record. It allows for a large picture, but limits memory use, because every
front end holds several copies of a record."""
_CUT_CHARACTERS = 1000
"""The number of characters to show from an overlong line."""
_MOST_SHOWN_BYTES = 8 << 20
"""Maximum bytes of unskippable records (displays) in one answer, in addition to the last record."""
_MOST_RECORDS = 20_000
"""Maximum number of records to parse at a time. A piece of the file exceeds this number only if it
contains empty lines."""
_MOST_RECORDS_A_CALL = 10 * _MOST_RECORDS


@dataclass(frozen=True, slots=True)
class Cursor:
    attempt: int = 0
    output: int = 0
    log: int = 0
    revision: int = 0
    """The job's revision at the time of the cursor. Later changes are returned at once."""
    cut: int = 0
    """Bytes skipped so far in an overlong line of the output file; 0 outside an overlong line."""

    def __str__(self) -> str:
        words = f"{self.attempt}:{self.output}:{self.log}:{self.revision}"
        return f"{words}:{self.cut}" if self.cut else words


def parse_cursor(text: str) -> Cursor:
    """Parse a log cursor. Raise RequestError if it is invalid."""
    if not text:
        return Cursor()
    if not _CURSOR.fullmatch(text):
        raise RequestError(f"{text[:100]!r} is not a log cursor.")
    return Cursor(*map(int, text.split(":")))


@dataclass(slots=True)
class Chunk:
    outputs: deque[Output]
    cursor: Cursor
    skipped_bytes: int = 0
    complete: bool = True
    """Set if the files had no more data."""


@dataclass(slots=True)
class _Piece:
    outputs: list[Output]
    cursor: Cursor
    """The position after the outputs."""
    size: int
    """Bytes read for the outputs."""
    shown_bytes: int
    """Bytes of unskippable outputs."""
    last: bool
    """Set if the attempt's files had no more data."""


class LogReader:
    """A reader of a job's output."""

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
        """Return the output after `cursor`. With a budget, older stream text is skipped and
        counted; without a budget, the call returns after about a megabyte. `attempts` is the number
        of attempts, including a running attempt. `log_time_s` is the time of the log's text after
        `cursor`, since the log does not contain times; 0 if unknown."""
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
        """Return the cursor for the last `budget_bytes` of the log, so that older text is not read
        at all. A job with records keeps its cursor, since records may include displays."""
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
        """Read the next part of both files in one round trip."""
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
        # If a path is not a file, report that only once, at the beginning.
        piece.cursor = replace(
            found.cursor,
            log=cursor.log + (taken or log in refused),
            output=found.cursor.output + (output in refused),
        )
        return piece

    def _read(
        self, spans: list[Span]
    ) -> tuple[dict[PurePosixPath, bytes | None], dict[PurePosixPath | None, Output]]:
        """Read the spans; also return a message for each path that is not a file."""
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
        """Parse the records in `data`, which was read at the cursor. If the first record exceeds
        `data`, read all of that record."""
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
            limit *= 4  # a record longer than a piece, e.g. a picture
            data = self._transport.read(path, cursor.output, limit) or b""

    def _output_path(self, attempt: int) -> PurePosixPath | None:
        if self._kind.is_raw_script:
            return _script_path(self._script_errors, attempt)
        return self._dir.output(attempt, self._rank) if self._kind.uses_runner else None

    def _log_path(self, attempt: int) -> PurePosixPath | None:
        if self._rank:  # tools' messages are shown with rank 0
            return None
        if self._kind.is_raw_script:
            return _script_path(self._script_log, attempt)
        return self._dir.log(attempt)


def _script_path(path: str | None, attempt: int) -> PurePosixPath | None:
    """Return the output file of a batch script; None if it does not have one. All attempts share
    the file, so return it only for the first attempt."""
    return None if not path or path == os.devnull or attempt else PurePosixPath(path)


def _errors(cursor: Cursor, data: bytes) -> _Piece:
    """Return the data as error output of a batch script with a separate error file."""
    text, taken = _text(data)
    outputs: list[Output] = [Stream(name="stderr", text=text)] if taken else []
    behind = replace(cursor, output=cursor.output + taken)
    return _Piece(outputs, behind, taken, 0, last=len(data) < _PIECE_BYTES)


def _merged(outputs: Iterable[Output]) -> Iterator[Output]:
    """Join records with the same stream and second, since a cell writes one record per line."""

    def stream(output: Output) -> tuple[Literal["stdout", "stderr"], int] | None:
        return (output.name, output.time_s) if isinstance(output, Stream) else None

    for key, some in groupby(outputs, stream):
        if key is None:
            yield from some
        else:
            text = "".join(output.text for output in some if isinstance(output, Stream))
            yield Stream(name=key[0], text=text, time_s=key[1])


def _text(data: bytes) -> tuple[str, int]:
    """Decode `data`. Return the text and the number of bytes used. A character that is cut at the
    end is read with the next piece."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return decoder.decode(data), len(data) - len(decoder.getstate()[0])


def _first_lines(data: bytes) -> bytes:
    """Return the first lines of `data`, at most `_MOST_RECORDS`."""
    if data.count(b"\n") <= _MOST_RECORDS:
        return data
    end = 0
    for _ in range(_MOST_RECORDS):
        end = data.index(b"\n", end) + 1
    return data[:end]


def _cut_line(cursor: Cursor, data: bytes) -> _Piece:
    """Return the beginning of an overlong line, and a cursor inside it."""
    beginning = data[: 4 * _CUT_CHARACTERS].decode(errors="replace")[:_CUT_CHARACTERS]
    longest = size(_LONGEST_RECORD_BYTES)
    text = f"{beginning}…\n[Line longer than {longest}; the rest is not shown.]\n"
    behind = replace(cursor, output=cursor.output + len(data), cut=len(data))
    return _Piece([Stream(name="stderr", text=text)], behind, len(data), 0, last=False)


def _rest_of_line(cursor: Cursor, data: bytes) -> _Piece:
    """Skip the rest of an overlong line. If the end of the line is in `data`, report the skipped
    size."""
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
    """Drop `surplus_bytes` of stream text from the front, up to the end of a character; return the
    number of dropped bytes."""
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
