"""Labs, which run JupyterLab on the node through node/lab.py. No I/O."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from jupyter_slurm.errors import MalformedError, RequestError
from jupyter_slurm.formatting import duration
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import PROGRESS_BYTES, SHUT_DOWN, ByPython, Files
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.untrusted_json import Moment, read_json
from jupyter_slurm.wire import Job, JobSpec, LabJob, LabSpec, LabStep

if TYPE_CHECKING:
    from jupyter_slurm.jobs.outcome.verdict import Evidence
    from jupyter_slurm.jobs.submission.resolve import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile

_STEPS = frozenset(step.value for step in LabStep)
_BASE_URL = re.compile(r"/([A-Za-z0-9._~%!$&'()*+,;=:@-]+/)*")
"""A pattern for a URL's path (RFC 3986) that begins and ends with /."""


class _LabProgress(msgspec.Struct, frozen=True, kw_only=True):
    step: str
    """A value of `LabStep`, or the reason for the lab's end."""
    python: tuple[int, int, int] | None = None
    """The Python version of the lab's kernels."""
    idle_since_s: Moment | None = None


class Lab(ByPython[LabSpec]):
    __slots__ = ()

    spec = LabSpec
    job = LabJob
    noun = "lab"
    idle_without = "without use"
    is_in_home = True
    needs_packages = ("jupyterlab",)
    runner = layout.LAB
    node_files = ("framing", "lab", "private_folder", "socket_proxy")
    is_web_server = True
    is_service = True
    at_end = MappingProxyType({"lab": None})
    failures = MappingProxyType(
        {
            65: (
                "JupyterLab not found.",
                "Use or build an image with JupyterLab (`%%slurm_image NAME --from IMAGE` with "
                "`pip install jupyterlab`), or use a remote kernel (`jupyter slurm kernel add`).",
            ),
            70: (
                "JupyterLab failed.",
                "See the job's output.",
            ),
        }
    )

    def check(self, spec: LabSpec) -> None:
        if spec.idle_s is not None and spec.idle_s < 1:
            raise RequestError("--idle must be at least one second.")
        base_url = spec.jupyter_base_url
        if base_url is not None and not _BASE_URL.fullmatch(base_url):
            raise RequestError(f"{base_url!r} is not the base URL of a Jupyter server.")

    def completed(self, spec: LabSpec, profile: ClusterProfile) -> LabSpec:
        return replace(
            spec,
            idle_s=spec.idle_s or int(profile.idle_s),
            cwd=spec.cwd if profile.host is None else None,  # a local folder
            jupyter_base_url=spec.jupyter_base_url if profile.lab_same_origin else None,
        )

    def files(self, spec: LabSpec, job: Resolved) -> Files:
        task = {
            "id": spec.id,
            "name": spec.name or "lab",
            "gpus": job.gpus,
            "door": lab_socket_name(spec.id),
            "base_url": lab_base_url(spec),
            "idle_s": spec.idle_s,
        }
        return {**super().files(spec, job), layout.KEY: b"", layout.TASK: msgspec.json.encode(task)}

    def progress_file(self, job: Job, folder: JobDir) -> PurePosixPath | None:
        return folder.lab(job.restarts)

    def progress(self, job: Job, tail: bytes) -> dict[str, Any]:
        line = _last_line(tail)
        if line is None or job.lab is None or line.step not in _STEPS:
            return {}
        return {
            "lab": msgspec.structs.replace(job.lab, step=LabStep(line.step)),
            "python": line.python,
            "idle_since_s": line.idle_since_s,
        }

    def on_requeue(self, job: Job) -> dict[str, Any]:
        if job.lab is None:
            return {}
        return {
            "lab": msgspec.structs.replace(job.lab, step=LabStep.WAITING),
            "idle_since_s": None,
        }

    def success_reason(self, evidence: Evidence) -> str:
        line, idle_s = _last_line(evidence.progress), evidence.idle_s
        if line is None:
            return super().success_reason(evidence)
        if line.step == "idle" and idle_s is not None:
            return f"Stopped after {duration(idle_s)} without use."
        return SHUT_DOWN


def _last_line(tail: bytes) -> _LabProgress | None:
    """Return the last complete and valid line of the file; None without a valid line."""
    for line in reversed(tail[: tail.rfind(b"\n") + 1].splitlines()):
        try:
            return read_json(line, _LabProgress, PROGRESS_BYTES)
        except MalformedError:
            continue
    return None


def lab_base_url(spec: JobSpec | None) -> str:
    """Return the base URL of the lab's server. It is "/" unless server/lab_proxy.py serves the lab
    below the URL of a Jupyter server."""
    if not isinstance(spec, LabSpec) or spec.jupyter_base_url is None:
        return "/"
    return f"{spec.jupyter_base_url}jupyter-slurm/lab-proxy/{spec.id}/"


def lab_socket_name(job_id: str) -> str:
    """Return the name of the lab's abstract socket."""
    return f"jslurm-lab-{job_id}"
