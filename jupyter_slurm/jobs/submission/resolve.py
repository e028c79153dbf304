"""The resolution of a job into one `Resolved`, which combines spec, profile and facts about the
cluster.

Costs, preview, script, files and the sbatch call take a `Resolved`, and do not read the profile or
the options again. Only `resolve` sends requests to the cluster. Each kind rejects what it does not
accept (`jobs/kinds`), and `options.py` checks options against sbatch's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_slurm import containers
from jupyter_slurm.containers.enroot_containers import EnrootContainers
from jupyter_slurm.containers.mounts import MountRoots, home_expanded, parse_mounts
from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import brief
from jupyter_slurm.jobs.cluster.environment_script import EnvironmentPlan, planned
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.options import gpus_asked, merged_options
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.versions import has_overlap
from jupyter_slurm.transport.files.ignore import Patterns
from jupyter_slurm.wire import JobSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster

_ID = re.compile(r"[a-z2-7]{8}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS = re.compile(
    r"_|PWD|OLDPWD|OPTIND|E?UID|PPID|GROUPS|S?RANDOM|SECONDS|EPOCH(SECONDS|REALTIME)|LINENO|SHLVL"
    r"|FUNCNAME|DIRSTACK|HISTCMD|SHELLOPTS|BASH(?!_ENV$).*"
)
"""Variables that dash or bash set, protect or evaluate."""
_PARTS = {"code": "The cell", "cwd": "The folder"}
"""Names of a spec's fields in messages."""
_LONGEST_VALUE_BYTES = 128 * 1024
"""MAX_ARG_STRLEN of Linux, the limit for `NAME=value` and its final NUL (execve(2))."""
_LARGEST_ENVIRONMENT_BYTES = 1024 * 1024
"""Half of execve(2)'s limit with an 8 MiB stack, since the node adds variables."""


@dataclass(frozen=True, slots=True)
class Site:
    """Facts that require a request to the cluster."""

    home: str
    job_dir: JobDir
    image_file: str | None = None
    """Path of the image, or the runtime's name for an image to pull; None without an image."""
    environment: EnvironmentPlan | None = None
    """The environment with the job's packages, which may not be installed yet; None without
    packages."""
    has_overlap: bool = True
    """Set if steps share CPUs only with `--overlap`. Known only for jobs on many nodes."""
    mpi_types: tuple[str, ...] = ()
    """MPI types of srun, best first. Known only for MPI jobs."""


