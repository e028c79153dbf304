"""Job records on this machine: one JSON file a job, put in place by a rename, and the keys.

Survives a killed agent at any instruction. Knows nothing of Slurm. The key with which a job signs
its result is kept apart from the record, in a file of its own, and so is never shown or logged.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from jupyter_slurm.places import private_dir
from jupyter_slurm.wire import Job, JobEvent, JobSpec

_KEY_BYTES = 32


class Record(msgspec.Struct, kw_only=True):
    """What the agent must not forget of a job."""

    job: Job
    spec: JobSpec | None
    """None once the submission is settled: code and environment then lie in the job's folder."""
    sbatch_calls: int = 0
    """How often sbatch may have been called for it."""
    stdout_path: str | None = None
    """Where a batch script of the user's writes, once Slurm has said so."""
    mirror: str | None = None
    """Where the cluster keeps its copy of the folder that was pushed with it (`staging.py`)."""
    adopted: bool = False
    """It was submitted elsewhere: nothing over there is ours to take away."""
    command: tuple[str, ...] = ()
    """sbatch as it was called for it."""
    events: tuple[JobEvent, ...] = ()
    """What has happened to it (`events.py`)."""


class Store:
    def __init__(self, folder: Path) -> None:
        self._records = private_dir(folder / "jobs")
        self._keys = private_dir(folder / "keys")

    def load(self) -> list[Record]:
        """Every record; one that cannot be read is set aside under `.unreadable`, not lost."""
        decode = msgspec.json.Decoder(Record).decode
        records = []
        for path in sorted(self._records.glob("*.json")):
            try:
                records.append(decode(path.read_bytes()))
            except (msgspec.MsgspecError, OSError):
                path.rename(path.with_suffix(".unreadable"))
        return records

    def save(self, record: Record) -> None:
        """Survives the end of this process; what a loss of power takes is found out again.

        msgspec.ValidationError: a field is of the wrong type, and could not be read again.
        """
        path = self._records / f"{record.job.id}.json"
        partial = path.with_suffix(".partial")
        with os.fdopen(_create(partial), "wb") as file:
            file.write(_encode(record))
        partial.replace(path)

    def save_synced(self, record: Record) -> None:
        """As `save`, and survives a loss of power: for what is true before sbatch is called."""
        _replace_synced(self._records / f"{record.job.id}.json", _encode(record))

    def remove(self, job_id: str) -> None:
        (self._records / f"{job_id}.json").unlink(missing_ok=True)
        (self._keys / job_id).unlink(missing_ok=True)

    def new_key(self, job_id: str) -> bytes:
        """The key of a job, made at the first call."""
        path = self._keys / job_id
        if not path.exists():
            _replace_synced(path, secrets.token_hex(_KEY_BYTES).encode())
        return path.read_bytes()

    def key(self, job_id: str) -> bytes | None:
        """None: there is none, as for a script that signs nothing."""
        path = self._keys / job_id
        return path.read_bytes() if path.exists() else None


def _encode(record: Record) -> bytes:
    data = msgspec.json.encode(record)
    msgspec.json.decode(data, type=Record)
    return data


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def _replace_synced(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".partial")
    with os.fdopen(_create(partial), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
