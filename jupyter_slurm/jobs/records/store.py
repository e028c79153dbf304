"""Job records on this machine: one JSON file a job, put in place by a rename, and the keys.

A change of many jobs is one file, a batch. It holds for each of them until the job's own file is
written again.

Survives a killed agent at any instruction. Knows nothing of Slurm. The key with which a job signs
its result is kept apart from the record, in a file of its own, and so is never shown or logged.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jupyter_slurm.jobs.records.events import following
from jupyter_slurm.jobs.records.renames import Renames
from jupyter_slurm.places import private_dir
from jupyter_slurm.wire import Job, JobEvent, JobSpec

_KEY_BYTES = 32
_ASIDE = ".unreadable"
_BATCH = ".batch"
_MOST_BYTES = 80 * 2**20
"""The most bytes of a record: a client hands over at most 64 MiB (`agent/protocol.py`)."""


class Record(msgspec.Struct, kw_only=True):
    """The facts of a job that the agent must not forget."""

    job: Job
    spec: JobSpec | None
    """None once the submission is settled: code and environment then lie in the job's folder."""
    asked: JobSpec | None = None
    """`without_content` of the spec as it was submitted; None: it was submitted elsewhere, or
    recorded by an older version."""
    slurm_submitted_s: float | None = None
    """Slurm's own time of submission, which identifies a job whose token a site has removed. None:
    Slurm has not been seen to list the job."""
    sbatch_calls: int = 0
    """How often sbatch may have been called for it."""
    stdout_path: str | None = None
    """The output file of a batch script of the user's, once Slurm has named it."""
    stderr_path: str | None = None
    """The file of its error output, where that is another one."""
    task_stdout: str | None = None
    """The output file of an array's tasks (`array_tasks.pattern`)."""
    task_stderr: str | None = None
    """The file of their error output, where that is another one."""
    task_paths: dict[str, str] = msgspec.field(default_factory=dict)
    """Index -> where a task of an array wrote, if no pattern of the index alone tells it."""
    mirror: str | None = None
    """The cluster's copy of the folder that was pushed with it (`staging.py`)."""
    adopted: bool = False
    """It was submitted elsewhere: nothing over there is ours to take away."""
    command: tuple[str, ...] = ()
    """sbatch as it was called for it."""
    folder: str = ""
    """Where it runs on the cluster (`Resolved.folder`), a cell where its session does; "": that is
    not known."""
    given: dict[str, str] = msgspec.field(default_factory=dict)
    """Digests of what it got (`identity.py`)."""
    memory_mib: int | None = None
    """The memory that it asked for on a node, which a session's cells share; None: the site's."""
    events: tuple[JobEvent, ...] = ()
    """The events of its life (`events.py`)."""

    def change(self, revision: int, now_s: float, **changes: Any) -> None:
        """Change these fields of the job, and add what has happened to its events."""
        old = self.job
        self.job = msgspec.structs.replace(old, **changes, revision=revision)
        self.events = following(self.events, old, self.job, now_s)


class Batch(msgspec.Struct, kw_only=True):
    """A change of many jobs."""

    revision: int
    """Greater than that of each record before, and less than that of any later one."""
    time_s: float
    cancel_requested_s: dict[str, float | None]
    """`Job.cancel_requested_s` by the jobs' ids."""


_Saved = TypeVar("_Saved", Record, Batch)
_CONTENT = {"code": "", "inputs": None, "inputs_digest": None}


def without_content(spec: JobSpec) -> JobSpec:
    """Return the spec without code, input variables and the values of its environment."""
    content = {name: blank for name, blank in _CONTENT.items() if name in spec.__struct_fields__}
    return msgspec.structs.replace(spec, env=dict.fromkeys(spec.env, ""), **content)


