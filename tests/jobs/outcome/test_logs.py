"""A job's output, read from a cursor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.kinds import KINDS
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.logs import Cursor, LogReader, parse_cursor
from jupyter_slurm.transport import Span
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import DisplayData, JobKind, Stream


def stream(text: str, name: str = "stdout", time_s: int = 0) -> str:
    record = {"type": "stream", "name": name, "text": text, "time_s": time_s}
    return json.dumps(record) + "\n"


@pytest.fixture
def reader(tmp_path: Path) -> LogReader:
    return LogReader(LocalTransport(), JobDir(PurePosixPath(tmp_path)), KINDS[JobKind.CELL])


def test_incomplete_record_is_read_later(reader: LogReader, tmp_path: Path) -> None:
    line = stream("one")
    output = tmp_path / "output.0.jsonl"
    output.write_text(line + line[:9])
    first = reader.read(Cursor(), 1, None)
    output.write_text(line + line)
    second = reader.read(first.cursor, 1, None)
    assert [len(first.outputs), len(second.outputs)] == [1, 1]


def test_lines_from_the_same_second_are_joined_and_keep_their_time(
    reader: LogReader, tmp_path: Path
) -> None:
    lines = [stream(f"{number:04d}\n", time_s=7 + number // 1000) for number in range(3000)]
    (tmp_path / "output.0.jsonl").write_text("".join(lines))
    whole = [one for one in reader.read(Cursor(), 1, None).outputs if isinstance(one, Stream)]
    assert [(one.time_s, len(one.text)) for one in whole] == [(7, 5000), (8, 5000), (9, 5000)]
    part = [one for one in reader.read(Cursor(), 1, 6000).outputs if isinstance(one, Stream)]
    assert [(one.time_s, len(one.text)) for one in part] == [(8, 1000), (9, 5000)]


def test_split_character_is_read_later(reader: LogReader, tmp_path: Path) -> None:
    log = tmp_path / "log.0"
    log.write_bytes("aü".encode()[:2])
    first = reader.read(Cursor(), 1, None)
    log.write_bytes("aüb".encode())
    second = reader.read(first.cursor, 1, None)
    texts = [o.text for chunk in (first, second) for o in chunk.outputs if isinstance(o, Stream)]
    assert texts == ["a", "üb"]


def test_record_larger_than_a_chunk_is_read(reader: LogReader, tmp_path: Path) -> None:
    picture = {"type": "display_data", "data": {"image/png": "x" * 5_000_000}, "metadata": {}}
    (tmp_path / "output.0.jsonl").write_text(json.dumps(picture) + "\n" + stream("after"))
    chunk = reader.read(Cursor(), 1, 10)
    assert [type(o) for o in chunk.outputs] == [DisplayData, Stream]


def test_budget_keeps_the_newest_text_and_all_displays(reader: LogReader, tmp_path: Path) -> None:
    display = json.dumps({"type": "display_data", "data": {"text/plain": "d"}}) + "\n"
    lines = "".join(f"{i}\n" for i in range(10_000))
    (tmp_path / "output.0.jsonl").write_text(stream("old" * 100) + display + stream(lines))
    chunk = reader.read(Cursor(), 1, 50)
    assert isinstance(chunk.outputs[0], DisplayData)
    kept = "".join(o.text for o in chunk.outputs if isinstance(o, Stream))
    assert kept == lines[-50:]
    assert chunk.skipped_bytes == 300 + len(lines) - 50


def test_budget_counts_bytes_and_cuts_between_characters(reader: LogReader, tmp_path: Path) -> None:
    character = "語"
    text = "x" + character * 1000
    (tmp_path / "output.0.jsonl").write_text(stream("old") + stream(text) + stream("z"))
    width = len(character.encode())
    chunk = reader.read(Cursor(), 1, 50)
    kept = "".join(o.text for o in chunk.outputs if isinstance(o, Stream))
    assert kept == character * (49 // width) + "z"
    assert chunk.skipped_bytes == 3 + 1 + width * (1000 - 49 // width)


def test_pages_without_a_budget_are_complete(reader: LogReader, tmp_path: Path) -> None:
    texts = [f"{i:07d}" * 1000 for i in range(1000)]
    (tmp_path / "output.0.jsonl").write_text("".join(map(stream, texts)))
    cursor, found, pages = Cursor(), "", 0
    while True:
        chunk = reader.read(cursor, 1, None)
        found += "".join(o.text for o in chunk.outputs if isinstance(o, Stream))
        cursor, pages = chunk.cursor, pages + 1
        if chunk.complete:
            break
    assert found == "".join(texts)
    assert pages > 2


def test_second_attempt_follows_the_first_after_a_heading(
    reader: LogReader, tmp_path: Path
) -> None:
    (tmp_path / "output.0.jsonl").write_text(stream("first"))
    (tmp_path / "output.1.jsonl").write_text(stream("second"))
    texts = [o.text for o in reader.read(Cursor(), 2, 1000).outputs if isinstance(o, Stream)]
    assert (texts[0], texts[2]) == ("first", "second")
    assert "attempt 2" in texts[1]


def test_log_of_a_program_is_its_stdout(tmp_path: Path) -> None:
    (tmp_path / "log.0").write_text("out")
    folder = JobDir(PurePosixPath(tmp_path))
    reader = LogReader(LocalTransport(), folder, KINDS[JobKind.PROGRAM])
    assert list(reader.read(Cursor(), 1, 100).outputs) == [Stream(name="stdout", text="out")]
    [timed] = reader.read(Cursor(), 1, 100, 12).outputs
    assert timed == Stream(name="stdout", text="out", time_s=12)


class CountedTransport(LocalTransport):
    """Transport that counts the bytes read."""

    read_bytes = 0

    def read_many(self, spans: Sequence[Span]) -> list[bytes | None]:
        found = super().read_many(spans)
        self.read_bytes += sum(len(data or b"") for data in found)
        return found


def test_long_log_is_read_only_at_its_end(tmp_path: Path) -> None:
    text = "".join(f"{i:08d} {'ü' * 91}\n" for i in range(200_000))
    (tmp_path / "log.0").write_text(text)
    transport = CountedTransport()
    reader = LogReader(transport, JobDir(PurePosixPath(tmp_path)), KINDS[JobKind.PROGRAM])
    chunk = reader.read(Cursor(), 1, 300_001)
    kept = "".join(o.text for o in chunk.outputs if isinstance(o, Stream))
    size = len(text.encode())
    assert text.endswith(kept)
    assert 299_997 <= len(kept.encode()) <= 300_001
    assert chunk.skipped_bytes + len(kept) == pytest.approx(size, abs=2**20)
    assert (chunk.complete, chunk.cursor.log) == (True, size)
    assert transport.read_bytes < 4_000_000


@pytest.mark.parametrize("text", ["x", "1:2", "a:b:c:d", "-1:0:0:0"])
def test_foreign_cursor_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="not a log cursor"):
        parse_cursor(text)