UNASKED = Site("/", JobDir(PurePosixPath("/")))
"""A placeholder for facts about the cluster. A job's digests do not depend on these facts."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A spec combined with the values of its profile and cluster, ready to submit."""

    spec: JobSpec
    kind: Kind[Any]
    profile: ClusterProfile
    """The settings that apply to this job."""
    site: Site
    options: Mapping[str, str]
    """sbatch options: the profile's defaults, overridden by the spec's options."""
    directives: Mapping[str, str]
    """`#SBATCH` options of a batch script; empty for other jobs."""
    runtime: containers.Runtime
    image: str | None
    """The image in the spec or the profile's defaults."""
    mounts: tuple[containers.Mount, ...]
    """The profile's mounts, followed by the job's mounts."""
    mount_links: tuple[str, ...]
    """Shell lines that create, on the node, a link for each mount with a variable in its path."""
    environment: Mapping[str, str]

    @property
    def job_dir(self) -> JobDir:
        return self.site.job_dir

    @property
    def effective_options(self) -> dict[str, str]:
        """Return the script's `#SBATCH` options, overridden by the options of the command line."""
        return {**self.directives, **self.options}

    @property
    def waits_for_jobs(self) -> bool:
        """Return whether the job names other jobs in `--dependency` or `--after`."""
        return "dependency" in self.effective_options or bool(self.spec.after)

    @property
    def gpus(self) -> int:
        return gpus_asked(self.options)

    @property
    def modules(self) -> tuple[str, ...]:
        return (*self.profile.modules, *self.spec.modules)

    @property
    def python(self) -> str:
        """Return the Python that runs the job's program on the node itself."""
        environment = self.site.environment
        return self.profile.python if environment is None else environment.python

    @property
    def environment_lines(self) -> tuple[str, ...]:
        """Return the shell lines that activate the environment on the node."""
        environment = self.site.environment
        return () if environment is None else environment.setup

    @property
    def in_image(self) -> bool:
        """Return whether the program runs in an image. A batch script runs on the node, and may
        start containers itself."""
        return not self.kind.is_raw_script and self.runtime.name != "none"

    @property
    def runs_in_work(self) -> bool:
        """Return whether the job has its own working directory. On this machine a job without
        --push runs in the notebook's folder, which does not exist on a remote cluster. A lab runs
        in the home folder, so that its files outlive the job."""
        if self.spec.push is not None:
            return True
        return not self.kind.is_in_home and self.profile.host is not None

    @property
    def script_folder(self) -> str | None:
        """Return the working directory of a batch script: its --chdir, or else the pushed folder.
        Without both, return the home folder on a remote cluster, and the notebook's or terminal's
        folder on this machine."""
        if said := self.effective_options.get("chdir"):
            return home_expanded(said, self.site.home)
        if self.spec.push is not None:
            return str(self.job_dir.work)
        return self.site.home if self.profile.host is not None else self.spec.cwd

    @property
    def is_staged(self) -> bool:
        """Return whether the job copies its folder `work` to the node. A folder that many nodes or
        tasks share is not copied."""
        alone = self.spec.launch is None and not self.kind.has_tasks
        return self.profile.storage.stage and self.runs_in_work and alone

    @property
    def works_in(self) -> str:
        """Return the code's working directory on the node."""
        if chdir := self.options.get("chdir"):
            return home_expanded(chdir, self.site.home)
        if self.runs_in_work:
            return str(self.job_dir.stage if self.is_staged else self.job_dir.work)
        return (self.profile.host is None and self.spec.cwd) or self.site.home

    @property
    def folder(self) -> str:
        """Return the folder of the user's files on the cluster. A job that works in a copy on the
        node copies its changes back to this folder."""
        if self.kind.is_raw_script:
            return self.script_folder or self.site.home
        there = self.works_in
        return str(self.job_dir.work) if there == str(self.job_dir.stage) else there


def resolve(spec: JobSpec, cluster: SlurmCluster, job_dir: JobDir | None = None) -> Resolved:
    """Resolve a job of `cluster`. `job_dir` is its folder, if known. Raise RequestError if `spec`
    is invalid, NotFoundError if the image does not exist."""
    profile = cluster.profile.for_job(spec)
    runtime, image = run_by(spec, profile)
    file = f"@{spec.container_name}" if spec.container_name else None
    if image is not None and runtime.takes_image:
        file = cluster.find_image(image, runtime.name, runtime.fetched)
    folder = job_dir or JobDir(cluster.job_root() / spec.id)
    environment = None
    if spec.environment is not None:
        environment = planned(
            spec.environment,
            kind_of(spec).needs_packages,
            cluster.toolchain(spec.modules),
            str(cluster.environments_root()),
            cluster.profile,
        )
    site = Site(str(cluster.transport.home()), folder, file, environment)
    if spec.launch is not None:
        site = _with_srun(site, cluster, is_mpi=spec.launch == "mpi")
    return resolved(spec, profile, site)


def _with_srun(site: Site, cluster: SlurmCluster, *, is_mpi: bool) -> Site:
    """Ask srun, once per connection, for the facts that jobs on many nodes need."""
    version = cluster.srun_version()
    overlap = version is None or has_overlap(version)
    return replace(site, has_overlap=overlap, mpi_types=cluster.mpi_types() if is_mpi else ())


