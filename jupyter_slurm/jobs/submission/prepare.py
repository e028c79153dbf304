"""A resolved job -> what is sent: the script, sbatch's command line, the folder's files. PURE.

Everything that a runtime or a kind of job makes different comes together here, so that what would
be submitted is a value one can look at (`--dry-run`).
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
from jupyter_slurm.jobs.kinds import cell
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.jobs.submission import certificate, launching, staging
from jupyter_slurm.jobs.submission.checks import check_spec
from jupyter_slurm.jobs.submission.options import comment, of_script, of_shell
from jupyter_slurm.jobs.submission.payload import node_files
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.jobs.submission.script import (
    ScriptPlan,
    render_enter,
    render_environment,
    render_script,
)
from jupyter_slurm.slurm import sbatch, scontrol
from jupyter_slurm.transport.relay import node_file
from jupyter_slurm.wire import (
    CellSpec,
    DashboardName,
    JobSpec,
    ProgramSpec,
    ScriptSpec,
)

_OWN = re.compile(r"%[0-9]{0,2}[jA]")
"""A pattern in a path that is the job's ID."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Patterns of the files that a batch script writes, where the job's ID is in their names: such
    a file is this job's, even where Slurm forgets the job before it has told them."""

    stdout: str | None = None
    stderr: str | None = None

    def of(self, slurm_id: str) -> tuple[str | None, str | None]:
        """Return the paths of the job. None: not known before Slurm tells it."""
        values = {"j": slurm_id, "A": slurm_id}
        known = [one and scontrol.fill_in(one, values) for one in (self.stdout, self.stderr)]
        return known[0], known[1]


@dataclass(frozen=True, slots=True)
class Submission:
    job: Resolved
    script: str
    sbatch: tuple[str, ...]
    files: Files
    """The key, and what is made of it, is still empty (`with_key`)."""
    variables: tuple[str, ...] = ()
    """Names of what it finds in its environment."""
    outputs: Outputs = field(default_factory=Outputs)


def with_key(files: Files, key: bytes) -> Files:
    """Return the files with the key that the job signs with, where its kind signs anything, and
    with the certificate that is made of it, where its engine wants one."""
    made = {layout.KEY: key}
    if layout.CERTIFICATE in files:
        made[layout.CERTIFICATE], made[layout.CERTIFICATE_KEY] = certificate.of_key(key)
    return {name: made.get(name, content) for name, content in files.items()}


def prepare(job: Resolved) -> Submission:
    """Prepare the job. RequestError: names an option that a job of this kind cannot have."""
    if isinstance(job.spec, ScriptSpec):
        return _batch_script(job, job.spec)
    chdir = job.options.get("chdir")
    staged = staging.staged(job)
    options, signal = of_script(job.spec, job.job_dir, job.options, staged.reserve_s)
    in_image = _launch(job, chdir)
    launch = in_image if job.spec.launch is None else launching.launch(job)
    plan = ScriptPlan(
        title=f"{job.spec.name} ({job.spec.id})",
        job_dir=str(job.job_dir.path),
        command=launch.argv,
        modules=job.modules,
        setup=job.profile.setup,
        python=job.profile.python,
        before=staged.before,
        runtime_setup=(*job.mount_links, *launch.setup),
        after=staged.after,
        pid_file=launch.pid_file,
        signal=signal,
        login_shell=job.profile.login_shell,
    )
    script = render_script(plan)
    files: dict[str, bytes | Path] = {layout.SCRIPT: script.encode()}
    if job.environment:
        files[layout.ENVIRONMENT] = render_environment(job.environment).encode()
    files |= job.kind.files(job.spec, job)
    files[layout.USAGE] = node_file(layout.USAGE)
    box, inside = _boxed(job, chdir)
    if job.spec.launch is not None:
        files |= launching.files(job, in_image, box, inside)
        engine = job.runtime.launch([], box)
        ran = replace(plan, command=engine.argv, before="", runtime_setup=engine.setup)
        files[layout.ENGINE] = render_enter(ran).encode()
    files |= _dashboards(job.spec, job.kind.dashboards(job.spec))
    beside = launch_beside(job.runtime, [], box)
    entered = replace(plan, command=beside.argv, before="", runtime_setup=beside.setup)
    files[layout.ENTER] = render_enter(entered).encode()
    argv = sbatch.argv(str(job.job_dir.path / layout.SCRIPT), options)
    return Submission(job, script, tuple(argv), files, tuple(job.environment))


def _dashboards(spec: JobSpec, names: tuple[DashboardName, ...]) -> Files:
    """Return node/dashboards.py with all that it needs, where the job has any dashboard."""
    if not names:
        return {}
    logdir = spec.tensorboard if isinstance(spec, CellSpec) else None
    plan = {"id": spec.id, "names": names, "logdir": logdir}
    ours = ("dashboards", "runner_dashboards", "framing", "lab_door")
    found = {name: text for one in ours for name, text in node_files(one).items()}
    return {**found, layout.DASHBOARDS: msgspec.json.encode(plan)}


def prepare_shell(job: Resolved) -> tuple[Files, Mapping[str, str]]:
    """Return the files of a shell in an allocation of its own, and srun's options. RequestError:
    names an option that such a shell cannot have."""
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


def prepare_session_cell(spec: CellSpec) -> Files:
    """Return the files of a cell that a session runs, its key still empty. RequestError."""
    check_spec(spec)
    return cell.own_files(spec)


def _workdir(job: Resolved, chdir: str | None, own: str) -> str | None:
    """Return the folder where the code runs, as the program sees it. None: the home.

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


def _launch(job: Resolved, chdir: str | None) -> containers.Launch:
    """Return how the script starts the program."""
    spec, runtime, python = job.spec, job.runtime, job.profile.python
    box, inside = _boxed(job, chdir)
    argv = [f"{inside}/{layout.PROGRAM}"]
    if isinstance(spec, ProgramSpec):
        if not spec.code:
            return launch_own(runtime, spec.arguments, box)
        argv += spec.arguments
    if job.kind.runner is not None:
        there = "python3" if runtime.takes_image else python
        # -B: what was imported from the job's folder needs no __pycache__ there.
        argv = [there, "-uB", f"{inside}/{job.kind.runner}", inside, "{attempt}"]
    return runtime.launch(argv, box)


def _boxed(job: Resolved, chdir: str | None) -> tuple[containers.Box, str]:
    """Return the box to give to the runtime, and the path where the program sees the job dir."""
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
            own = staging.INSIDE
            stage = containers.Mount(str(job.job_dir.stage), own)
            box = replace(box, mounts=(*box.mounts, stage))
    return replace(box, workdir=_workdir(job, chdir, own)), inside


def _batch_script(job: Resolved, spec: ScriptSpec) -> Submission:
    """Prepare a batch script: its own lines stay as they are."""
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
