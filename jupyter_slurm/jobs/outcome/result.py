"""Parsers for a job's files. No I/O.

A result counts only with a valid signature. An invalid record is shown as text.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Annotated, Any, Literal, cast

import msgspec

from jupyter_slurm.errors import MalformedError, SignatureError
from jupyter_slurm.formatting import brief, visible
from jupyter_slurm.slurm.units import NODE_NAME
from jupyter_slurm.untrusted_json import Moment, check_json, read_json
from jupyter_slurm.wire import Job, Output, Stream

_RECORD: msgspec.json.Decoder[Output] = msgspec.json.Decoder(Output)
_MOST_FACT_BYTES = 65_536
"""The size limit of the small JSON files."""

_Code = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_SlurmId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9_+]{0,32}\Z")]
_Name = Annotated[str, msgspec.Meta(pattern=r"\A[a-zA-Z0-9_.@-]{0,256}\Z")]
_Node = Annotated[str, msgspec.Meta(pattern=rf"\A{NODE_NAME}\Z")]


class RunnerVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The variables returned by a cell."""

    file: str | None
    """The name of the file in the job's folder; None if it was not written."""
    bytes: int
    hmac: str | None
    """The HMAC-SHA256 of the file with the job's key, in hexadecimal."""
    names: tuple[str, ...]
    failed: dict[str, str]
    """The variables that could not be written, with the reasons."""


class RunnerResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a cell, signed by its runner."""

    status: Literal["ok", "error", "killed", "interrupted"]
    exit_code: _Code
    ename: str | None = None
    evalue: str | None = None
    traceback: tuple[str, ...] = ()
    signal: int | None = None
    """The signal that killed the cell's process."""
    interrupted_by: str | None = None
    """The signal (such as `SIGTERM`) that became a KeyboardInterrupt, even if the cell caught it.
    """
    variables: RunnerVariables | None = None
    started_s: Moment
    ended_s: Moment
    peak_rss_mib: float
    cpu_s: float
    """CPU seconds. This and `peak_rss_mib` are 0 if not measured, as on a lost node."""
    ranks: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """The number of ranks; 0 if the code ran once."""
    gathered: tuple[RunnerVariables, ...] = ()
    """The `--gather` variables of each rank."""
    lost_output_bytes: int = 0
    """Bytes of output lost because the disk was full."""
    python: tuple[int, int, int]


class ExitFile(msgspec.Struct, frozen=True, kw_only=True):
    """The job script's report of its end."""

    exit_code: _Code
    signal: str | None = None
    """The signal caught by the script, such as `TERM`."""
    time_s: Moment


class StartedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The job script's report of its start."""

    slurm_id: _SlurmId
    node: _Node
    """The node's name. Tunnels connect to it, so it must be a host name."""
    partition: _Name = ""
    user: _Name = ""
    time_s: Moment

    def known(self, job: Job) -> dict[str, object]:
        """Return the job's fields, with values from this file where the job lacks them. squeue may
        never have listed the job."""
        return {
            "nodes": job.nodes or (self.node,),
            "partition": job.partition or self.partition or None,
            "user": job.user or self.user or None,
        }


@functools.lru_cache(maxsize=4)
def parse_result(data: bytes, key: bytes) -> RunnerResult:
    """Return the result in a `result.N.json`. Results are cached, because the agent needs them for
    the verdict on the job and again for clients.

    Raise SignatureError if the result is not signed with `key`, or MalformedError if it is
    incomplete.
    """
    signature, newline, body = data.partition(b"\n")
    if not newline or not body.endswith(b"\n"):
        raise MalformedError("The result in the job's folder is incomplete.")
    expected = hmac.new(key.strip(), body, hashlib.sha256).hexdigest().encode("ascii")
    if not hmac.compare_digest(signature, expected):
        raise SignatureError(
            "The result in the job's folder is not signed with the job's key, so it was not read.",
            hint="Check who can write to that folder.",
        )
    try:
        check_json(body)
        return msgspec.convert(_valid(json.loads(body)), RunnerResult)
    except (ValueError, RecursionError) as exc:
        said = brief(visible(str(exc)))
        raise MalformedError("The result in the job's folder is incomplete.", detail=said) from exc


def readable_result(data: bytes | None, key: bytes | None) -> RunnerResult | None:
    """Return the result; None if it is missing or invalid. A job is then judged without it."""
    if not data or key is None:
        return None
    with suppress(SignatureError, MalformedError):
        return parse_result(data, key)
    return None


def check_asked(names: Iterable[str], asked: Collection[str]) -> None:
    """Raise SignatureError if a result has variables that the user did not request. They would
    replace local variables with the same names."""
    unasked = sorted({name for name in names if name not in asked})
    if unasked:
        told = brief(", ".join(one if one.isidentifier() else repr(one) for one in unasked))
        raise SignatureError(
            f"The result has variables that --out does not name ({told}), so it was not read.",
            hint="Check who can read the job's folder: another program used the job's key.",
        )


def parse_exit(data: bytes) -> ExitFile | None:
    """Return the exit file; None if incomplete."""
    try:
        found = read_json(data, ExitFile, _MOST_FACT_BYTES)
    except MalformedError:
        return None
    return found if found.signal else msgspec.structs.replace(found, signal=None)


def exit_of(result: RunnerResult) -> ExitFile | None:
    """Return the exit file that a session writes for a cell with this result; None if a signal may
    explain the cell's end."""
    if result.status not in ("ok", "error") or (result.interrupted_by and result.status != "ok"):
        return None
    return ExitFile(exit_code=result.exit_code, time_s=result.ended_s)


def parse_started(data: bytes) -> StartedFile | None:
    """Return the started file; None if incomplete."""
    try:
        return read_json(data, StartedFile, _MOST_FACT_BYTES)
    except MalformedError:
        return None


def parse_records(data: bytes) -> tuple[list[Output], int]:
    """Return the records of the complete lines in `data`, and the size of these lines.

    An invalid record becomes stderr text. A job's output therefore cannot get lost or raise an
    error here.
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
        # msgspec rejects a lone surrogate (from a printed file name that is not UTF-8); json
        # accepts it.
        return cast("Output", msgspec.convert(_valid(json.loads(line)), Output))
    except (ValueError, RecursionError):  # from json, UTF-8 or msgspec
        return Stream(name="stderr", text=line.decode("utf-8", "replace") + "\n")


def _valid(value: Any) -> Any:
    """Replace lone surrogates in a JSON value by the six characters `\udce9`: a record or an answer
    of the agent cannot contain lone surrogates."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_valid(part) for part in value]
        case dict():
            return {_valid(name): _valid(part) for name, part in value.items()}
        case _:
            return value
