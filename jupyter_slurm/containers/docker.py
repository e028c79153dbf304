"""Command lines for the runtimes `docker`, `sudo-docker` and `podman`.

`docker_script.py` defines the parts that depend on the node. Facts (tested with Docker 20.10;
docker-run(1), podman-run(1)):
- The engine is a daemon, so a container is not a child of the job. A container outlives a killed
  client, but the engine then closes the container's standard input. So the job holds a pipe open as
  this input, and a reader in the container kills everything at the pipe's end.
- A program that runs as process 1 ignores any SIGTERM that it does not handle, hence --init.
- The container does not inherit the job's environment, user, CPUs, memory and GPUs. `--gpus all`
  would mean all GPUs of the node, so the script names the job's GPUs by UUID, which works with and
  without cgroups.
- The program reads its variables from a file inside the container: every user of the node can read
  command lines, and --env-file does not allow newlines.
- /dev/shm has 64 MB. With --ipc=host, files of killed programs would stay in it.
- The engine would keep all output on the node's disk until the program ends, hence
  --log-driver=none.
- A shell starts every program, including the image's own, so that it ends with the job. So every
  image needs /bin/sh.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from jupyter_slurm.containers.docker_script import (
    DOCKER_LIMITS,
    ENVIRONMENT,
    NOT_BEGUN,
    OWN_PROGRAM,
    PODMAN_LIMITS,
    before_program,
    start_script,
)
from jupyter_slurm.containers.docker_terminal import BEFORE_ENTERED, ENTER
from jupyter_slurm.containers.image_folder import docker_tag
from jupyter_slurm.containers.mounts import csv_line
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import (
    NUL_IN_DST,
    NUL_IN_SRC,
    Box,
    Explained,
    Launch,
    Mount,
    image_of,
    in_image_folder,
    in_workdir,
    without_nul,
)
from jupyter_slurm.containers.tool_errors import (
    NO_MOUNT,
    NO_SHELL,
    NO_TOOL,
    NOT_FOUND,
    START_FAILED,
    explain,
    full_disk,
    registry_rows,
)
from jupyter_slurm.errors import RequestError

_OPTIONS = (
    # An image's entrypoint may print banners, or run another program.
    "--entrypoint=/bin/sh",
    "--network=host",
    "--log-driver=none",
)
_WORDS = r"""{{range .Config.%s}} '{{join (split . "'") "'\\''"}}'{{end}}"""
"""A template with which an engine prints a field of an image, quoted for sh."""


class Docker:
    takes_image = True
    image_suffixes: tuple[str, ...] = ()

    def __init__(
        self, name: str, words: Sequence[str], limits: str, options: Sequence[str] = ()
    ) -> None:
        """`words`: the command that calls the engine; `limits`: the engine's part of the script;
        `options`: the engine's own options."""
        self.name = name
        self.programs = (name,)
        """The programs to look for. `jobs/cluster/doctor.py` finds `sudo-docker` if this user can
        use Docker only through sudo."""
        self.has_mpi = limits is not DOCKER_LIMITS
        """False for Docker, because its containers are children of its daemon, not of the step."""
        self._words = tuple(words)
        self._start = start_script(limits)
        self._options = tuple(options)

    def fetched(self, reference: Reference) -> str | None:
        return str(reference)

    def job_dir(self, box: Box) -> str:
        return box.job_dir

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        inside = in_workdir(argv, box, box.job_dir, _before_program(box))
        return Launch(self._started(box, inside, "--workdir=/"))

    def launch_own(self, arguments: Sequence[str], box: Box) -> Launch:
        inside = in_image_folder(box, box.job_dir, _before_program(box))
        image, archive = self._image(box)
        asked = _WORDS % "Entrypoint" + ("" if arguments else _WORDS % "Cmd")
        words = (archive, image, asked, shlex.join(arguments), str(len(self._words)))
        start = self._started(box, inside)
        return Launch(("/bin/sh", "-c", OWN_PROGRAM, "sh", *words, *self._words, *start))

    def _started(self, box: Box, inside: Sequence[str], *options: str) -> tuple[str, ...]:
        """Return the command that starts a container whose entrypoint is a shell. `inside`: the
        shell's command line."""
        image, archive = self._image(box)
        return (
            "/bin/sh",
            "-c",
            self._start,
            "sh",
            box.job_dir,
            _mount(Mount(box.job_dir, box.job_dir)),
            archive,
            image if archive else "",
            str(len(self._words)),
            *self._words,
            *_OPTIONS,
            *options,
            *self._options,
            *map(_mount, box.mounts),
            image,
            # Omit the shell, because it is the entrypoint.
            *inside[1:],
        )

    def _image(self, box: Box) -> tuple[str, str]:
        """Return the engine's name for the image, and the path of the image's archive ("" without
        an archive)."""
        image = image_of(box, self.name)
        tag = docker_tag(image)
        if tag is None and image.startswith("/"):
            raise RequestError(
                f"{self.name} takes images by name, not the file {image}.",
                hint="Load it on the node (`docker load`, `podman load`) and use its name.",
            )
        return (tag, image) if tag else (image, "")

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        waiting = shlex.join(self.launch(["tail", "-f", "/dev/null"], box).argv)
        count = str(len(self._words))
        inside = in_workdir(argv, box, box.job_dir, BEFORE_ENTERED)
        words = ("sh", box.job_dir, waiting, count, *self._words, *inside)
        return Launch(("/bin/sh", "-c", ENTER, *words))

    def explain(self, log_tail: str) -> Explained | None:
        said = [found.start() for found in _SAID.finditer(log_tail)]
        if not said:
            return None  # the program has started
        return explain([*_ERRORS, START_FAILED], [_error_line(log_tail[: said[-1]])])


