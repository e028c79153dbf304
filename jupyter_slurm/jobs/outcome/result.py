"""Parsers for a job's files. PURE.

A result counts only with a valid signature; a line that is not a record is shown as text.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal, cast

import msgspec

from jupyter_slurm.errors import MalformedError, SignatureError
from jupyter_slurm.formatting import brief, visible
from jupyter_slurm.slurm.units import NODE_NAME
from jupyter_slurm.untrusted_json import Moment, check_json, read_json
from jupyter_slurm.wire import Output, Stream

_RECORD: msgspec.json.Decoder[Output] = msgspec.json.Decoder(Output)
_MOST_FACT_BYTES = 65_536
"""The most bytes of a file of three facts."""

_Code = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_SlurmId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9_+]{0,32}\Z")]
_Node = Annotated[str, msgspec.Meta(pattern=rf"\A{NODE_NAME}\Z")]


class RunnerVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The variables out of a cell."""

    file: str | None
    """Its name in the job's folder; None: it could not be written."""
    bytes: int
    hmac: str | None
    """The HMAC-SHA256 of the file with the job's key, in hexadecimal."""
    names: tuple[str, ...]
    failed: dict[str, str]
    """Those that could not be written, and why."""


class RunnerResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a cell, as its runner wrote and signed it."""

    status: Literal["ok", "error", "killed", "interrupted"]
    exit_code: _Code
    ename: str | None = None
    evalue: str | None = None
    traceback: tuple[str, ...] = ()
    signal: int | None = None
    """The signal that ended the cell's process, if one did."""
    interrupted_by: str | None = None
    """The signal that became a KeyboardInterrupt, `SIGTERM` …, whatever the cell made of it."""
    variables: RunnerVariables | None = None
    started_s: Moment
    ended_s: Moment
    peak_rss_mib: float
    cpu_s: float
    ranks: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """Number of ranks; 0: the code ran once."""
    failed_ranks: str | None = None
    """Those that failed in this way, `0-3,7`."""
    gathered: tuple[RunnerVariables, ...] = ()
    """The variables of each rank that `--gather` names."""
    lost_output_bytes: int = 0
    """Output that could not be written, since the disk was full."""
    python: tuple[int, int, int]


class ExitFile(msgspec.Struct, frozen=True, kw_only=True):
    """The script's last word."""

    exit_code: _Code
    signal: str | None = None
    """The signal that the script had caught, `TERM` …"""
    time_s: Moment


class StartedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The script's first word."""

    slurm_id: _SlurmId
    node: _Node
    """Tunnels lead there: it is the name of a host and nothing else."""
    time_s: Moment


def parse_result(data: bytes, key: bytes) -> RunnerResult:
    """Return the result in a `result.N.json`.

    Raises SignatureError when it was not signed with `key`, MalformedError when it is not whole.
    """
    signature, newline, body = data.partition(b"\n")
    if not newline or not body.endswith(b"\n"):
        raise MalformedError("The result in the job's folder is incomplete.")
    expected = hmac.new(key.strip(), body, hashlib.sha256).hexdigest().encode("ascii")
    if not hmac.compare_digest(signature, expected):
        raise SignatureError(
            "The result in the job's folder is not signed with the job's key, so it was not read.",
            hint="Check who can write to that folder; the job's output is still there.",
        )
    try:
        check_json(body)
        return msgspec.convert(_valid(json.loads(body)), RunnerResult)
    except (ValueError, RecursionError) as exc:
        said = brief(visible(str(exc)))
        raise MalformedError("The result in the job's folder is incomplete.", detail=said) from exc


def check_asked(names: Iterable[str], asked: Collection[str]) -> None:
    """Raise SignatureError where a result holds variables that the user did not ask for. They would
    replace those of the same names here."""
    unasked = sorted({name for name in names if name not in asked})
    if unasked:
        told = brief(", ".join(one if one.isidentifier() else repr(one) for one in unasked))
        raise SignatureError(
            f"The result has variables that --out does not name ({told}), so it was not read.",
            hint="Check who can read the job's folder: another program wrote this with its key.",
        )


def parse_exit(data: bytes) -> ExitFile | None:
    """Return the exit file; None where the bytes are not a whole one."""
    try:
        found = read_json(data, ExitFile, _MOST_FACT_BYTES)
    except MalformedError:
        return None
    return found if found.signal else msgspec.structs.replace(found, signal=None)


def parse_started(data: bytes) -> StartedFile | None:
    """Return the started file; None where the bytes are not a whole one."""
    try:
        return read_json(data, StartedFile, _MOST_FACT_BYTES)
    except MalformedError:
        return None


def parse_records(data: bytes) -> tuple[list[Output], int]:
    """Return the records of the whole lines in `data`, and how many bytes these are.

    A line that is not a record becomes one of stderr with the line's text: nothing is lost, and
    nothing that a job writes can raise here.
    """
    whole = data[: data.rfind(b"\n") + 1]
    return [_record(line) for line in whole.split(b"\n")[:-1]], len(whole)


def _record(line: bytes) -> Output:
    try:
        check_json(line)
        return _RECORD.decode(line)
    except MalformedError:
        return Stream(name="stderr", text=line.decode("utf-8", "replace") + "\n")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # msgspec takes no lone surrogate (a file name that is not UTF-8, printed); json does.
        return cast("Output", msgspec.convert(_valid(json.loads(line)), Output))
    except (ValueError, RecursionError):  # of json, of UTF-8, of msgspec
        return Stream(name="stderr", text=line.decode("utf-8", "replace") + "\n")


def _valid(value: Any) -> Any:
    """Return a value of JSON with each lone surrogate as the six characters `\\udce9`: neither a
    record nor an answer of the agent can hold one."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_valid(part) for part in value]
        case dict():
            return {_valid(name): _valid(part) for name, part in value.items()}
        case _:
            return value
