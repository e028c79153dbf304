"""JobSpec and profile -> what is sent: the script, sbatch's command line, the folder's files. PURE.

Everything that a cluster, a runtime or a kind of job makes different comes together here, so that
what would be submitted is a value one can look at (`--dry-run`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from jupyter_slurm import containers
from jupyter_slurm.containers import terminal
from jupyter_slurm.containers.mounts import parse_mount
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout, payload, staging
from jupyter_slurm.jobs.checks import check_environment, check_spec
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.script import (
    NO_ROOM_EXIT,
    SETUP_EXIT,
    ScriptPlan,
    render_enter,
    render_environment,
    render_script,
)
from jupyter_slurm.profiles import ClusterProfile
from jupyter_slurm.slurm import options as sbatch_options
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.units import gpus_in_tres
from jupyter_slurm.transport.node_program import PYTHON, TERMINAL_FILES, node_file
from jupyter_slurm.wire import JobKind, JobSpec

_TOKEN = "jslurm:"  # noqa: S105 (a label, no secret)
"""Before our id in a job's comment, by which a job is found again whose id was never heard."""

_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})
_CORES = frozenset({"ntasks", "ntasks-per-node", "cpus-per-gpu"})
"""Who says one of these has counted cores: a default of `cpus-per-task` would multiply them."""
_INTERRUPTS = ("TERM", "INT", "USR1", "USR2")
"""Signals that the runner turns into KeyboardInterrupt as they come."""


@dataclass(frozen=True, slots=True)
class Submission:
    script: str
    sbatch: tuple[str, ...]
    files: dict[str, bytes | Path]
    """Name in the job's folder -> content, or a local file to move there."""
    command: tuple[str, ...] = ()
    """What the script starts; (): it is the user's own."""


@dataclass(frozen=True, slots=True)
class Site:
    """What only the cluster's machine could tell."""

    home: str
    image: str | None = None
    """None: no image was asked for."""


def comment_token(job_id: str) -> str:
    return f"{_TOKEN}{job_id}"


def slurm_name(spec: JobSpec) -> str:
    """The job's name in Slurm. `squeue` and `sacct` find jobs by name, so our id is part of it."""
    return f"{spec.name}.{spec.id}"


def prepare(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, key: bytes
) -> Submission:
    """RequestError: something in `spec` cannot be; it names the word."""
    check_spec(spec)
    check_environment(_environment(spec, profile))
    options = merged_options(spec, profile)
    if spec.kind is JobKind.SCRIPT:
        return _batch_script(spec, profile, job_dir, site, options)
    chdir = options.pop("chdir", None)
    _check_places(spec, profile, job_dir, site, chdir)
    reserve_s = staging.reserve_s(spec, profile, options)
    signal = _signal(spec, options)
    if reserve_s:
        options["signal"] = f"B:USR2@{reserve_s}"
    for name, value in _our_options(spec, job_dir, options).items():
        options[name] = value
    launch = _launch(spec, profile, job_dir, site, chdir)
    plan = _plan(spec, profile, job_dir, launch, signal, reserve_s)
    script = render_script(plan)
    files: dict[str, bytes | Path] = {layout.SCRIPT: script.encode()}
    if _environment(spec, profile):
        files[layout.ENVIRONMENT] = render_environment(_environment(spec, profile)).encode()
    if spec.kind is JobKind.PROGRAM:
        files[layout.PROGRAM] = spec.code.encode()
    elif spec.kind is JobKind.TERMINAL:
        files[layout.PROGRAM] = spec.code.encode()
        files |= {name: node_file(name) for name in TERMINAL_FILES}
    else:
        files |= _cell_files(spec, key)
    runtime, box, _ = _boxed(spec, profile, job_dir, site, chdir)
    beside = terminal.beside(runtime, [], box)
    entered = replace(plan, command=beside.argv, before="", runtime_setup=beside.setup)
    files[layout.ENTER] = render_enter(entered).encode()
    argv = sbatch.argv(str(job_dir.path / layout.SCRIPT), options)
    return Submission(script, tuple(argv), files, launch.argv)


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