DOCKERS = (
    Docker("docker", ("docker",), DOCKER_LIMITS),
    Docker("sudo-docker", ("sudo", "-n", "docker"), DOCKER_LIMITS),
    Docker(
        "podman",
        ("podman", "--cgroup-manager=cgroupfs"),
        PODMAN_LIMITS,
        # In the container, files keep their owners, and the user's groups apply. SELinux labels
        # would need rights that users lack.
        ("--userns=keep-id", "--group-add=keep-groups", "--security-opt=label=disable"),
    ),
)


def _before_program(box: Box) -> str:
    return before_program(f'{shlex.quote(f"{box.job_dir}/")}"{ENVIRONMENT}"')


def _mount(mount: Mount) -> str:
    fields = [
        "type=bind",
        f"src={without_nul(mount.src, NUL_IN_SRC)}",
        f"dst={without_nul(mount.dst, NUL_IN_DST)}",
        *(["readonly"] if mount.read_only else []),
    ]
    return f"--mount={csv_line(fields)}"


def explain_build(log_tail: str) -> Explained | None:
    """Explain an engine's failed build or pull. Return None if the cause is unknown or lies in the
    recipe."""
    full = full_disk(("The engine's disk on the node is full", _PRUNE), log_tail)
    if full is not None or _RECIPE_FAILED.search(log_tail):
        return full
    return explain(_ERRORS, [_error_line(log_tail)])


_SAID = re.compile(rf"^jupyter-slurm: {re.escape(NOT_BEGUN)}", re.MULTILINE)
_NOISE = re.compile(r"^(?:See|Run) '\S+ run --help'|^\s*$|^WARN|^jupyter-slurm: ")
_ERROR = re.compile(
    r"^(?:docker: )?Error response from daemon: (?P<daemon>.*)$"
    r"|^(?:docker|Error): (?P<tool>.*)$"
    r"|^(?:ERROR: )?(?P<client>(?:Cannot connect to the|Got permission denied|permission denied"
    r" while|failed to connect to the|error during connect).*)$"
    r"|^(?P<sudo>sudo: .*)$"
    r"|^\S*sh: .*?(?P<missing>(?:docker|podman|sudo): .*not found)$"
    r"|^\[FATAL +tini \(\d+\)\] (?P<init>.*)$",
    re.MULTILINE,
)
_RECIPE_FAILED = re.compile(
    r"returned a non-zero code: \d+$|did not complete successfully: exit code"
    r"|^Error: building at STEP \"RUN ",
    re.MULTILINE,
)
"""The line that reports a failed recipe command in Docker's classic builder, BuildKit or podman."""
_PRUNE = (
    "Ask the administrators to remove unused images (`docker image prune`), or leave the node out "
    "with --exclude."
)
_ERRORS = (
    (
        r"(?:docker(?:\.io)?|podman|sudo): (?:docker: )?(?:command )?not found",
        NO_TOOL,
        "Name another --runtime, or a partition whose nodes have it.",
    ),
    (
        r"permission denied while trying to connect|^sudo: ",
        "You are not allowed to use the container engine on the node",
        "Ask the administrators for the group `docker`, or use --runtime sudo-docker.",
    ),
    (
        r"cannot connect|failed to connect to the docker|is the docker daemon running"
        r"|error during connect",
        "The container engine does not answer",
        "Report the node to the administrators, or leave it out with --exclude.",
    ),
    *registry_rows("`docker login REGISTRY` (or `podman login`)", _PRUNE),
    (r"not found: |no such image", *NOT_FOUND),
    (
        r"failed to register layer|error processing tar|unexpected EOF|verification failed",
        "Cannot unpack the image",
        "Use another node. If that fails, use another image.",
    ),
    (
        r"could not select device driver|unresolvable CDI devices|nvidia-container-cli"
        r"|unknown device",
        "Cannot start the container: the engine cannot give it GPUs",
        "Ask the administrators to check the node's NVIDIA container toolkit, or avoid the node "
        "with --exclude.",
    ),
    (
        r"bind source path does not exist|invalid mount|statfs .*no such file|mkdir "
        r"|not a directory",
        *NO_MOUNT,
    ),
    (r"executable file not found|no such file or directory: unknown|exec .* failed", *NO_SHELL),
)


def _error_line(log: str) -> str:
    """Return the engine's last error, or its last line."""
    errors = [found[found.lastgroup or 0] for found in _ERROR.finditer(log)]
    if errors:
        return str(errors[-1])
    lines = [line for line in log.splitlines() if not _NOISE.match(line)]
    return lines[-1] if lines else "no message"
