"""Job records on this machine: a JSON file per job, replaced atomically, and the jobs' keys.

A record survives a crash of the agent at any point. The key that signs a job's result is in a file
of its own, so that it is never shown or logged.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from jupyter_slurm.jobs.records.events import following
from jupyter_slurm.jobs.records.renames import Renames
from jupyter_slurm.places import private_dir
from jupyter_slurm.wire import Job, JobEvent, JobSpec

_KEY_BYTES = 32
_MOST_BYTES = 80 * 2**20
"""Maximum size of a record: a request has at most 64 MiB (`agent/protocol.py`)."""


class TaskArray(msgspec.Struct, frozen=True, kw_only=True):
    """A Slurm job array with tasks of a sweep, submitted or planned."""

    token: str
    """Our ID in Slurm's name and comment, like a job's ID. The first array has the job's."""
    tasks: str
    """Indices of the sweep's tasks."""
    offset: int = 0
    """The difference between a task's index and Slurm's."""
    base: int = 0
    """The number of the first attempt."""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """Options of sbatch that replace those of the sweep."""
    sbatch_calls: int = 0
    """Number of times that sbatch may have been called."""
    slurm_id: str | None = None
    submitted_s: float | None = None


class Record(msgspec.Struct, kw_only=True):
    """The agent's record of a job."""

    job: Job
    spec: JobSpec | None
    """None after submission: code and environment are then in the job's folder."""
    asked: JobSpec | None = None
    """The spec as submitted, `without_content`; None: recorded by an older version."""
    slurm_submitted_s: float | None = None
    """Slurm's own submission time, which identifies a job whose token a site has removed. None:
    Slurm has not listed the job yet."""
    sbatch_calls: int = 0
    """Number of times that sbatch may have been called."""
    stdout_path: str | None = None
    """The output file of the user's batch script, once Slurm has named it."""
    stderr_path: str | None = None
    """The file of its error output, if separate."""
    task_stdout: str | None = None
    """The output file of an array's tasks (`array_tasks.pattern`)."""
    task_stderr: str | None = None
    """The file of their error output, if separate."""
    task_paths: dict[str, str] = msgspec.field(default_factory=dict)
    """Output files of array tasks by index, if no pattern yields them."""
    mirror: str | None = None
    """The cluster's copy of the pushed folder (`transfers.py`)."""
    command: tuple[str, ...] = ()
    """The sbatch command."""
    folder: str = ""
    """The working directory on the cluster (`Resolved.folder`), for a session's cell that of the
    session; "" if unknown."""
    given: dict[str, str] = msgspec.field(default_factory=dict)
    """Digests of its inputs (`identity.py`)."""
    arrays: tuple[TaskArray, ...] = ()
    """The arrays of a sweep, in the order of their submission; (): not yet planned."""
    params_sha256: str | None = None
    """The digest of a sweep's file of parameters; None: no parameters."""
    events: tuple[JobEvent, ...] = ()
    """The events of its life (`events.py`)."""

    def change(self, revision: int, now_s: float, **changes: Any) -> None:
        """Change these fields of the job and add the events."""
        old = self.job
        self.job = msgspec.structs.replace(old, **changes, revision=revision)
        self.events = following(self.events, old, self.job, now_s)


_CONTENT = {
    "code": "",
    "inputs": None,
    "inputs_digest": None,
    "params": None,
    "params_digest": None,
    "params_text": None,
}


def without_content(spec: JobSpec) -> JobSpec:
    """Return the spec without code, input variables, the values of its environment and the text of
    its packages."""
    packages = spec.environment
    if packages is not None:
        packages = msgspec.structs.replace(packages, text="", project="")
    content = {name: blank for name, blank in _CONTENT.items() if name in spec.__struct_fields__}
    env = dict.fromkeys(spec.env, "")
    return msgspec.structs.replace(spec, env=env, environment=packages, **content)


class Store:
    def __init__(self, folder: Path) -> None:
        self._records = private_dir(folder / "jobs")
        self._keys = private_dir(folder / "keys")
        self.renames = Renames(folder)
        self._unreadable: list[Path] = []

    def load(self) -> list[Record]:
        """Return every readable record. Leave the others in place, for `unreadable`."""
        records = []
        self._unreadable = []
        for path in sorted(self._records.glob("*.json")):
            record = _read(path)
            if record is None:
                self._unreadable.append(path)
            else:
                records.append(record)
        return records

    def unreadable(self) -> list[Path]:
        """Return the files that `load` could not read and that still exist."""
        return [path for path in self._unreadable if os.path.lexists(path)]

    def _path(self, job_id: str) -> Path:
        return self._records / f"{job_id}.json"

    def save(self, record: Record) -> None:
        """Save against a crash of this process; a power failure may lose it.

        msgspec.ValidationError: a field has the wrong type.
        """
        _replace(self._path(record.job.id), _encode(record))

    def save_synced(self, record: Record) -> None:
        """Save against a power failure too, as needed before sbatch is called."""
        _replace(self._path(record.job.id), _encode(record), synced=True)

    def remove(self, job_id: str) -> None:
        self._path(job_id).unlink(missing_ok=True)
        (self._keys / job_id).unlink(missing_ok=True)

    def new_key(self, job_id: str) -> bytes:
        """Return the key of a job; the first call creates it."""
        path = self._keys / job_id
        if not path.exists():
            _replace(path, secrets.token_hex(_KEY_BYTES).encode(), synced=True)
        return path.read_bytes()

    def key(self, job: Job) -> bytes | None:
        """Return the key of a job; None: jobs of its kind sign nothing. The key of a session's
        cell is derived from the session's, which is on disk."""
        key = self._key(job.id)
        if key is None and job.session is not None:
            of_session = self._key(job.session)
            key = of_session and hmac.digest(of_session, job.id.encode(), "sha256").hex().encode()
        return key

    def _key(self, job_id: str) -> bytes | None:
        try:
            return (self._keys / job_id).read_bytes()
        except FileNotFoundError:
            return None


def _read(path: Path) -> Record | None:
    """Return the record in the file; None: the file is damaged, too large or another job's."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, ValueError, RecursionError):
        return None
    return record if record.job.id == path.stem else None


def _encode(record: Record) -> bytes:
    data = msgspec.json.encode(record)
    msgspec.json.decode(data, type=Record)
    return data


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def _replace(path: Path, data: bytes, *, synced: bool = False) -> None:
    partial = path.with_suffix(".partial")
    with os.fdopen(_create(partial), "wb") as file:
        file.write(data)
        if synced:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)
