"""JobSpec and profile -> what is sent: the script, sbatch's command line, the folder's files. PURE.

Everything that a cluster, a runtime or a kind of job makes different comes together here, so that
what would be submitted is a value one can look at (`--dry-run`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import msgspec

from jupyter_slurm import containers
from jupyter_slurm.containers import terminal
from jupyter_slurm.containers.mounts import parse_mount
from jupyter_slurm.containers.typed import quoted, typed_text
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission import payload, staging
from jupyter_slurm.jobs.submission.checks import check_environment, check_spec
from jupyter_slurm.jobs.submission.options import (
    comment,
    gpus_asked,
    merged_options,
    our_options,
    signal_handed_on,
)
from jupyter_slurm.jobs.submission.script import (
    NO_ROOM_EXIT,
    SETUP_EXIT,
    ScriptPlan,
    render_enter,
    render_environment,
    render_script,
)
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.transport.node_program import PYTHON, TERMINAL_FILES, node_file
from jupyter_slurm.wire import JobKind, JobSpec

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
    script: str
    sbatch: tuple[str, ...]
    files: dict[str, bytes | Path]
    """Name in the job's folder -> content, or a local file to move there."""
    command: str = ""
    """What the script starts, as one would type it; "": it is the user's own."""
    variables: tuple[str, ...] = ()
    """Names of what it finds in its environment."""


@dataclass(frozen=True, slots=True)
class Site:
    """What only the cluster's machine could tell."""

    home: str
    image: str | None = None
    """None: no image was asked for."""


def prepare(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, key: bytes
) -> Submission:
    """RequestError: something in `spec` cannot be; it names the word."""
    check_spec(spec)
    if spec.kind is JobKind.LAB and profile.host is not None:
        spec = msgspec.structs.replace(spec, cwd=None)  # a folder of this machine
    profile = profile.for_job(spec)
    environment = _environment(spec, profile)
    check_environment(environment)
    options = merged_options(spec, profile)
    if spec.kind is JobKind.SCRIPT:
        return _batch_script(spec, profile, job_dir, site, options)
    chdir = options.pop("chdir", None)
    _check_places(spec, profile, job_dir, site, chdir)
    reserve_s = staging.reserve_s(spec, profile, options)
    signal = signal_handed_on(spec, options)
    if reserve_s:
        options["signal"] = f"B:USR2@{reserve_s}"
    options |= our_options(spec, job_dir, options)
    launch, command = _launch(spec, profile, job_dir, site, chdir, gpus_asked(options))
    plan = _plan(spec, profile, job_dir, launch, signal, reserve_s)
    script = render_script(plan)
    files: dict[str, bytes | Path] = {layout.SCRIPT: script.encode()}
    if environment:
        files[layout.ENVIRONMENT] = render_environment(environment).encode()
    if spec.kind is JobKind.PROGRAM:
        files[layout.PROGRAM] = spec.code.encode()
    elif spec.kind is JobKind.TERMINAL:
        files[layout.PROGRAM] = spec.code.encode()
        files |= {name: node_file(name) for name in TERMINAL_FILES}
    elif spec.kind is JobKind.KERNEL:
        files |= payload.kernel_files()
        idle_s = idle_s_of(spec, profile)
        files[layout.TASK] = payload.kernel_task_json(terminal_name(spec.id), idle_s)
    elif spec.kind is JobKind.LAB:
        files |= _lab_files(spec, profile, job_dir, site, key)
    else:
        files |= _cell_files(spec, key)
    files[layout.USAGE] = node_file(layout.USAGE)
    runtime, box, _ = _boxed(spec, profile, job_dir, site, chdir)
    beside = terminal.beside(runtime, [], box)
    entered = replace(plan, command=beside.argv, before="", runtime_setup=beside.setup)
    files[layout.ENTER] = render_enter(entered).encode()
    argv = sbatch.argv(str(job_dir.path / layout.SCRIPT), options)
    return Submission(script, tuple(argv), files, command, tuple(environment))


def prepare_session_cell(spec: JobSpec, key: bytes) -> dict[str, bytes | Path]:
    """The files of a cell that a session runs: name in its folder -> content. RequestError."""
    check_spec(spec)
    return _own_files(spec, key)


