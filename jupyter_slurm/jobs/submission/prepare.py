"""The `Submission` of a resolved job, with script, sbatch's command line and files. No I/O.

This module combines the job's runtime and kind. `--dry-run` shows the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import msgspec

from jupyter_slurm import containers
from jupyter_slurm.containers.runtime import launch_beside, launch_own
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Files, node_files
from jupyter_slurm.jobs.submission import launching
from jupyter_slurm.jobs.submission.options import array_option, comment, of_script, of_shell
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.jobs.submission.script import (
    STAGE_INSIDE,
    ScriptPlan,
    render_enter,
    render_environment,
    render_script,
    staged,
)
from jupyter_slurm.slurm import sbatch, scontrol
from jupyter_slurm.wire import (
    CellSpec,
    DashboardName,
    JobSpec,
    ProgramSpec,
    ScriptSpec,
    SweepSpec,
)

_OWN_FILES = "export JSLURM_NODE=.task$task\n"
"""A shell line that sets JSLURM_NODE. Container tools use it in the names of their files in the
job's folder."""
_OWN = re.compile(r"%[0-9]{0,2}[jA]")
"""The parts of a filename pattern that stand for the job's ID."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Filename patterns of a batch script's output that contain the job ID. A matching file belongs
    to this job, even if Slurm forgets the job before reporting the paths."""

    stdout: str | None = None
    stderr: str | None = None

    def of(self, slurm_id: str) -> tuple[str | None, str | None]:
        """Return the paths for a job. A path is None if it depends on values that only Slurm
        has."""
        values = {"j": slurm_id, "A": slurm_id}
        known = [one and scontrol.fill_in(one, values) for one in (self.stdout, self.stderr)]
        return known[0], known[1]


@dataclass(frozen=True, slots=True)
class Submission:
    job: Resolved
    script: str
    sbatch: tuple[str, ...]
    files: Files
    """Files by name. `with_key` fills the key and the files derived from it."""
    variables: tuple[str, ...] = ()
    """Names of the job's environment variables."""
    outputs: Outputs = field(default_factory=Outputs)


def with_key(files: Files, key: bytes) -> Files:
    """Return the files with the job's signing key and the certificate derived from it, if `files`
    contains their names."""
    made = {layout.KEY: key}
    if layout.CERTIFICATE in files:
        made[layout.CERTIFICATE], made[layout.CERTIFICATE_KEY] = launching.dask_certificate(key)
    return {name: made.get(name, content) for name, content in files.items()}


def prepare(job: Resolved) -> Submission:
    """Prepare the job. Raise RequestError for an option that this kind does not accept."""
    if isinstance(job.spec, ScriptSpec):
        return _batch_script(job, job.spec)
    chdir = job.options.get("chdir")
    copied = staged(job)
    options, signal = of_script(job.spec, job.job_dir, job.options, copied.reserve_s)
    arguments: tuple[str, ...] = ()
    if isinstance(job.spec, SweepSpec):  # as one array; the submission may split it
        options["array"], arguments = array_option(job.spec.tasks, job.spec.max_running), ("0", "0")
    in_image = _launch(job, chdir)
    launch = in_image if job.spec.launch is None else launching.launch(job)
    plan = ScriptPlan(
        title=f"{job.spec.name} ({job.spec.id})",
        job_dir=str(job.job_dir.path),
        command=launch.argv,
        modules=job.modules,
        setup=job.profile.setup,
        python=job.profile.python,
        before=f"{_OWN_FILES}{copied.before}" if _shares_files(job) else copied.before,
        runtime_setup=(*job.mount_links, *job.environment_lines, *launch.setup),
        after=copied.after,
        pid_file=launch.pid_file,
        signal=signal,
        login_shell=job.profile.login_shell,
        is_sweep=job.kind.has_tasks,
    )
    script = render_script(plan)
    files: dict[str, bytes | Path] = {layout.SCRIPT: script.encode()}
    if job.environment:
        files[layout.ENVIRONMENT] = render_environment(job.environment).encode()
    files |= job.kind.files(job.spec, job)
    files |= node_files(layout.USAGE)
    box, inside = _boxed(job, chdir)
    if job.spec.launch is not None:
        files |= launching.files(job, in_image, box, inside)
        engine = job.runtime.launch([], box)
        setup = (*job.environment_lines, *engine.setup)
        ran = replace(plan, command=engine.argv, before="", runtime_setup=setup)
        files[layout.ENGINE] = render_enter(ran).encode()
    files |= _dashboards(job.spec, job.kind.dashboards(job.spec))
    beside = launch_beside(job.runtime, [], box)
    setup = (*job.environment_lines, *beside.setup)
    entered = replace(plan, command=beside.argv, before="", runtime_setup=setup)
    files[layout.ENTER] = render_enter(entered).encode()
    argv = sbatch.argv(str(job.job_dir.path / layout.SCRIPT), options, arguments)
    return Submission(job, script, tuple(argv), files, tuple(job.environment))