def resolved(spec: JobSpec, profile: ClusterProfile, site: Site) -> Resolved:
    """Resolve a job. `profile` contains the settings that apply to it (`ClusterProfile.for_job`).

    Raise a RequestError that names the invalid part of `spec`."""
    check_spec(spec)
    kind = kind_of(spec)
    spec = kind.completed(spec, profile)
    runtime, image = run_by(spec, profile)
    _check_container(spec, runtime)
    if not runtime.takes_image and spec.image:
        raise RequestError(
            f"The runtime {runtime.name} does not run images, but the job names {spec.image!r}.",
            hint="Leave out --image, or name a container runtime with --runtime.",
            option="image",
        )
    directives = read_directives(spec.code) if kind.is_raw_script else {}
    mounts = (*(profile.mounts if runtime.takes_image else ()), *spec.mounts)
    job = Resolved(
        spec=spec,
        kind=kind,
        profile=profile,
        site=site if runtime.takes_image else replace(site, image_file=None),
        options=merged_options(spec, profile, directives),
        directives=directives,
        runtime=runtime,
        image=image,
        mounts=(),
        mount_links=(),
        environment={**profile.job_env, **spec.env},
    )
    if mounts:
        job = _with_mounts(job, mounts)
    check_environment(job.environment)
    if kind.is_raw_script:
        _check_output(job)
    else:
        _check_places(job)
    return job


def _with_mounts(job: Resolved, texts: Iterable[str]) -> Resolved:
    """Return the job with the parsed mounts. Raise RequestError for a malformed mount, or for a
    mount that sweeps do not support."""
    places = MountRoots(job.site.home, job.works_in, str(job.job_dir.path))
    found = parse_mounts(texts, places)
    if found.links and job.kind.has_tasks:
        raise RequestError(
            "A sweep cannot mount a folder whose path contains a variable of the node.",
            hint="Give the path without a variable, or run without an image.",
            option="mount",
        )
    return replace(job, mounts=found.mounts, mount_links=found.links)


def image_of(spec: JobSpec, profile: ClusterProfile) -> str | None:
    """Return the image that the spec or the profile's defaults name. Ignore a default if the spec
    has packages, which are for jobs without an image."""
    usual = profile.defaults.get("image") if spec.environment is None else None
    return spec.image or usual or None


def run_by(spec: JobSpec, profile: ClusterProfile) -> tuple[containers.Runtime, str | None]:
    """Return the runtime and the image that the job names. Raise RequestError if the runtime is
    unknown, or for packages and an image together.

    A job without an image and a container name runs on the node itself."""
    image = image_of(spec, profile)
    contained = image or spec.container_name
    usual = profile.runtime if contained else "none"
    default = profile.defaults.get("runtime") if spec.environment is None else None
    name = spec.runtime or default or usual
    runtime = containers.runtime_named(name)
    if spec.environment is not None and runtime.takes_image:
        raise RequestError(
            "Packages can be installed only for jobs without an image.",
            hint="Build an image with them instead: `%%slurm_image NAME --from IMAGE`, with the "
            "line `pip install …`. Then use --image NAME.",
            option="with",
        )
    return runtime, image


def _check_container(spec: JobSpec, runtime: containers.Runtime) -> None:
    """Raise RequestError for an option that the runtime does not support."""
    if spec.container_remap_root and not isinstance(runtime, EnrootContainers):
        raise RequestError(
            f"--container-remap-root needs pyxis or enroot, but the runtime is {runtime.name}.",
            hint="To install packages as root, build an image with `%%slurm_image`.",
            option="container-remap-root",
        )
    if spec.container_name is not None and runtime.name != "pyxis":
        raise RequestError(
            f"--container-name needs pyxis, but the runtime is {runtime.name}.",
            hint="Build an image with `%%slurm_image NAME --from IMAGE`, then use --image NAME.",
            option="container-name",
        )


def _check_places(job: Resolved) -> None:
    """Raise RequestError if a file of the job is in a folder that is not shared with the nodes."""
    chdir = job.options.get("chdir")
    _check_seen(
        job.profile,
        [
            ("The job's folder", str(job.job_dir.path)),
            ("The folder of --chdir", chdir),
            ("The notebook's folder", None if job.runs_in_work or chdir else job.spec.cwd),
            ("The image", job.site.image_file),
            *(("The mounted folder", mount.src) for mount in job.mounts),
        ],
    )


def _check_output(job: Resolved) -> None:
    """Raise RequestError if a batch script writes its output to a folder that is not shared with
    the nodes. Slurm opens the output file before it runs the script. Do not check an absolute path.
    """
    if job.effective_options.get("output", "").startswith("/"):
        return
    _check_seen(job.profile, [("The batch script's folder (--chdir)", job.script_folder)])