class Store:
    def __init__(self, folder: Path) -> None:
        self._records = private_dir(folder / "jobs")
        self._keys = private_dir(folder / "keys")
        self.renames = Renames(folder)
        self._unread: list[Path] = []
        self._batches: dict[Path, set[str]] = {}
        """Each batch, with the jobs whose own files are older."""

    def load(self) -> list[Record]:
        """Return every record. Set one that cannot be read aside under `.unreadable`, and take it
        back when it can be read again."""
        records = []
        self._unread = []
        paths = [*self._records.glob("*.json"), *self._records.glob(f"*{_ASIDE}")]
        for path in sorted(paths):
            record, home = _read(path, Record), self._path(path.name.split(".")[0])
            if record is None or self._path(record.job.id) != home:
                self._unread.append(_moved(path, _free_beside(home)))
            elif path == home or _moved(path, home) == home:
                records.append(record)
            else:
                self._unread.append(path)
        self._apply_batches(records)
        return records

    def _apply_batches(self, records: Sequence[Record]) -> None:
        """Change the records as the batches say that are newer."""
        by_id = {record.job.id: record for record in records}
        read = [(_read(path, Batch), path) for path in self._records.glob(f"*{_BATCH}")]
        self._unread.extend(path for batch, path in read if batch is None)
        batches = [(batch, path) for batch, path in read if batch is not None]
        for batch, path in sorted(batches, key=lambda one: one[0].revision):
            older = set()
            for job_id, requested_s in batch.cancel_requested_s.items():
                record = by_id.get(job_id)
                if record is not None and record.job.revision < batch.revision:
                    record.change(batch.revision, batch.time_s, cancel_requested_s=requested_s)
                    older.add(job_id)
            self._batches[path] = older
            self._outdate(older, but=path)

    def _outdate(self, job_ids: Iterable[str], but: Path | None = None) -> None:
        """Remove each batch that is newer than no job's own file, now that these jobs are saved
        elsewhere."""
        for path, older in [*self._batches.items()]:
            if path != but:
                older.difference_update(job_ids)
            if not older:
                path.unlink(missing_ok=True)
                del self._batches[path]

    def set_aside(self) -> list[Path]:
        """Return where the records are that could not be read."""
        return [path for path in self._unread if os.path.lexists(path)]

    def _path(self, job_id: str) -> Path:
        return self._records / f"{job_id}.json"

    def save(self, record: Record) -> None:
        """Save: it survives this process's end; what a loss of power takes is found out again.

        msgspec.ValidationError: a field is of the wrong type, and could not be read again.
        """
        _replace(self._path(record.job.id), _encode(record))
        self._outdate([record.job.id])

    def save_batch(self, batch: Batch) -> None:
        """Save a change of many jobs, as `save` does one of a single job."""
        path = self._records / f"{batch.revision}{_BATCH}"
        _replace(path, msgspec.json.encode(batch))
        self._batches[path] = set(batch.cancel_requested_s)
        self._outdate(batch.cancel_requested_s, but=path)

    def save_synced(self, record: Record) -> None:
        """Save against a loss of power too: for what must be true before sbatch is called."""
        _replace(self._path(record.job.id), _encode(record), synced=True)
        self._outdate([record.job.id])

    def remove(self, job_id: str) -> None:
        self._path(job_id).unlink(missing_ok=True)
        (self._keys / job_id).unlink(missing_ok=True)
        self._outdate([job_id])

    def new_key(self, job_id: str) -> bytes:
        """Return the key of a job, made at the first call."""
        path = self._keys / job_id
        if not path.exists():
            _replace(path, secrets.token_hex(_KEY_BYTES).encode(), synced=True)
        return path.read_bytes()

    def key(self, job_id: str) -> bytes | None:
        """Return the key of a job; None: it has none, as a script that signs nothing."""
        path = self._keys / job_id
        return path.read_bytes() if path.exists() else None


def _free_beside(path: Path) -> Path:
    numbered = (path.with_suffix(f".{number}{_ASIDE}") for number in count(1))
    names = chain([path.with_suffix(_ASIDE)], numbered)
    return next(one for one in names if not os.path.lexists(one))


def _moved(path: Path, there: Path) -> Path:
    """Move the file, and return where it is then: it stays if it was set aside before, if another
    record has taken its place, or if it cannot be moved."""
    if path.suffix == there.suffix or os.path.lexists(there):
        return path
    with suppress(OSError):
        path.rename(there)
        return there
    return path


def _read(path: Path, kind: type[_Saved]) -> _Saved | None:
    """Return what was saved in the file; None: it is damaged, or is not a regular file."""
    try:
        # A FIFO in its place would be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_BYTES:
            os.close(fd)
            return None
        with os.fdopen(fd, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except (OSError, ValueError, RecursionError):
        return None


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
