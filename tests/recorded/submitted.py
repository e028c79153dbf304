"""Sixty jobs, and what is sent for each: every kind of job with every container tool, and with
staging.

`submitted/` holds a text a job: sbatch's command line, a digest of each file, and `--dry-run`. A
change of code that is meant to change no job leaves them as they are. To see what a change does to
the scripts themselves, write the whole texts before and after it into two folders and compare them:

    python -m tests.recorded.submitted FOLDER

Without FOLDER the digests are recorded anew.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from jupyter_slurm.cli.preview import preview_text
from jupyter_slurm.containers import RUNTIMES
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.prepare import Site, Submission, prepare
from jupyter_slurm.profiles import ClusterProfile, Storage
from jupyter_slurm.wire import JobKind, JobSpec, Preview

FOLDER = Path(__file__).with_name("submitted")
_NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
_HOME = "/home/alice"
_JOBS = f"{_HOME}/it's 50% mine/jobs"
_PLAIN_JOBS = f"{_HOME}/jobs"
"""pyxis mounts no other."""
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
"""As the cluster's machine resolves `pytorch:22.11`."""
_STAGED = ("none", "docker")
"""All container tools do the same for staging: they mount one more folder."""

_PROGRAM = "#!/bin/sh\n# Grüße, 'quotes' and $HOME\necho \"$@\"\n"
_SCRIPT = "#!/bin/bash\n#SBATCH --time=10\n#SBATCH --comment=theirs\nsrun hostname\n"
_CELL = "x = [value ** 2 for value in data]\nprint('Grüße $HOME', \"{x}\")\n"

_OF_KIND: dict[JobKind, dict[str, Any]] = {
    JobKind.CELL: {
        "code": _CELL,
        "names_in": ("data",),
        "names_out": ("x", "model"),
        "inputs": "/spool/data.vars",
        "options": {"gpus": "2", "time": "30m", "signal": "USR1@60", "comment": "it's mine"},
    },
    JobKind.PROGRAM: {
        "code": _PROGRAM,
        "arguments": ("a b", "$HOME", "it's", ""),
        "options": {"nodes": "2", "ntasks-per-node": "4", "mem": "8G"},
    },
    JobKind.TERMINAL: {"code": "#!/bin/bash\nexec bash -l\n", "options": {"gpus": "1"}},
    JobKind.SCRIPT: {"code": _SCRIPT, "arguments": ("a b",), "options": {"array": "1-8%2"}},
    JobKind.SESSION: {"code": "", "idle_s": 600, "options": {"gpus": "1", "time": "2h"}},
    JobKind.KERNEL: {"code": "", "options": {"cpus-per-task": "4", "time": "1h"}},
    JobKind.LAB: {"code": "", "install": True, "options": {"gpus": "1", "partition": "dgx"}},
}


def texts(*, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each job and what is sent for it: files as they are, or their digests."""
    for kind in JobKind:
        for runtime in ("none",) if kind is JobKind.SCRIPT else RUNTIMES:
            yield f"{kind}-{runtime}", _text(*_here(kind, runtime), whole)
        for runtime in ("none",) if kind is JobKind.SCRIPT else _STAGED:
            yield f"{kind}-{runtime}-staged", _text(*_staged(kind, runtime), whole)


def _here(kind: JobKind, runtime: str) -> tuple[JobSpec, ClusterProfile, Site]:
    """A job of the notebook's folder, where Slurm runs on this machine."""
    spec = {**_of(kind, runtime), "cwd": "/home/alice/my project"}
    if kind is not JobKind.SCRIPT:
        spec["env"] = {"OMP_NUM_THREADS": "4", "TOKEN": "it's $ecret"}
    profile = ClusterProfile(name="here", origin="recorded", job_env={"SITE": "a b"})
    return JobSpec(**spec), profile, _site(runtime)


def _staged(kind: JobKind, runtime: str) -> tuple[JobSpec, ClusterProfile, Site]:
    """A job with a folder of its own, pushed to another machine and copied to its node."""
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
    return JobSpec(**spec), profile, _site(runtime)


def _of(kind: JobKind, runtime: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"id": "abcdefgh", "name": "fit.model", "kind": kind, **_OF_KIND[kind]}
    if kind is JobKind.SCRIPT:
        return asked
    asked |= {"runtime": runtime, "modules": ("cuda/12.4",)}
    if runtime in _IMAGES:
        mounts = ("~/cache", "/data/a b:/mnt/data" + ("" if runtime == "charliecloud" else ":ro"))
        asked |= {"image": "pytorch:22.11", "mounts": mounts}
    return asked


def _site(runtime: str) -> Site:
    return Site(_HOME, _IMAGES.get(runtime))


def _text(spec: JobSpec, profile: ClusterProfile, site: Site, whole: bool) -> str:
    job_dir = JobDir(PurePosixPath(_PLAIN_JOBS if spec.runtime == "pyxis" else _JOBS, spec.id))
    sent = prepare(spec, profile, job_dir, site, key=b"the key")
    files = {name: _content(name, sent.files[name]) for name in sorted(sent.files)}
    compiled = [name for name in files if name.endswith(".pyc")]
    for name in compiled:  # that of the Python that runs here
        del files[name]
    parts = ["# sbatch is called as\n", *(f"{shlex.quote(word)}\n" for word in sent.sbatch)]
    if not whole:
        parts.append("\n# The files\n")
    for name, content in files.items():
        parts.append(f"\n==> {name} <==\n{content}" if whole else f"{name}: {_brief(content)}\n")
    parts.append(f"\n# --dry-run\n{_dry_run(sent, profile, job_dir)}")
    return "".join(parts)


def _content(name: str, content: bytes | Path) -> str:
    if isinstance(content, Path):
        return f"moved from {content}\n"
    ours = _NODE / name
    if ours.is_file() and ours.read_bytes() == content:
        return "as in node/\n"
    if name.endswith(".zip"):
        roots = {path.partition("/")[0] for path in zipfile.ZipFile(BytesIO(content)).namelist()}
        return f"a zip of {', '.join(sorted(roots))}\n"
    if name.endswith(".pyc"):
        return "bytecode\n"
    text = content.decode()
    return text if text.endswith("\n") else f"{text}\n"


def _brief(content: str) -> str:
    lines = content.splitlines()
    if len(lines) == 1:
        return lines[0]
    return f"{len(lines)} lines, SHA-256 {hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _dry_run(sent: Submission, profile: ClusterProfile, job_dir: JobDir) -> str:
    preview = Preview(
        cluster=profile.name,
        script="",
        sbatch=("sbatch",),
        job_dir=str(job_dir.path),
        files=(),
        command=sent.command,
        variables=sent.variables,
    )
    return preview_text(preview)


def write(folder: Path, *, whole: bool) -> None:
    """Write a text for each job, and remove those of jobs that are there no longer."""
    folder.mkdir(exist_ok=True)
    written = dict(texts(whole=whole))
    for path in folder.glob("*.txt"):
        if path.stem not in written:
            path.unlink()
    for name, text in written.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else FOLDER, whole=bool(sys.argv[1:]))
