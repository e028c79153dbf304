"""Digests of a job's inputs. A repeated cell attaches only to a job with equal inputs.

The client digests the values of variables (`JobSpec.inputs_digest`). This module does not contact
the cluster.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from jupyter_slurm.errors import FileAccessError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.transfers import pushed_folder
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.records.registry import Record
from jupyter_slurm.jobs.records.renames import Rename
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.transport.files.ignore import Exclusion
from jupyter_slurm.transport.files.manifest import scan
from jupyter_slurm.variables import MAYBE
from jupyter_slurm.wire import CellSpec, Earlier, InputPart, Job, JobSpec, JobState, SweepSpec

_IMAGE_FILE = "image file"
_CLOCK_S = 2.0
"""Tolerance for the start time of a process, since Linux reports the boot time in whole seconds."""


def given(job: Resolved) -> dict[str, str]:
    """Return the digest of each input of a job, by the input's name. The image's path is an input,
    since a rebuilt image has a new path. `Resolved.site` may lack the path."""
    profile = job.profile
    of_cluster = [
        profile.name,
        sorted(job.options.items()),
        [profile.python, profile.modules, profile.setup],
        [sorted(profile.job_env.items()), profile.mounts],
    ]
    found = _given(job.spec, of_cluster) | {"image": _digest([job.image, job.runtime.name])}
    if job.site.image_file is not None:
        found[_IMAGE_FILE] = _digest(job.site.image_file)
    return found


def given_in_session(spec: CellSpec) -> dict[str, str]:
    """Return the digest of each input of a session's cell. The cell uses the session's image and
    node."""
    return _given(spec, [spec.session])


def _given(spec: JobSpec, of_cluster: Sequence[object]) -> dict[str, str]:
    asked: list[object] = [
        spec.kind,
        spec.name,
        spec.modules,
        sorted(spec.env.items()),
        spec.mounts,
    ]
    asked += [spec.container_name] if spec.container_name else []
    asked += ["root"] if spec.container_remap_root else []
    asked += [spec.environment] if spec.environment is not None else []
    asked += [spec.after] if spec.after else []
    own = [getattr(spec, name) for name in kind_of(spec).identified_by]
    own += [spec.tasks] if isinstance(spec, SweepSpec) and not spec.names_params else []
    found = {
        "options": _digest([of_cluster, asked, own, spec.fetch, spec.push_exclude]),
        "folder": _folder(spec),
    }
    if isinstance(spec, CellSpec | SweepSpec) and spec.names_in:
        found["in"] = spec.inputs_digest or _unknown()
    if isinstance(spec, SweepSpec) and spec.names_params:
        found["in"] = f"{found.get('in', '')} {spec.params_digest or _unknown()}"
    if spec.push is not None:
        found["push"] = _listing(spec, spec.push)
    return found


def moved(record: Record, rename: Rename) -> dict[str, object] | None:
    """Update a record after the rename of a notebook or folder. Return the changes of the record's
    job; None if the rename does not affect the job."""
    spec, asked = rename.spec(record.spec), rename.spec(record.asked)
    paths = {"notebook": record.job.notebook, "fetch_to": record.job.fetch_to}
    changes = {name: path and rename.followed(path) for name, path in paths.items()}
    if (spec, asked, changes) == (record.spec, record.asked, paths):
        return None
    if asked is not None and asked != record.asked and "folder" in record.given:
        record.given = {**record.given, "folder": _folder(asked)}
    record.spec, record.asked = spec, asked
    return {**changes}


def _folder(spec: JobSpec) -> str:
    return _digest([spec.cwd, spec.push])


def differences(now: dict[str, str], then: dict[str, str]) -> tuple[InputPart, ...]:
    """Return the names of inputs that differ or may differ."""
    parts: tuple[InputPart, ...] = ("options", "folder", "image", "in", "push")
    differ = [part for part in parts if now.get(part) != then.get(part)]
    files = now.get(_IMAGE_FILE), then.get(_IMAGE_FILE)
    if "image" not in differ and None not in files and files[0] != files[1]:
        differ.append("image")
    unsure = any(MAYBE in one.get("in", "") for one in (now, then))
    return tuple("in?" if part == "in" and unsure else part for part in differ)


def earlier(
    cells: Sequence[Record], given: Callable[[], dict[str, str]], kernel: str | None
) -> Earlier | None:
    """Choose the earlier job for a cell in `kernel`. The cell attaches to this job, or the caller
    reports this job because its inputs differ. Return None without such a job. `cells` are the
    records of the cell's jobs, newest first.

    `given` returns the digests of a new job's inputs. It is called only if an earlier job is
    unfinished or undelivered."""
    others = [record for record in cells if _has_open_end(record.job)]
    if not others:
        return None
    now = given()
    differs = {
        record.job.id: (*differences(now, record.given), *_other_kernel(record, kernel))
        for record in cells
    }
    same = next((record for record in cells if not differs[record.job.id]), None)
    if same is not None and _has_open_end(same.job):
        return Earlier(job=same.job)
    going = [record for record in others if not record.job.state.final]
    found = next((r.job for r in (*going, *others) if differs[r.job.id]), None)
    return None if found is None else Earlier(job=found, differs=differs[found.id])


def _other_kernel(record: Record, kernel: str | None) -> tuple[InputPart, ...]:
    """Return ("kernel",) if another kernel submitted the job and is still running, otherwise ()."""
    submitted = record.asked and record.asked.kernel
    return ("kernel",) if submitted and submitted != kernel and _runs(submitted) else ()


def _runs(kernel: str) -> bool:
    with suppress(psutil.Error, ValueError):
        pid, began_s = kernel.split(" ")
        process = psutil.Process(int(pid))
        same = abs(process.create_time() - float(began_s)) < _CLOCK_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    return False


def _has_open_end(job: Job) -> bool:
    """Return whether the job has not ended, or its result is undelivered. Return False for a
    rejected or cancelled job."""
    if job.cancel_requested_s is not None or job.state in (JobState.REJECTED, JobState.CANCELLED):
        return False
    return not (job.state.final and job.delivered)


def _listing(spec: JobSpec, local: str) -> str:
    """Digest the names, sizes and times of the files to push. Leave out the notebook, since saving
    changes the file even if the cells stay the same."""
    own = os.fsencode(Path(spec.notebook).name) if spec.notebook else None
    try:
        folder = pushed_folder(local)
        found = scan(os.fsencode(folder), Exclusion(spec.push_exclude))
    except (FileAccessError, NotFoundError, RequestError):  # the push will report the error
        return _unknown()
    # Leave out the times of folders, since an excluded file may have changed them.
    lines = [
        (name, one.kind, one.mode, *((one.size_bytes, one.mtime_ns) if one.kind == "file" else ()))
        for name, one in found.entries.items()
        if name.rpartition(b"/")[2] != own
    ]
    links = [(name, one.link) for name, one in found.entries.items() if one.kind == "link"]
    return _digest([sorted(lines), sorted(links), sorted(found.unread)])


def _unknown() -> str:
    """Return a unique digest for an unknown input."""
    return MAYBE + secrets.token_hex(16)


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()