def _own_files(spec: JobSpec, key: bytes) -> dict[str, bytes | Path]:
    """What is of this cell alone."""
    files: dict[str, bytes | Path] = {
        layout.CELL: spec.code.encode(),
        layout.TASK: payload.task_json(spec),
        layout.KEY: key,
    }
    if spec.inputs is not None:
        files[layout.INPUTS] = Path(spec.inputs)
    return files


def _plan(
    spec: JobSpec,
    profile: ClusterProfile,
    job_dir: JobDir,
    launch: containers.Launch,
    signal: tuple[str, str] | None,
    reserve_s: int,
) -> ScriptPlan:
    return ScriptPlan(
        title=f"{spec.name} ({spec.id})",
        job_dir=str(job_dir.path),
        command=launch.argv,
        modules=(*profile.modules, *spec.modules),
        setup=profile.setup,
        python=profile.python,
        before=staging.before_text(
            spec, profile, reserve_s, setup_exit=SETUP_EXIT, no_room_exit=NO_ROOM_EXIT
        ),
        runtime_setup=launch.setup,
        after=staging.after_text(spec, profile, reserve_s, no_room_exit=NO_ROOM_EXIT),
        pid_file=launch.pid_file,
        signal=signal,
        login_shell=profile.login_shell,
    )


def _workdir(
    spec: JobSpec, profile: ClusterProfile, site: Site, chdir: str | None, own: str
) -> str | None:
    """Where the code runs, as the program sees it. None: the home.

    `--chdir` is taken as it is; `own` is the job's own folder. The folder that the job was asked
    for in is one of this machine: in an image the home has a path of its own, and of all other
    folders nothing is seen.
    """
    if chdir is None and staging.runs_in_work(spec, profile):
        return own
    if chdir is not None or spec.cwd is None or runtime_of(spec, profile) == "none":
        return chdir or spec.cwd
    here = PurePosixPath(spec.cwd)
    return f"~/{here.relative_to(site.home)}" if here.is_relative_to(site.home) else None


def _check_places(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, chdir: str | None
) -> None:
    own = staging.runs_in_work(spec, profile)
    mounts = [("A mount", mount.src) for mount in _mounts(spec, profile, site)]
    staging.check_seen(
        profile,
        [
            ("The job's folder", str(job_dir.path)),
            ("The folder of --chdir", chdir),
            ("The folder of the notebook", None if own or chdir else spec.cwd),
            ("The image", site.image),
            *mounts,
        ],
    )


def image_of(spec: JobSpec, profile: ClusterProfile) -> str | None:
    """The image as it was asked for, by the cell or by the profile's defaults."""
    return spec.image or profile.defaults.get("image") or None


def runtime_of(spec: JobSpec, profile: ClusterProfile) -> str:
    """A job without an image runs on the node itself, whatever the cluster's container tool."""
    if spec.runtime or profile.defaults.get("runtime"):
        return spec.runtime or profile.defaults["runtime"]
    return profile.runtime if image_of(spec, profile) else "none"


def _mounts(spec: JobSpec, profile: ClusterProfile, site: Site) -> tuple[containers.Mount, ...]:
    """What the profile mounts for every image, and then what the job asks for."""
    in_image = containers.runtime_named(runtime_of(spec, profile)).takes_image
    profiles = profile.for_job(spec).mounts if in_image else ()
    return tuple(parse_mount(text, site.home) for text in (*profiles, *spec.mounts))


def _environment(spec: JobSpec, profile: ClusterProfile) -> dict[str, str]:
    return {**profile.job_env, **spec.env}


def _cell_files(spec: JobSpec, key: bytes) -> dict[str, bytes | Path]:
    variables = bool(spec.names_in or spec.names_out) or spec.kind is JobKind.SESSION
    files = {**_own_files(spec, key), **payload.needed_files(variables)}
    if spec.kind is JobKind.SESSION:
        files |= payload.session_files()
    if variables:
        files[layout.CLOUDPICKLE] = payload.cloudpickle_zip()
    return files


