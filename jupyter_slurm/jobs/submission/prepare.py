"""A resolved job -> what is sent: the script, sbatch's command line, the folder's files. PURE.

Everything that a runtime or a kind of job makes different comes together here, so that what would
be submitted is a value one can look at (`--dry-run`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import msgspec

from jupyter_slurm import containers
from jupyter_slurm.containers import terminal
from jupyter_slurm.containers.typed import quoted, typed_text
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.submission import payload, staging
from jupyter_slurm.jobs.submission.checks import check_spec
from jupyter_slurm.jobs.submission.options import comment, our_options, signal_handed_on
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.jobs.submission.script import (
    NO_ROOM_EXIT,
    SETUP_EXIT,
    ScriptPlan,
    render_enter,
    render_environment,
    render_script,
)
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.transport.node_program import PYTHON, TERMINAL_FILES, node_file
from jupyter_slurm.wire import JobKind, JobSpec

Files = Mapping[str, bytes | Path]
"""Name in the job's folder -> content, or a local file to move there."""

_RUN_BY = MappingProxyType(
    {
        JobKind.CELL: layout.RUNNER,
        JobKind.SESSION: layout.SESSION,
        JobKind.KERNEL: layout.KERNEL,
        JobKind.LAB: layout.LAB,
    }
)
"""Programs of ours for the image's Python."""
_OVERLAYS = "~/.jupyter-slurm/labs"
"""Where JupyterLab is kept beside images that have none."""


@dataclass(frozen=True, slots=True)
class Submission:
    job: Resolved
    script: str
    sbatch: tuple[str, ...]
    files: Files
    """The key is still empty (`with_key`)."""
    command: str = ""
    """What the script starts, as one would type it; "": it is the user's own."""
    variables: tuple[str, ...] = ()
    """Names of what it finds in its environment."""


def with_key(files: Files, key: bytes) -> Files:
    """Return the files with the key that the job signs with, where its kind signs anything."""
    return {name: key if name == layout.KEY else content for name, content in files.items()}


def prepare(job: Resolved) -> Submission:
    """RequestError: an option that a job of this kind cannot have; it names the option."""
    if job.spec.kind is JobKind.SCRIPT:
        return _batch_script(job)
    options = dict(job.options)
    chdir = options.pop("chdir", None)
    reserve_s = staging.reserve_s(job)
    signal = signal_handed_on(job.spec, options)
    if reserve_s:
        options["signal"] = f"B:USR2@{reserve_s}"
    options |= our_options(job.spec, job.job_dir, options)
    launch, command = _launch(job, chdir)
    plan = _plan(job, launch, signal, reserve_s)
    script = render_script(plan)
    files: dict[str, bytes | Path] = {layout.SCRIPT: script.encode()}
    if job.environment:
        files[layout.ENVIRONMENT] = render_environment(job.environment).encode()
    files |= _files_of_kind(job)
    files[layout.USAGE] = node_file(layout.USAGE)
    box, _ = _boxed(job, chdir)
    beside = terminal.beside(job.runtime, [], box)
    entered = replace(plan, command=beside.argv, before="", runtime_setup=beside.setup)
    files[layout.ENTER] = render_enter(entered).encode()
    argv = sbatch.argv(str(job.job_dir.path / layout.SCRIPT), options)
    return Submission(job, script, tuple(argv), files, command, tuple(job.environment))


def prepare_session_cell(spec: JobSpec) -> Files:
    """Return the files of a cell that a session runs, its key still empty. RequestError."""
    check_spec(spec)
    return _own_files(spec)


def _files_of_kind(job: Resolved) -> Files:
    spec = job.spec
    if spec.kind is JobKind.PROGRAM:
        return {layout.PROGRAM: spec.code.encode()}
    if spec.kind is JobKind.TERMINAL:
        terminals = {name: node_file(name) for name in TERMINAL_FILES}
        return {layout.PROGRAM: spec.code.encode(), **terminals}
    if spec.kind is JobKind.KERNEL:
        task = payload.kernel_task_json(terminal_name(spec.id), job.idle_s)
        return {**payload.kernel_files(), layout.TASK: task}
    return _lab_files(job) if spec.kind is JobKind.LAB else _cell_files(spec)


def _own_files(spec: JobSpec) -> dict[str, bytes | Path]:
    """What is of this cell alone."""
    files: dict[str, bytes | Path] = {
        layout.CELL: spec.code.encode(),
        layout.TASK: payload.task_json(spec),
        layout.KEY: b"",
    }
    if spec.inputs is not None:
        files[layout.INPUTS] = Path(spec.inputs)
    return files


def _plan(
    job: Resolved, launch: containers.Launch, signal: tuple[str, str] | None, reserve_s: int
) -> ScriptPlan:
    return ScriptPlan(
        title=f"{job.spec.name} ({job.spec.id})",
        job_dir=str(job.job_dir.path),
        command=launch.argv,
        modules=job.modules,
        setup=job.profile.setup,
        python=job.profile.python,
        before=staging.before_text(
            job, reserve_s, setup_exit=SETUP_EXIT, no_room_exit=NO_ROOM_EXIT
        ),
        runtime_setup=launch.setup,
        after=staging.after_text(job, reserve_s, no_room_exit=NO_ROOM_EXIT),
        pid_file=launch.pid_file,
        signal=signal,
        login_shell=job.profile.login_shell,
    )


