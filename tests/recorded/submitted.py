"""Records of submissions: every kind of job with every container tool, and staged.

`submitted/` has a text for each job: sbatch's command line, a digest of each file, and the program
that `--dry-run` shows. A change that should not affect jobs does not change these texts. To see how
a change affects the scripts, write the whole files into one folder before the change and into
another one after it. Then compare the folders:

    python -m tests.recorded.submitted FOLDER

Without FOLDER it updates the digests in `submitted/`.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from jupyter_slurm.containers import RUNTIMES
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.prepare import Submission, prepare, with_key
from jupyter_slurm.jobs.submission.resolve import Site, resolved
from jupyter_slurm.profiles.profile import ClusterProfile, Storage
from jupyter_slurm.views.preview_text import preview_lines
from jupyter_slurm.wire import JobKind, JobSpec, Preview
from tests.specs import job_spec

Shown = Callable[[bytes], str]
"""Write the content of a file as text; it ends with a newline."""

FOLDER = Path(__file__).with_name("submitted")
_NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
_HOME = "/home/alice"
_JOBS = f"{_HOME}/it's 50% mine/jobs"
_PLAIN_JOBS = f"{_HOME}/jobs"
"""A job root for pyxis, which cannot mount a path with blanks or quotes."""
_IMAGES = {
    "charliecloud": "/images/pytorch 22.11",
    "apptainer": "/images/pytorch,22.11.sif",
    "singularity": "docker://pytorch/pytorch:22.11",
    "docker": "pytorch/pytorch:22.11",
    "sudo-docker": "pytorch/pytorch:22.11",
    "podman": "docker.io/pytorch/pytorch:22.11",
    "pyxis": "docker://pytorch/pytorch:22.11",
    "enroot": "/images/pytorch.sqsh",
}
"""The path or name of `pytorch:22.11` on the login node for each runtime."""
_IMAGE = "/images/pytorch"
"""The path of `pytorch:22.11` for other runtimes."""
_STAGED = ("none", "docker")
"""Runtimes of the staged jobs. In every container tool, staging only adds a mount."""

_PROGRAM = "#!/bin/sh\n# Grüße, 'quotes' and $HOME\necho \"$@\"\n"
_SCRIPT = "#!/bin/bash\n#SBATCH --time=10\n#SBATCH --comment=theirs\nsrun hostname\n"
_CELL = "x = [value ** 2 for value in data]\nprint('Grüße $HOME', \"{x}\")\n"

OF_KIND: dict[JobKind, dict[str, Any]] = {
    JobKind.CELL: {
        "code": _CELL,
        "names_in": ("data",),
        "names_out": ("x", "model"),
        "inputs": "/spool/data.vars",
        "options": {"gpus": "2", "time": "30m", "signal": "USR1@60", "comment": "it's mine"},
    },
    JobKind.SWEEP: {
        "code": _CELL,
        "tasks": "0-99",
        "names_params": ("data",),
        "params": "/spool/params.vars",
        "names_out": ("x",),
        "max_running": 8,
        "options": {"gpus": "1", "time": "30m", "signal": "USR1@60", "comment": "it's mine"},
    },
    JobKind.PROGRAM: {
        "code": _PROGRAM,
        "arguments": ("a b", "$HOME", "it's", ""),
        "options": {"nodes": "2", "ntasks-per-node": "4", "mem": "8G"},
    },
    JobKind.SCRIPT: {"code": _SCRIPT, "arguments": ("a b",), "options": {"array": "1-8%2"}},
    JobKind.SESSION: {"code": "", "idle_s": 600, "options": {"gpus": "1", "time": "2h"}},
    JobKind.KERNEL: {"code": "", "options": {"cpus-per-task": "4", "time": "1h"}},
    JobKind.LAB: {"code": "", "options": {"gpus": "1", "partition": "dgx"}},
}


def texts(shown: Shown) -> Iterator[tuple[str, str]]:
    """Yield the name of each job, and the text of its submission."""
    for kind in OF_KIND:
        for runtime in ("none",) if kind is JobKind.SCRIPT else RUNTIMES:
            yield f"{kind}-{runtime}", _text(*_here(kind, runtime), shown)
        for runtime in ("none",) if kind is JobKind.SCRIPT else _STAGED:
            yield f"{kind}-{runtime}-staged", _text(*_staged(kind, runtime), shown)


def whole(content: bytes) -> str:
    """Return the content as text."""
    text = content.decode()
    return text if text.endswith("\n") else f"{text}\n"


def digest(content: bytes) -> str:
    """Return a single line unchanged, and for more lines their count and SHA-256."""
    lines = content.splitlines()
    if len(lines) == 1:
        return whole(content)
    return f"{len(lines)} lines, SHA-256 {hashlib.sha256(content).hexdigest()[:16]}\n"


def _here(kind: JobKind, runtime: str) -> tuple[JobSpec, ClusterProfile]:
    """Return a job in the notebook's folder, with Slurm on this machine."""
    spec = {**_of(kind, runtime), "cwd": "/home/alice/my project"}
    if kind is not JobKind.SCRIPT:
        spec["env"] = {"OMP_NUM_THREADS": "4", "TOKEN": "it's $ecret"}
    profile = ClusterProfile(name="here", origin="recorded", job_env={"SITE": "a b"})
    return job_spec(**spec), profile


