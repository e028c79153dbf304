"""Parsers for a job's files, with valid and hostile input."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import SignatureError
from jupyter_slurm.jobs.outcome.result import (
    ExitFile,
    RunnerVariables,
    StartedFile,
    exit_of,
    parse_exit,
    parse_records,
    parse_result,
    parse_started,
)
from jupyter_slurm.wire import (
    ClearOutput,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Hello,
    Stream,
    UpdateDisplayData,
)
from tests.jobs.records.test_registry import record

KEY = b"5b" * 32
RESULT: dict[str, Any] = {
    "status": "error",
    "ename": "E",
    "evalue": "why: \ud800",
    "traceback": ["line"],
    "interrupted_by": "SIGTERM",
    "exit_code": 1,
    "signal": None,
    "variables": {"file": "vars.0", "bytes": 9, "hmac": "ab", "names": ["x"], "failed": {}},
    "started_s": 1.5,
    "ended_s": 2.5,
    "peak_rss_mib": 3.0,
    "cpu_s": 0.1,
    "python": [3, 11, 2],
}


def signed(result: object, key: bytes = KEY) -> bytes:
    body = json.dumps(result).encode() + b"\n"
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode() + b"\n" + body


def test_signed_result_is_read() -> None:
    result = parse_result(signed(RESULT), KEY + b"\n")
    assert (result.status, result.exit_code, result.evalue) == ("error", 1, r"why: \ud800")
    assert result.traceback == ("line",)
    assert result.variables == RunnerVariables(
        file="vars.0", bytes=9, hmac="ab", names=("x",), failed={}
    )
    assert result.python == (3, 11, 2)


@pytest.mark.parametrize(
    "data",
    [
        signed(RESULT, b"another key"),
        signed(RESULT).replace(b'"exit_code": 1', b'"exit_code": 0'),
        b"\n" + signed(RESULT).partition(b"\n")[2],
        "é\n{}\n".encode(),
    ],
)
def test_result_signed_with_another_key_is_rejected(data: bytes) -> None:
    with pytest.raises(SignatureError):
        parse_result(data, KEY)


@given(st.integers(min_value=0, max_value=len(signed(RESULT)) - 1))
def test_truncated_result_raises_a_value_error(size: int) -> None:
    with pytest.raises(ValueError, match="incomplete"):
        parse_result(signed(RESULT)[:size], KEY)


def test_exit_and_started_files_are_read() -> None:
    exit_file = b'{"exit_code": 143, "signal": "TERM", "time_s": 1700000000}\n'
    assert parse_exit(exit_file) == ExitFile(exit_code=143, signal="TERM", time_s=1.7e9)
    quiet = b'{"exit_code": 0, "signal": "", "time_s": 1700000000}\n'
    assert parse_exit(quiet) == ExitFile(exit_code=0, signal=None, time_s=1.7e9)
    started = b'{"slurm_id": "12", "node": "gpu1", "time_s": 1700000000}\n'
    assert parse_started(started) == StartedFile(slurm_id="12", node="gpu1", time_s=1.7e9)


@pytest.mark.parametrize(
    ("result", "exit_code"),
    [
        ({}, 0),
        ({"interrupted_by": "SIGUSR1"}, 0),  # the cell caught it
        ({"status": "error", "exit_code": 3}, 3),
        ({"status": "error", "exit_code": 1, "interrupted_by": "SIGTERM"}, None),
        ({"status": "interrupted", "exit_code": 130, "interrupted_by": "SIGINT"}, None),
        ({"status": "killed", "exit_code": 137, "signal": 9}, None),
    ],
)
def test_result_without_a_signal_has_the_exit_code(
    result: dict[str, Any], exit_code: int | None
) -> None:
    well = {"status": "ok", "exit_code": 0, "interrupted_by": None}
    found = exit_of(parse_result(signed(RESULT | well | result), KEY))
    assert (None if found is None else found.exit_code) == exit_code


def test_start_file_supplies_details_of_an_unlisted_job() -> None:
    started = StartedFile(slurm_id="12", node="n1", partition="gpu", user="ana", time_s=1.7e9)
    unlisted = record("aaaaaaaa").job
    assert started.known(unlisted) == {"nodes": ("n1",), "partition": "gpu", "user": "ana"}
    listed = record("aaaaaaaa", nodes=("n2",), partition="long", user="eva").job
    assert started.known(listed) == {"nodes": ("n2",), "partition": "long", "user": "eva"}


@given(st.binary())
def test_invalid_exit_and_started_files_are_ignored(data: bytes) -> None:
    assert parse_exit(data) is None
    assert parse_started(data) is None


RECORDS = [
    ({"type": "hello", "python": [3, 9, 1]}, Hello(python=(3, 9, 1))),
    (
        {"type": "stream", "name": "stdout", "text": "a\0\u2028\r"},
        Stream(name="stdout", text="a\0\u2028\r"),
    ),
    ({"type": "stream", "name": "stderr", "text": "\udc80"}, Stream(name="stderr", text=r"\udc80")),
    (
        {"type": "stream", "name": "stderr", "text": "\udc80", "time_s": 1_700_000_000},
        Stream(name="stderr", text=r"\udc80", time_s=1_700_000_000),
    ),
    (
        {"type": "display_data", "data": {"a/b": {"x": [1]}}, "metadata": {}, "display_id": None},
        DisplayData(data={"a/b": {"x": [1]}}),
    ),
    (
        {"type": "update_display_data", "data": {}, "metadata": {}, "display_id": "i"},
        UpdateDisplayData(data={}, display_id="i"),
    ),
    (
        {"type": "execute_result", "data": {}, "metadata": {"m": 1}},
        ExecuteResult(data={}, metadata={"m": 1}),
    ),
    ({"type": "clear_output", "wait": True}, ClearOutput(wait=True)),
    (
        {"type": "error", "ename": "E", "evalue": "", "traceback": ["l"]},
        ErrorOutput(ename="E", evalue="", traceback=("l",)),
    ),
]


def test_every_kind_of_record_is_read() -> None:
    data = b"".join(json.dumps(record).encode() + b"\n" for record, _ in RECORDS)
    assert parse_records(data) == ([output for _, output in RECORDS], len(data))


@pytest.mark.parametrize(
    "line", [b"slurmstepd: error", b"", b'{"type": "new"}', b"[" * 100_000, b"\xff\xfe", b'{"a":']
)
def test_invalid_record_is_shown_as_text(line: bytes) -> None:
    outputs, consumed = parse_records(line + b"\n")
    assert outputs == [Stream(name="stderr", text=line.decode("utf-8", "replace") + "\n")]
    assert consumed == len(line) + 1


@given(st.binary(), st.integers(0, 50))
def test_split_records_parse_like_whole_records(data: bytes, cut: int) -> None:
    outputs, consumed = parse_records(data)
    assert len(outputs) == data.count(b"\n")
    first, read = parse_records(data[:cut])
    second, rest = parse_records(data[read:])
    assert (first + second, read + rest) == (outputs, consumed)
