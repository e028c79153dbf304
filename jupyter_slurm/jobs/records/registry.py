"""Our jobs in memory and on disk, and the calls that wait for changes.

Only the registry changes a job. Each change increments the revision. A change is on disk before it
is visible, except in `observe`. The registry is thread-safe. On disk each job has a JSON file,
replaced atomically, so that the record survives a crash of the agent at any point. The key that
signs a job's result is in a file of its own, so that it is never shown or logged.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from jupyter_slurm.errors import (
    FileAccessError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
    TransportError,
)
from jupyter_slurm.jobs.records.change_log import ChangeLog, Cursors, Delta
from jupyter_slurm.jobs.records.events import following
from jupyter_slurm.jobs.records.renames import Renames
from jupyter_slurm.places import private_dir
from jupyter_slurm.untrusted_json import unreadable
from jupyter_slurm.wire import Job, JobEvent, JobSpec, JobState

_UNWANTED_KEPT = 1_000
_KEY_BYTES = 32
_MOST_BYTES = 80 * 2**20
"""Maximum size of a record. A request has at most 64 MiB (`agent/protocol.py`)."""

_log = logging.getLogger(__name__)


class TaskArray(msgspec.Struct, frozen=True, kw_only=True):
    """A Slurm job array with tasks of a sweep, submitted or planned."""

    token: str
    """The array's ID in Slurm's job name and comment. The first array has the ID of our job."""
    tasks: str
    """The array's tasks, as indices in the sweep."""
    offset: int = 0
    """A task's index in the sweep minus its index in Slurm's array."""
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
    """The job's spec; None after submission, when code and environment are in the job's folder."""
    asked: JobSpec | None = None
    """The spec as submitted, `without_content`; None if an older version recorded the job."""
    slurm_submitted_s: float | None = None
    """Slurm's own submission time; None if Slurm has not listed the job yet. It identifies a job
    whose token a site has removed."""
    sbatch_calls: int = 0
    """Number of times that sbatch may have been called."""
    stdout_path: str | None = None
    """The output file of the user's batch script, once Slurm has named it."""
    stderr_path: str | None = None
    """The file of the script's error output, if separate."""
    task_stdout: str | None = None
    """The output file of an array's tasks (`array_tasks.pattern`)."""
    task_stderr: str | None = None
    """The file of the tasks' error output, if separate."""
    task_paths: dict[str, str] = msgspec.field(default_factory=dict)
    """Output files of array tasks by index, if `task_stdout` does not match them."""
    mirror: str | None = None
    """The cluster's copy of the pushed folder (`transfers.py`)."""
    command: tuple[str, ...] = ()
    """The sbatch command."""
    folder: str = ""
    """The working directory on the cluster (`Resolved.folder`); "" if unknown. For a session's cell
    it is the session's folder."""
    given: dict[str, str] = msgspec.field(default_factory=dict)
    """Digests of the job's inputs (`identity.py`)."""
    arrays: tuple[TaskArray, ...] = ()
    """The arrays of a sweep, in the order of their submission; () before they are planned."""
    params_sha256: str | None = None
    """The digest of a sweep's file of parameters; None without parameters."""
    events: tuple[JobEvent, ...] = ()
    """The events of the job's life (`events.py`)."""

    def change(self, revision: int, now_s: float, **changes: Any) -> None:
        """Change these fields of the job, and add the events of the change."""
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
    """Return the spec without its code, input variables, parameters, values of environment
    variables, and contents of package files."""
    packages = spec.environment
    if packages is not None:
        packages = msgspec.structs.replace(packages, text="", project="")
    content = {name: blank for name, blank in _CONTENT.items() if name in spec.__struct_fields__}
    env = dict.fromkeys(spec.env, "")
    return msgspec.structs.replace(spec, env=env, environment=packages, **content)