def _staged(kind: JobKind, runtime: str) -> tuple[JobSpec, ClusterProfile]:
    """Return a job whose folder is pushed to another machine and copied to the node."""
    spec = {
        **_of(kind, runtime),
        "push": "/home/me/my project",
        "fetch": ("results/**", "*.png"),
        "fetch_to": "/home/me/my project",
    }
    profile = ClusterProfile(
        name="far",
        origin="recorded",
        host="gateway.example",
        storage=Storage(scratch="/scratch/$USER", stage=True, reserve_s=120, hidden=("/prj",)),
        modules=("python/3.11",),
        mounts=("/data:/data:ro",),
        setup="ulimit -n 4096",
        defaults={"partition": "long", "time": "4h"},
    )
    return job_spec(**spec), profile


def _of(kind: JobKind, runtime: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"id": "abcdefgh", "name": "fit.model", "kind": kind, **OF_KIND[kind]}
    if kind is JobKind.SCRIPT:
        return asked
    asked |= {"runtime": runtime, "modules": ("cuda/12.4",)}
    if RUNTIMES[runtime].takes_image:
        mounts = ("~/cache", "/data/a b:/mnt/data" + ("" if runtime == "charliecloud" else ":ro"))
        asked |= {"image": "pytorch:22.11", "mounts": mounts}
    return asked


def _text(spec: JobSpec, profile: ClusterProfile, shown: Shown) -> str:
    job_dir = JobDir(PurePosixPath(_PLAIN_JOBS if spec.runtime == "pyxis" else _JOBS, spec.id))
    image = _IMAGES.get(spec.runtime or "", _IMAGE) if spec.image else None
    sent = prepare(resolved(spec, profile, Site(_HOME, job_dir, image)))
    files = with_key(sent.files, b"the key")
    parts = ["==> sbatch's command line <==\n", *(f"{shlex.quote(word)}\n" for word in sent.sbatch)]
    parts += [f"\n==> {name} <==\n{_content(name, files[name], shown)}" for name in sorted(files)]
    parts.append("\n==> what --dry-run says of it <==\n")
    parts += [f"{line}\n" for line in preview_lines(_preview(sent))]
    return "".join(parts)


def _content(name: str, content: bytes | Path, shown: Shown) -> str:
    if isinstance(content, Path):
        return f"moved from {content}\n"
    ours = _NODE / name
    if ours.is_file() and ours.read_bytes() == content:
        return "as in node/\n"
    if name.endswith(".zip"):
        roots = {path.partition("/")[0] for path in zipfile.ZipFile(BytesIO(content)).namelist()}
        return f"a zip of {', '.join(sorted(roots))}\n"
    return shown(content)


def _preview(sent: Submission) -> Preview:
    """Return the part of a preview that needs no cluster, without checks and costs."""
    return Preview(
        cluster=sent.job.profile.name,
        script=sent.script,
        sbatch=sent.sbatch,
        job_dir=str(sent.job.job_dir.path),
        files=tuple(sent.files),
        variables=sent.variables,
    )


def write(folder: Path, shown: Shown) -> None:
    """Write a text file for each job."""
    folder.mkdir(exist_ok=True)
    for name, text in texts(shown):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        write(Path(sys.argv[1]), whole)
    else:
        write(FOLDER, digest)