def merged_options(spec: JobSpec, profile: ClusterProfile) -> dict[str, str]:
    """The profile's defaults under what the spec says, each checked by sbatch's own table.

    What a batch script says itself is no default's to change: sbatch puts its line above both.
    """
    own = read_directives(spec.code) if spec.kind is JobKind.SCRIPT else {}
    asked = {*own, *spec.options}
    if not asked.isdisjoint(_MEMORY):
        asked |= _MEMORY
    if not asked.isdisjoint(_CORES):
        asked |= {"cpus-per-task"}
    known = {
        name: value
        for name, value in profile.defaults.items()
        if name in sbatch_options.OPTIONS and name not in asked
    }
    try:
        merged = {
            name: sbatch_options.check_option(name, value)
            for name, value in {**known, **spec.options}.items()
        }
        sbatch_options.check_together(merged)
    except sbatch_options.OptionError as exc:
        raise RequestError(str(exc)) from exc
    return merged


def _our_options(spec: JobSpec, job_dir: JobDir, options: dict[str, str]) -> dict[str, str]:
    for name, instead in (
        ("array", "An array is a batch script for now: use %%sbatch."),
        ("output", "The output comes back into the cell, and `%slurm logs` shows all of it."),
        ("error", "The output comes back into the cell, and `%slurm logs` shows all of it."),
        ("export", "`--env NAME=VALUE` gives the job a variable."),
        ("open-mode", "The output comes back into the cell."),
    ):
        if name in options:
            raise RequestError(f"`--{name}` cannot be used with a cell.", hint=instead)
    ours = {
        "job-name": slurm_name(spec),
        "comment": _comment(spec, options.get("comment")),
        "chdir": str(job_dir.path),
        "output": sbatch.literal_path(str(job_dir.slurm_out)),
        "open-mode": "append",
    }
    if "requeue" not in options:
        # A cell that appends to a file must not run twice unless its writer says that it may.
        ours["no-requeue"] = ""
    return ours


def _comment(spec: JobSpec, given: str | None) -> str:
    """The user's comment behind our token, which is a word by itself."""
    comment = " ".join(filter(None, (comment_token(spec.id), given)))
    try:
        return sbatch_options.check_option("comment", comment)
    except sbatch_options.OptionError as exc:
        raise RequestError("The comment is too long.", hint=str(exc)) from exc


def _signal(spec: JobSpec, options: dict[str, str]) -> tuple[str, str] | None:
    """Rewrites `--signal` so that it reaches the batch script (`B:`), which hands it on: without
    the `B:` only steps of srun get it (sbatch(1))."""
    value = options.get("signal")
    if not value:
        return None
    flags, _, rest = value.rpartition(":")
    name, at, time = rest.partition("@")
    if "B" not in flags:
        options["signal"] = f"{'R' if 'R' in flags else ''}B:{name}{at}{time}"
    name = name.removeprefix("SIG")
    if spec.kind in (JobKind.CELL, JobKind.SESSION) and name not in _INTERRUPTS:
        return name, "USR1"
    return name, name


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
    mounts = [("A mount", parse_mount(mount, site.home).src) for mount in spec.mounts]
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


def gpus_asked(options: Mapping[str, str]) -> int:
    """GPUs in all that sbatch's options ask for; what Slurm has given it says later."""
    if "gpus" in options:
        return _gpus(options["gpus"])
    digits = re.match(r"[0-9]+", options.get("nodes", ""))
    nodes = int(digits[0]) if digits else 1
    if "gpus-per-node" in options:
        return nodes * _gpus(options["gpus-per-node"])
    return nodes * gpus_in_tres(options.get("gres", ""))