class JobRegistry:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._changed = threading.Condition()
        self._closed = False
        self._change_count = 0
        found = sorted(store.load(), key=lambda record: record.job.revision)
        for record in found:  # the process that observed these has ended
            record.job = msgspec.structs.replace(
                record.job, transfer=None, priority=None, gpu_load=None
            )
            if record.job.session is not None and record.spec is not None:
                record.sbatch_calls = 1  # the process may have sent the cell before it ended
        self._records = ChangeLog[Record](lambda record: record.job.revision)
        self._records.update((record.job.id, record) for record in found)
        self.cursors = Cursors(found[-1].job.revision if found else 0)
        self._records.remembers_since = self.cursors.latest
        self._live = {r.job.id: r for r in found if not r.job.state.final}
        self._unwanted: deque[str] = deque(maxlen=_UNWANTED_KEPT)

    @property
    def change_count(self) -> int:
        """Return the number of notifications. Read it before checking a condition, then wait for
        `changed_since`."""
        return self._change_count

    def changed_since(self, count: int) -> Callable[[], bool]:
        """Return a condition for `wait` that is true once a notification follows the read of
        `count`."""
        return lambda: self._change_count != count

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def revision(self) -> int:
        return self.cursors.latest

    def add(self, record: Record) -> bool:
        """Add the record. Return False, without a change, if the ID exists."""
        with self._changed:
            if record.job.id in self._records:
                return False
            self.cursors.latest += 1
            record.job = msgspec.structs.replace(record.job, revision=self.revision)
            if record.job.id in self._unwanted:
                record.job = msgspec.structs.replace(record.job, cancel_requested_s=time.time())
            record.events = following((), None, record.job, time.time())
            if record.job.session is None or record.job.fingerprint is not None:
                self.store.save_synced(record)
            else:  # no sbatch; a power failure also ends the client that could repeat the call
                self.store.save(record)
            self._enter(record)
            return True

    def unwanted(self, job_id: str) -> None:
        """Remember the cancellation of an unknown job, whose submission may still arrive."""
        with self._changed:
            self._unwanted.append(job_id)

    def _enter(self, record: Record) -> None:
        job_id = record.job.id
        self._records.put(job_id, record)
        if record.job.state.final:
            self._live.pop(job_id, None)
        else:
            self._live[job_id] = record
        self._notify()

    def has(self, job_id: str) -> bool:
        """Return whether a record has this ID. Slurm's IDs do not count."""
        with self._changed:
            return job_id in self._records

    def record(self, job_id: str) -> Record:
        """Return the record with this ID, which is ours or Slurm's. If several jobs have had the
        Slurm ID, return the newest live job, or the newest job if all have ended. The ID of any
        part of a heterogeneous job (`153+1`) names the job. Raises NotFoundError, or RequestError
        if jobs of several clusters have this ID."""
        with self._changed:
            if job_id in self._records:
                return self._records[job_id]
            whole_id = job_id.partition("+")[0]
            same = [r for r in self._records.values() if whole_id in r.job.slurm_ids]
        if not same:
            raise NotFoundError(f"Unknown job {job_id!r}.", hint="See `%slurm jobs`.")
        same = [record for record in same if not record.job.state.final] or same
        if len({record.job.cluster for record in same}) > 1:
            jobs = ", ".join(f"{one.job.id} on {one.job.cluster}" for one in same)
            raise RequestError(
                f"{job_id} is a Slurm ID on several clusters: {jobs}.",
                hint="Use the eight-letter ID.",
            )
        return max(same, key=lambda record: record.job.created_s)

    def job(self, job_id: str) -> Job:
        return self.record(job_id).job

    def is_over(self, job_id: str) -> bool:
        """Return whether the job has ended or was forgotten."""
        try:
            return self.job(job_id).state.final
        except NotFoundError:
            return True

    def records(self) -> list[Record]:
        """Return all records, newest first."""
        with self._changed:
            return sorted(self._records.values(), key=lambda r: r.job.created_s, reverse=True)

    def live(self, cluster: str | None = None) -> list[Record]:
        """Return the records of live jobs, newest first. `cluster` is None for all clusters."""
        with self._changed:
            found = [r for r in self._live.values() if cluster in (None, r.job.cluster)]
        return sorted(found, key=lambda r: r.job.created_s, reverse=True)

    def by_slurm_id(self, cluster: str) -> dict[str, list[Record]]:
        """Map Slurm's IDs on that cluster to the records that have had them, newest first. The key
        "" has the jobs that are being submitted, since their IDs are unknown."""
        found: dict[str, list[Record]] = {}
        for record in self.records():
            job = record.job
            if job.cluster != cluster:
                continue
            is_new = job.state is JobState.SUBMITTING and not job.slurm_ids
            is_unsent = is_new or any(one.slurm_id is None for one in record.arrays)
            for slurm_id in (*job.slurm_ids, *([""] if is_unsent else [])):
                found.setdefault(slurm_id, []).append(record)
        return found

    def changes_since(self, revision: int | None) -> tuple[int, Delta[Job]]:
        """Return the current revision and the changes since `revision` (all jobs for None)."""
        with self._changed:
            whole, records, gone = self._records.since(revision)
            return self.revision, Delta(whole, tuple(one.job for one in records), gone)

    def change(self, job_id: str, **changes: Any) -> Job:
        """Change these fields of the job and return it; save only real changes."""
        with self._changed:
            record = self.record(job_id)
            if self._has_changed(record, changes):
                self.store.save(record)
                self._enter(record)
            return record.job

    def next_revision(self) -> int:
        """Increment and return the revision, for a row without a record. Call it within `lock`."""
        self.cursors.latest += 1
        self._notify()
        return self.revision

    def observe(self, job_id: str, **changes: Any) -> None:
        """Change fields of a live job without saving them. The next agent gets them from Slurm
        again."""
        with self._changed:
            record = self._records.get(job_id)
            if record is not None and self._has_changed(record, changes):
                self._enter(record)

    def _has_changed(self, record: Record, changes: dict[str, Any]) -> bool:
        """Change the record. Return False if it already has these values."""
        old = record.job
        if "state" in changes and changes["state"] is not old.state:
            changes.setdefault("state_since_s", time.time())
        if all(getattr(old, name) == value for name, value in changes.items()):
            return False
        self.cursors.latest += 1
        record.change(self.revision, time.time(), **changes)
        return True

    def found(self, seen: Job, **changes: Any) -> Job:
        """Apply an observation that began when the job was `seen`. Ignore it if the state has
        changed since."""
        with self._changed:
            job = self.job(seen.id)
            return self.change(seen.id, **changes) if job.state is seen.state else job

    def note_problem(self, job_id: str, error: JupyterSlurmError) -> None:
        """Set the job's problem and the time when it first occurred, unless the job has ended or
        was forgotten."""
        with self._changed, suppress(NotFoundError):
            job = self.job(job_id)
            if not job.state.final:
                since_s = job.problem_since_s or time.time()
                self.change(job_id, problem=error.problem(), problem_since_s=since_s)

    def clear_problem(self, job_id: str) -> Job:
        return self.change(job_id, problem=None, problem_since_s=None)

    @contextmanager
    def noting_errors(self, job_id: str) -> Iterator[None]:
        """Record an error, such as unreadable data, as the job's `problem`. Re-raise it if the
        connection dropped, because that affects every job. Ignore it if the job was forgotten."""
        try:
            yield
        except NotFoundError:
            pass
        except JupyterSlurmError as exc:
            if isinstance(exc, TransportError) and not isinstance(exc, FileAccessError):
                raise
            self.note_problem(job_id, exc)
        except Exception as exc:  # noqa: BLE001 (a watcher serves all jobs of a cluster)
            _log.exception("cannot read the cluster's data about %s", job_id)
            self.note_problem(job_id, unreadable(exc))

    def note(self, job_id: str, **changes: Any) -> None:
        """Change fields of the record that clients do not see, and save it with fsync."""
        with self._changed:
            record = self.record(job_id)
            for name, value in changes.items():
                setattr(record, name, value)
            self.store.save_synced(record)

    def change_each(self, changed: Callable[[Record], Mapping[str, Any] | None]) -> None:
        """Save each record for which `changed` returns changes to the job. `changed` may also alter
        the record."""
        with self._changed:
            for record in [*self._records.values()]:
                changes = changed(record)
                if changes is not None:
                    self.cursors.latest += 1
                    record.change(self.revision, time.time(), **changes)
                    self.store.save(record)
                    self._enter(record)

    def remove(self, job_id: str) -> None:
        with self._changed:
            record = self.record(job_id)
            self.cursors.latest += 1
            self._records.remove(record.job.id, self.revision)
            self._live.pop(record.job.id, None)
            self.store.remove(record.job.id)
            self._notify()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock. The work must be quick."""
        with self._changed:
            yield

    def wait(self, ready: Callable[[], bool], wait_s: float) -> bool:
        """Wait until `ready` is true, and test it after every notification. Return False after
        `wait_s`, and True as soon as the registry closes."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or ready(), wait_s)

    def notify(self) -> None:
        """Wake waiting calls after a change outside of the records, such as new output."""
        with self._changed:
            self._notify()

    def close(self) -> None:
        """End all current and later waits."""
        with self._changed:
            self._closed = True
            self._notify()

    def _notify(self) -> None:
        self._change_count += 1
        self._changed.notify_all()