def _lab_files(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, key: bytes
) -> dict[str, bytes | Path]:
    runs_here = runtime_of(spec, profile) == "none"
    task = {
        "id": spec.id,
        "door": door_name(spec.id),
        "base_url": lab_base_url(spec),
        "idle_s": idle_s_of(spec, profile),
        "install": spec.install,
        "image": "" if runs_here else site.image or image_of(spec, profile) or "",
        # An image sees the home, and of the job root nothing but the job's own folder.
        "overlay": str(job_dir.path.parent.parent / "labs") if runs_here else _OVERLAYS,
    }
    return {
        layout.KEY: key,
        layout.TASK: msgspec.json.encode(task),
        **payload.lab_files(),
    }


def idle_s_of(spec: JobSpec, profile: ClusterProfile) -> int:
    """After how long a kernel or a lab ends of which nobody makes use."""
    return spec.idle_s or int(profile.idle_s)


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


def _launch(
    spec: JobSpec,
    profile: ClusterProfile,
    job_dir: JobDir,
    site: Site,
    chdir: str | None,
    gpus: int,
) -> tuple[containers.Launch, str]:
    """How the script starts the program, and how one would type that."""
    runtime, box, inside = _boxed(spec, profile, job_dir, site, chdir)
    argv = [f"{inside}/{layout.PROGRAM}", *spec.arguments]
    if spec.kind in _RUN_BY:
        python = "python3" if runtime.takes_image else profile.python
        # -B: what was imported from the job's folder needs no __pycache__ there.
        argv = [python, "-uB", f"{inside}/{_RUN_BY[spec.kind]}", inside, "{attempt}"]
    typed = runtime.typed([word.replace("{attempt}", "0") for word in argv], box, gpus)
    if modules := (*profile.modules, *spec.modules):
        typed = ((quoted("module", "load", *modules),), *typed)
    if spec.kind is not JobKind.TERMINAL:
        return runtime.launch(argv, box), typed_text(typed)
    launch = terminal.in_terminal(runtime, argv, box)
    holder = (f"{job_dir.path}/{layout.TERMINAL}", "hold", terminal_name(spec.id))
    words = ("-sEB", *holder, f"{spec.keep_s:g}", *launch.argv)
    held = replace(launch, argv=("/bin/sh", "-c", PYTHON, "sh", profile.python, *words))
    return held, typed_text(typed)


def _boxed(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, chdir: str | None
) -> tuple[containers.Runtime, containers.Box, str]:
    """The runtime, what it is told, and where the program finds the job dir."""
    runtime = containers.runtime_named(runtime_of(spec, profile))
    if not runtime.takes_image and spec.image:
        raise RequestError(
            f"The runtime {runtime.name} takes no image, but {spec.image!r} was asked for.",
            hint="Leave out --image, or name a container runtime with --runtime.",
            option="image",
        )
    box = containers.Box(
        job_dir=str(job_dir.path),
        image=site.image if runtime.takes_image else None,
        mounts=_mounts(spec, profile, site),
        env_file=layout.ENVIRONMENT if _environment(spec, profile) else None,
    )
    inside = runtime.job_dir(box)
    own = f"{inside}/{job_dir.work.name}"
    if staging.is_staged(spec, profile):
        own = str(job_dir.stage)
        if runtime.takes_image:
            own = staging.INSIDE
            box = replace(box, mounts=(*box.mounts, containers.Mount(str(job_dir.stage), own)))
    box = replace(box, workdir=_workdir(spec, profile, site, chdir, own))
    return runtime, box, inside


def _batch_script(
    spec: JobSpec,
    profile: ClusterProfile,
    job_dir: JobDir,
    site: Site,
    options: dict[str, str],
) -> Submission:
    """A script runs where it says, else in what was pushed, else where sbatch would run it: in the
    folder that it was written in, and on another machine in the home."""
    text = spec.code
    own = read_directives(text)
    options["comment"] = comment(spec, options.get("comment") or own.get("comment"))
    if not options.get("job-name") and not own.get("job-name"):
        options["job-name"] = spec.name
    if not options.get("chdir") and not own.get("chdir"):
        here = site.home if profile.host is not None else spec.cwd
        folder = str(job_dir.work) if spec.push is not None else here
        if folder:
            options["chdir"] = folder
    return Submission(
        text,
        tuple(sbatch.argv(layout.SCRIPT, options, spec.arguments)),
        {layout.SCRIPT: text.encode()},
    )
