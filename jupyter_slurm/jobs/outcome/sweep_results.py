"""A local copy of the variables of a sweep's tasks. It has a file `INDEX.vars` for each task, and
`params.vars` with the parameters of all tasks. `fetch` checks the signature or digest of each file.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from jupyter_slurm import places
from jupyter_slurm.errors import SignatureError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.result import RunnerVariables, check_asked
from jupyter_slurm.jobs.outcome.sweep_tasks import TaskEnd
from jupyter_slurm.jobs.records.registry import Record
from jupyter_slurm.slurm.units import format_array
from jupyter_slurm.transport import Transport, limits
from jupyter_slurm.variables import check_signature

_SMALL_BYTES = 1 << 20
"""The size up to which files are read together."""
_TOGETHER_BYTES = 16 << 20
_TAR_S = 600.0
_TAR_HEAD_BYTES = 2048
"""Upper bound on the number of bytes that tar adds to each file and at the end."""


def fetched_folder(job_id: str) -> Path:
    """Return the local folder of a sweep's variables."""
    return places.spool_dir() / f"{job_id}.fetched"


def fetch(
    transport: Transport, record: Record, ends: Mapping[int, TaskEnd], key: bytes
) -> tuple[Path, dict[str, str]]:
    """Copy the variables of the successful tasks. Return the local folder, and the reason for each
    missing variable. Raises SignatureError."""
    job, remote = record.job, JobDir(PurePosixPath(record.job.job_dir))
    folder = fetched_folder(job.id)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    if record.params_sha256 is not None:
        _link(folder / layout.PARAMS, _params(transport, remote, record.params_sha256))
    lists = {task: one for task, one in _lists(ends) if one.names}
    for task, one in _lists(ends):
        check_asked([*one.names, *one.failed], job.names_out)
        if one.bytes > _SMALL_BYTES:
            path = transport.fetch(_path(remote, task, ends), one.bytes)
            check_signature(path, key, one.hmac)
            _link(folder / f"{task}.vars", path)
    small = [task for task, one in lists.items() if one.bytes <= _SMALL_BYTES]
    for together in _portions(small, lists):
        paths = {task: _path(remote, task, ends).relative_to(remote.path) for task in together}
        found = _read_together(transport, remote.path, [str(path) for path in paths.values()])
        for task, name in paths.items():
            path = folder / f"{task}.vars"
            path.write_bytes(found.get(str(name), b""))
            check_signature(path, key, lists[task].hmac)
    return folder, _failed(dict(_lists(ends)))


def _lists(ends: Mapping[int, TaskEnd]) -> Iterator[tuple[int, RunnerVariables]]:
    """Yield each successful task with the signed list of its variables."""
    for task, end in ends.items():
        if end.result is not None and end.result.variables and end.state == "COMPLETED":
            yield task, end.result.variables


def _path(remote: JobDir, task: int, ends: Mapping[int, TaskEnd]) -> PurePosixPath:
    return remote.task(task).variables(ends[task].attempt)


def _read_together(
    transport: Transport, folder: PurePosixPath, names: list[str]
) -> dict[str, bytes]:
    """Return the contents of small files with one command. Leave out missing files."""
    done = transport.run(
        ["tar", "-c", "-f", "-", "-C", str(folder), "-T", "-"],
        stdin="".join(f"{name}\n" for name in names).encode(),
        timeout_s=_TAR_S,
        most_bytes=2 * _TOGETHER_BYTES + len(names) * _TAR_HEAD_BYTES,
    )
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                found[member.name] = file.read()
    return found


def _portions(tasks: list[int], lists: Mapping[int, RunnerVariables]) -> Iterator[list[int]]:
    """Divide the tasks into portions that are read together."""
    some: list[int] = []
    size_bytes = 0
    for task in tasks:
        if some and size_bytes > _TOGETHER_BYTES:
            yield some
            some, size_bytes = [], 0
        some.append(task)
        size_bytes += lists[task].bytes
    if some:
        yield some


def _params(transport: Transport, remote: JobDir, sha256: str) -> Path:
    path = transport.fetch(remote.path / layout.PARAMS, limits.OUTPUT_BYTES * 64)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise SignatureError(
            "The parameters in the sweep's folder were changed after they were sent.",
            hint="Check the permissions of that folder.",
        )
    return path


def _link(path: Path, to: Path) -> None:
    path.symlink_to(to)


def _failed(lists: Mapping[int, RunnerVariables]) -> dict[str, str]:
    """Return the reasons for missing variables. Tasks with the same variable and reason share an
    entry."""
    found: dict[tuple[str, str], list[int]] = {}
    for task, one in lists.items():
        for name, why in one.failed.items():
            found.setdefault((name, why), []).append(task)
    return {
        f"{name} of task{'s' if len(tasks) > 1 else ''} {format_array(tasks)}": why
        for (name, why), tasks in found.items()
    }