def _shares_files(job: Resolved) -> bool:
    """Return whether containers of several tasks use the same folder at the same time."""
    return job.kind.has_tasks and job.in_image


def _dashboards(spec: JobSpec, names: tuple[DashboardName, ...]) -> Files:
    """Return node/dashboards.py, its modules and its settings; {} for a job without a dashboard."""
    if not names:
        return {}
    logdir = spec.tensorboard if isinstance(spec, CellSpec) else None
    plan = {"id": spec.id, "names": names, "logdir": logdir}
    ours = ("dashboards", "runner_dashboards", "framing", "socket_proxy")
    found = {name: text for one in ours for name, text in node_files(one).items()}
    return {**found, layout.DASHBOARDS: msgspec.json.encode(plan)}


def prepare_shell(job: Resolved) -> tuple[Files, Mapping[str, str]]:
    """Return the files and srun's options of a shell in its own allocation. Raise RequestError for
    an option that a shell does not accept."""
    options = of_shell(job.spec, job.job_dir, job.options)
    box, _ = _boxed(job, job.options.get("chdir"))
    beside = launch_beside(job.runtime, [], box)
    plan = ScriptPlan(
        title=job.spec.name,
        job_dir=str(job.job_dir.path),
        command=beside.argv,
        modules=job.modules,
        setup=job.profile.setup,
        runtime_setup=(*job.mount_links, *beside.setup),
        login_shell=job.profile.login_shell,
    )
    files = {layout.ENTER: render_enter(plan).encode()}
    if job.environment:
        files[layout.ENVIRONMENT] = render_environment(job.environment).encode()
    return files, options


def _workdir(job: Resolved, chdir: str | None, own: str) -> str | None:
    """Return the working directory as the program sees it; None for the home folder.

    Use `--chdir` unchanged. `own` is the job's own working directory. A container mounts only the
    home folder, so use the notebook's folder in a container only if it is below the home folder.
    """
    if chdir is None and job.runs_in_work:
        return own
    cwd = job.spec.cwd
    if chdir is not None or cwd is None or not job.in_image:
        return chdir or cwd
    here = PurePosixPath(cwd)
    return f"~/{here.relative_to(job.site.home)}" if here.is_relative_to(job.site.home) else None


def _launch(job: Resolved, chdir: str | None) -> containers.Launch:
    """Return the command that starts the program in the script."""
    spec, runtime, python = job.spec, job.runtime, job.python
    box, inside = _boxed(job, chdir)
    argv = [f"{inside}/{layout.PROGRAM}"]
    if isinstance(spec, ProgramSpec):
        if not spec.code:
            return launch_own(runtime, spec.arguments, box)
        argv += spec.arguments
    if job.kind.runner is not None:
        there = "python3" if runtime.takes_image else python
        # With -B, Python creates no __pycache__ in the job's folder.
        argv = [there, "-uB", f"{inside}/{job.kind.runner}", inside, "{attempt}"]
        argv += ["task", "{task}"] if job.kind.has_tasks else []
    return runtime.launch(argv, box)


def _boxed(job: Resolved, chdir: str | None) -> tuple[containers.Box, str]:
    """Return the runtime's `Box`, and the job's folder as the program sees it."""
    box = containers.Box(
        job_dir=str(job.job_dir.path),
        image=job.site.image_file,
        as_root=job.spec.container_remap_root,
        container_name=job.spec.container_name,
        mounts=job.mounts,
        env_file=layout.ENVIRONMENT if job.environment else None,
    )
    inside = job.runtime.job_dir(box)
    own = f"{inside}/{job.job_dir.work.name}"
    if job.is_staged:
        own = str(job.job_dir.stage)
        if job.runtime.takes_image:
            own = STAGE_INSIDE
            stage = containers.Mount(str(job.job_dir.stage), own)
            box = replace(box, mounts=(*box.mounts, stage))
    return replace(box, workdir=_workdir(job, chdir, own)), inside


def _batch_script(job: Resolved, spec: ScriptSpec) -> Submission:
    """Prepare a batch script. Its lines stay unchanged."""
    options, own = dict(job.options), job.directives
    options["comment"] = comment(spec, options.get("comment") or own.get("comment"))
    if not options.get("job-name") and not own.get("job-name"):
        options["job-name"] = spec.name
    if job.script_folder and (options.get("chdir") or not own.get("chdir")):
        options["chdir"] = job.script_folder
    return Submission(
        job,
        spec.code,
        tuple(sbatch.argv(layout.SCRIPT, options, spec.arguments)),
        job.kind.files(spec, job),
        outputs=_outputs(job),
    )


def _outputs(job: Resolved) -> Outputs:
    options = job.effective_options
    if "array" in options:
        return Outputs()

    def pattern(path: str | None) -> str | None:
        if path is None or "\\" in path or not _OWN.search(path):
            return None
        return path if path.startswith("/") else f"{job.folder.replace('%', '%%')}/{path}"

    return Outputs(pattern(options.get("output", "slurm-%j.out")), pattern(options.get("error")))