def _check_seen(profile: ClusterProfile, places: Iterable[tuple[str, str | None]]) -> None:
    """Raise RequestError if a path is in a folder that is not shared with the nodes. `places`
    contains pairs of a name for messages and a path."""
    for place, path in places:
        for hidden in profile.storage.hidden:
            if path is not None and PurePosixPath(path).is_relative_to(hidden):
                raise RequestError(
                    f"{place} {path} is in {hidden}, which is not shared with the nodes of "
                    f"{profile.name}.",
                    hint="Use a shared folder, or change `storage.hidden` or `job_root` in the "
                    "cluster's profile.",
                )


def check_spec(spec: JobSpec) -> None:
    """Check the spec. Raise a RequestError that names the invalid part and the remedy."""
    kind = kind_of(spec)
    for what, text in _texts(msgspec.structs.asdict(spec), ""):
        _check_text(what, text, kind)
    if not _ID.fullmatch(spec.id):
        raise RequestError(f"{brief(spec.id)!r} is not a job ID. Use eight characters a-z and 2-7.")
    if not _NAME.fullmatch(spec.name):
        raise RequestError(
            f"{brief(spec.name)!r} is not a valid job name.",
            hint="Use at most 64 letters, digits, `.`, `_` and `-`.",
            option="name",
        )
    _check_files(spec)
    kind.check(spec)


def _check_files(spec: JobSpec) -> None:
    if spec.push is not None and not spec.push.startswith("/"):
        raise RequestError(f"--push {spec.push!r} is not the absolute path of a local folder.")
    if spec.push_exclude:
        _check_exclusion(spec)
    if spec.fetch and (spec.fetch_to is None or not spec.fetch_to.startswith("/")):
        raise RequestError("--fetch needs the absolute path of a local target folder.")
    for pattern in spec.fetch:
        if not pattern.strip() or ".." in pattern.split("/"):
            raise RequestError(
                f"--fetch {pattern!r} cannot match files in the job's working directory.",
                hint="Use .gitignore patterns such as results/**, *.png or /model.pt.",
            )


def _check_exclusion(spec: JobSpec) -> None:
    if spec.push is None:
        raise RequestError("--push-exclude needs --push DIR.")
    for pattern in spec.push_exclude:
        if not pattern.strip():
            raise RequestError("--push-exclude contains an empty pattern.")
    Patterns(spec.push_exclude, "--push-exclude")


def check_environment(env: Mapping[str, str]) -> None:
    """Raise RequestError for a variable that would not reach the program unchanged."""
    total_bytes = 0
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise RequestError(
                f"{name!r} is not a valid name for an environment variable.", option="env"
            )
        if _SHELLS.fullmatch(name):
            raise RequestError(
                f"Cannot set the environment variable {name}: the node's shell uses it.",
                hint="Use another name.",
                option="env",
            )
        size_bytes = len(f"{name}={value}".encode()) + 1
        total_bytes += size_bytes
        if size_bytes > _LONGEST_VALUE_BYTES or total_bytes > _LARGEST_ENVIRONMENT_BYTES:
            raise RequestError(
                f"The environment variable {name} makes the environment too large: Linux allows "
                "128 KiB for one variable, and jupyter-slurm allows 1 MiB for all variables.",
                hint="Pass large values as variables (--in) or in a file.",
                option="env",
            )


def _texts(value: Any, what: str) -> Iterator[tuple[str, str]]:
    """Yield every string in a value with its place, such as `code` or `env A`."""
    match value:
        case str():
            yield what, value
        case dict():
            for name, part in value.items():
                yield what, str(name)
                yield from _texts(part, f"{what} {name!r}" if what else name)
        case tuple():
            for part in value:
                yield from _texts(part, what)
        case _:
            pass


def _check_text(what: str, text: str, kind: Kind[Any]) -> None:
    part = _PARTS.get(what, f"The job's {what}")
    if "\0" in text and (what != "code" or not kind.is_python):
        raise RequestError(f"{part} contains a NUL byte.")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise RequestError(
            f"{part} contains a lone surrogate ({text[exc.start]!r} at position {exc.start}), "
            "which cannot be sent.",
            hint="Use valid Unicode. File names must be UTF-8.",
        ) from exc