class Store:
    def __init__(self, folder: Path) -> None:
        self._records = private_dir(folder / "jobs")
        self._keys = private_dir(folder / "keys")
        self._read_keys: dict[str, bytes] = {}
        self.renames = Renames(folder)
        self._unreadable: list[Path] = []

    def load(self) -> list[Record]:
        """Return every readable record. Leave unreadable records in place, for `unreadable`."""
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
        """Save the record so that it survives a crash of this process. A power failure may lose it.

        Raise msgspec.ValidationError if a field has the wrong type.
        """
        _replace(self._path(record.job.id), _encode(record))

    def save_synced(self, record: Record) -> None:
        """Save the record so that it also survives a power failure. A call of sbatch requires such
        a record."""
        _replace(self._path(record.job.id), _encode(record), synced=True)

    def remove(self, job_id: str) -> None:
        self._path(job_id).unlink(missing_ok=True)
        (self._keys / job_id).unlink(missing_ok=True)
        self._read_keys.pop(job_id, None)

    def new_key(self, job_id: str) -> bytes:
        """Return the key of a job; the first call creates it."""
        path = self._keys / job_id
        if not path.exists():
            _replace(path, secrets.token_hex(_KEY_BYTES).encode(), synced=True)
        return path.read_bytes()

    def key(self, job: Job) -> bytes | None:
        """Return the key of a job; None if jobs of its kind do not sign results. The key of a
        session's cell is derived from the session's key, which is on disk."""
        if job.session is None:
            return self._key(job.id)
        of_session = self._key(job.session)
        return of_session and hmac.digest(of_session, job.id.encode(), "sha256").hex().encode()

    def _key(self, job_id: str) -> bytes | None:
        if job_id not in self._read_keys:
            with suppress(FileNotFoundError):
                self._read_keys[job_id] = (self._keys / job_id).read_bytes()
        return self._read_keys.get(job_id)


def _read(path: Path) -> Record | None:
    """Return the record in the file; None if the file is damaged, too large or another job's."""
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
