"""What a job gets, as digests: a cell that is run again attaches only to one that got the same.

The values of its variables are digested where they are (`JobSpec.inputs_digest`). Nothing of the
cluster is asked here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from jupyter_slurm.errors import FileAccessError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.transfers import pushed_folder
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.jobs.submission.inputs import MAYBE
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.transport.files.ignore import Exclusion
from jupyter_slurm.transport.files.manifest import scan
from jupyter_slurm.wire import CellSpec, Earlier, InputPart, Job, JobSpec, JobState

_IMAGE_FILE = "image file"


def given(job: Resolved) -> dict[str, str]:
    """Digest what a job gets, by what it is. The image's path is part of it, since an image that
    was made anew lies elsewhere; `Resolved.site` may not know it."""
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
    """Digest what a cell of a session gets; the image and the node are the session's."""
    return _given(spec, [spec.session])


def _given(spec: JobSpec, of_cluster: Sequence[object]) -> dict[str, str]:
    asked = [spec.kind, spec.name, spec.modules, sorted(spec.env.items()), spec.mounts]
    asked += [spec.container_name] if spec.container_name else []
    asked += ["root"] if spec.container_remap_root else []
    own = [getattr(spec, name) for name in kind_of(spec).identified_by]
    found = {
        "options": _digest([of_cluster, asked, own, spec.fetch, spec.push, spec.push_exclude]),
        "folder": _digest(spec.cwd),
    }
    if isinstance(spec, CellSpec) and spec.names_in:
        found["in"] = spec.inputs_digest or _unknown()
    if spec.push is not None:
        found["push"] = _listing(spec, spec.push)
    return found


def differences(now: dict[str, str], then: dict[str, str]) -> tuple[InputPart, ...]:
    """Return the parts that are not, or may not be, the same."""
    parts: tuple[InputPart, ...] = ("options", "folder", "image", "in", "push")
    differ = [part for part in parts if now.get(part) != then.get(part)]
    files = now.get(_IMAGE_FILE), then.get(_IMAGE_FILE)
    if "image" not in differ and None not in files and files[0] != files[1]:
        differ.append("image")
    unsure = any(MAYBE in one.get("in", "") for one in (now, then))
    return tuple("in?" if part == "in" and unsure else part for part in differ)


def earlier(cells: Sequence[Record], given: Callable[[], dict[str, str]]) -> Earlier | None:
    """Choose from the jobs of a cell, newest first, the one to attach to, or to speak of; `given`
    returns what the cell's job would get now, and is called only where there is such a job."""
    others = [record for record in cells if _has_open_end(record.job)]
    if not others:
        return None
    now = given()
    differs = {record.job.id: differences(now, record.given) for record in cells}
    same = next((record for record in cells if not differs[record.job.id]), None)
    if same is not None and _has_open_end(same.job):
        return Earlier(job=same.job)
    going = [record for record in others if not record.job.state.final]
    found = next((r.job for r in (*going, *others) if differs[r.job.id]), None)
    return None if found is None else Earlier(job=found, differs=differs[found.id])


def _has_open_end(job: Job) -> bool:
    """Tell whether the job goes on, or nobody has had its outcome. One that was cancelled, by us or
    by `scancel`, has none that anybody would come back to."""
    if job.cancel_requested_s is not None or job.state in (JobState.REJECTED, JobState.CANCELLED):
        return False
    return not (job.state.final and job.delivered)


def _listing(spec: JobSpec, local: str) -> str:
    """Digest the files that would be pushed: names, sizes and times. The notebook itself is left
    out: it is saved again and again while its cells are the same."""
    own = os.fsencode(Path(spec.notebook).name) if spec.notebook else None
    try:
        folder = pushed_folder(local, whole=not spec.push_only)
        found = scan(os.fsencode(folder), Exclusion(spec.push_exclude, spec.push_only))
    except (FileAccessError, NotFoundError, RequestError):  # it is refused when it is pushed
        return _unknown()
    # The time of a folder is that of a file which may have been left out.
    lines = [
        (name, one.kind, one.mode, *((one.size_bytes, one.mtime_ns) if one.kind == "file" else ()))
        for name, one in found.entries.items()
        if name.rpartition(b"/")[2] != own
    ]
    links = [(name, one.link) for name, one in found.entries.items() if one.kind == "link"]
    return _digest([sorted(lines), sorted(links), sorted(found.unread)])


def _unknown() -> str:
    """Return a digest that equals no other."""
    return MAYBE + secrets.token_hex(16)


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()