def _workdir(job: Resolved, chdir: str | None, own: str) -> str | None:
    """Where the code runs, as the program sees it. None: the home.

    `--chdir` is taken as it is; `own` is the job's own folder. The folder that the job was asked
    for in is one of this machine: in an image the home has a path of its own, and of all other
    folders nothing is seen.
    """
    if chdir is None and job.runs_in_work:
        return own
    cwd = job.spec.cwd
    if chdir is not None or cwd is None or not job.in_image:
        return chdir or cwd
    here = PurePosixPath(cwd)
    return f"~/{here.relative_to(job.site.home)}" if here.is_relative_to(job.site.home) else None


def _cell_files(spec: JobSpec) -> Files:
    variables = bool(spec.names_in or spec.names_out) or spec.kind is JobKind.SESSION
    files = {**_own_files(spec), **payload.needed_files(variables)}
    if spec.kind is JobKind.SESSION:
        files |= payload.session_files()
    if variables:
        files[layout.CLOUDPICKLE] = payload.cloudpickle_zip()
    return files


def _lab_files(job: Resolved) -> Files:
    spec = job.spec
    task = {
        "id": spec.id,
        "door": door_name(spec.id),
        "base_url": lab_base_url(spec),
        "idle_s": job.idle_s,
        "install": spec.install,
        "image": job.site.image_file or job.image or "" if job.in_image else "",
        # An image sees the home, and of the job root nothing but the job's own folder.
        "overlay": _OVERLAYS if job.in_image else str(job.job_dir.path.parent.parent / "labs"),
    }
    return {
        layout.KEY: b"",
        layout.TASK: msgspec.json.encode(task),
        **payload.lab_files(),
    }


def lab_base_url(spec: JobSpec | None) -> str:
    """As its server has it; "/": it has a port of this machine to itself. server/lab_proxy.py
    serves what is below the other."""
    if spec is None or spec.jupyter_base_url is None:
        return "/"
    return f"{spec.jupyter_base_url}jupyter-slurm/lab-proxy/{spec.id}/"


def door_name(job_id: str) -> str:
    """What the socket is called behind which a job's lab is."""
    return f"jslurm-lab-{job_id}"


def terminal_name(job_id: str) -> str:
    """What the socket is called where one comes to a job's terminal, or kernel."""
    return f"jslurm-{job_id}"


def _launch(job: Resolved, chdir: str | None) -> tuple[containers.Launch, str]:
    """How the script starts the program, and how one would type that."""
    spec, runtime, python = job.spec, job.runtime, job.profile.python
    box, inside = _boxed(job, chdir)
    argv = [f"{inside}/{layout.PROGRAM}", *spec.arguments]
    if spec.kind in _RUN_BY:
        there = "python3" if runtime.takes_image else python
        # -B: what was imported from the job's folder needs no __pycache__ there.
        argv = [there, "-uB", f"{inside}/{_RUN_BY[spec.kind]}", inside, "{attempt}"]
    typed = runtime.typed([word.replace("{attempt}", "0") for word in argv], box, job.gpus)
    if job.modules:
        typed = ((quoted("module", "load", *job.modules),), *typed)
    if spec.kind is not JobKind.TERMINAL:
        return runtime.launch(argv, box), typed_text(typed)
    launch = terminal.in_terminal(runtime, argv, box)
    holder = (f"{job.job_dir.path}/{layout.TERMINAL}", "hold", terminal_name(spec.id))
    words = ("-sEB", *holder, f"{spec.keep_s:g}", *launch.argv)
    held = replace(launch, argv=("/bin/sh", "-c", PYTHON, "sh", python, *words))
    return held, typed_text(typed)


def _boxed(job: Resolved, chdir: str | None) -> tuple[containers.Box, str]:
    """Return the box to give to the runtime, and the path where the program sees the job dir."""
    box = containers.Box(
        job_dir=str(job.job_dir.path),
        image=job.site.image_file,
        mounts=job.mounts,
        env_file=layout.ENVIRONMENT if job.environment else None,
    )
    inside = job.runtime.job_dir(box)
    own = f"{inside}/{job.job_dir.work.name}"
    if job.is_staged:
        own = str(job.job_dir.stage)
        if job.runtime.takes_image:
            own = staging.INSIDE
            stage = containers.Mount(str(job.job_dir.stage), own)
            box = replace(box, mounts=(*box.mounts, stage))
    return replace(box, workdir=_workdir(job, chdir, own)), inside


def _batch_script(job: Resolved) -> Submission:
    """A script runs where it says, else in what was pushed, else where sbatch would run it: in the
    folder that it was written in, and on another machine in the home."""
    spec, options, own = job.spec, dict(job.options), job.directives
    options["comment"] = comment(spec, options.get("comment") or own.get("comment"))
    if not options.get("job-name") and not own.get("job-name"):
        options["job-name"] = spec.name
    if not options.get("chdir") and not own.get("chdir"):
        here = job.site.home if job.profile.host is not None else spec.cwd
        folder = str(job.job_dir.work) if spec.push is not None else here
        if folder:
            options["chdir"] = folder
    return Submission(
        job,
        spec.code,
        tuple(sbatch.argv(layout.SCRIPT, options, spec.arguments)),
        {layout.SCRIPT: spec.code.encode()},
    )