def _gpus(value: str) -> int:
    """Of `2`, `a100:2`, `a100:1,v100:1`."""
    return sum(gpus_in_tres(f"gpu:{part}") for part in value.split(","))


def image_of(spec: JobSpec, profile: ClusterProfile) -> str | None:
    """The image as it was asked for, by the cell or by the profile's defaults."""
    return spec.image or profile.defaults.get("image") or None


def runtime_of(spec: JobSpec, profile: ClusterProfile) -> str:
    """A job without an image runs on the node itself, whatever the cluster's container tool."""
    if spec.runtime or profile.defaults.get("runtime"):
        return spec.runtime or profile.defaults["runtime"]
    return profile.runtime if image_of(spec, profile) else "none"


def _environment(spec: JobSpec, profile: ClusterProfile) -> dict[str, str]:
    return {**profile.job_env, **spec.env}


def _cell_files(spec: JobSpec, key: bytes) -> dict[str, bytes | Path]:
    files = {
        **_own_files(spec, key),
        **payload.runner_files(),
        **payload.compiled_runner(),
    }
    if spec.kind is JobKind.SESSION:
        files |= payload.session_files()
    if spec.names_in or spec.names_out or spec.kind is JobKind.SESSION:
        files[layout.CLOUDPICKLE] = payload.cloudpickle_zip()
    return files


def terminal_name(job_id: str) -> str:
    """What the socket is called to which a job's terminal is come to."""
    return f"jslurm-{job_id}"


def _launch(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, chdir: str | None
) -> containers.Launch:
    runtime, box, inside = _boxed(spec, profile, job_dir, site, chdir)
    program = f"{inside}/{layout.PROGRAM}"
    if spec.kind is JobKind.PROGRAM:
        return runtime.launch([program], box)
    if spec.kind is JobKind.TERMINAL:
        launch = terminal.in_terminal(runtime, [program], box)
        holder = (f"{job_dir.path}/{layout.TERMINAL}", "hold", terminal_name(spec.id))
        words = ("-sEB", *holder, f"{spec.keep_s:g}", *launch.argv)
        return replace(launch, argv=("/bin/sh", "-c", PYTHON, "sh", profile.python, *words))
    python = "python3" if runtime.takes_image else profile.python
    # -B: what was imported from the job's folder needs no __pycache__ there.
    runner = layout.SESSION if spec.kind is JobKind.SESSION else layout.RUNNER
    return runtime.launch([python, "-uB", f"{inside}/{runner}", inside, "{attempt}"], box)


def _boxed(
    spec: JobSpec, profile: ClusterProfile, job_dir: JobDir, site: Site, chdir: str | None
) -> tuple[containers.Runtime, containers.Box, str]:
    """The runtime, what it is told, and where the program finds the job dir."""
    runtime = containers.runtime_named(runtime_of(spec, profile))
    if runtime.takes_image and site.image is None:
        raise RequestError(
            f"The runtime {runtime.name} needs an image.", hint="Name one with --image."
        )
    if not runtime.takes_image and spec.image:
        raise RequestError(
            f"The runtime {runtime.name} takes no image, but {spec.image!r} was asked for.",
            hint="Leave out --image, or name a container runtime with --runtime.",
        )
    box = containers.Box(
        job_dir=str(job_dir.path),
        image=site.image if runtime.takes_image else None,
        mounts=tuple(parse_mount(mount, site.home) for mount in spec.mounts),
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
    options["comment"] = _comment(spec, options.get("comment") or own.get("comment"))
    if not options.get("job-name") and not own.get("job-name"):
        options["job-name"] = spec.name
    if not options.get("chdir") and not own.get("chdir"):
        here = site.home if profile.host is not None else spec.cwd
        folder = str(job_dir.work) if spec.push is not None else here
        if folder:
            options["chdir"] = folder
    return Submission(
        text, tuple(sbatch.argv(layout.SCRIPT, options)), {layout.SCRIPT: text.encode()}
    )
