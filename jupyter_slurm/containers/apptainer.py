"""Runtimes `apptainer` and `singularity`: one tool under two names, and nothing of Slurm's but what
a job's environment says.

What had to be known (tried with Apptainer 1.4; the manuals of Singularity 3.5 and later):
- The environment goes in, all but PATH and LD_LIBRARY_PATH, which are the image's: so what it says
  about the node's own programs is taken away before.
- `--bind` divides at colons and commas. `--mount`, a line of CSV, does not, but is of 3.9 and
  later: only paths that need it go by it. Mount points that the image lacks are made.
- Its parent process hands signals on to the program, whose exit code is its own; its own failures
  are 255. When it is killed the program is, too.
- A `.sif` is mounted by the kernel where the tool is set-uid, else by a program beside it, which
  ends with the first TERM, and the files with it. `scancel` sends one to every process under
  proctrack/linuxproc (under proctrack/cgroup to the batch script alone): a cell that wants to save
  something then must have all that it needs for it in memory. A folder has no such program.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Sequence

from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Box, Explained, Launch, Mount, in_workdir, without_nul
from jupyter_slurm.errors import RequestError

# $1 the program, $2 how much it says, then all that comes behind its `exec`.
_START = r"""program=$1 talk=$2; shift 2
[ -z "${ROCR_VISIBLE_DEVICES:-}" ] || set -- --rocm "$@"
case ${CUDA_VISIBLE_DEVICES:-} in '' | NoDevFiles) ;; *) set -- --nv "$@" ;; esac
set -- "$program" --nocolor $talk exec "$@"
set -f
for name in LD_PRELOAD PYTHONPATH PYTHONHOME VIRTUAL_ENV \
    $(env | sed -n -e 's/^\(CONDA_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(BASH_FUNC_[^= ]*\)=.*/\1/p'); do
  set -- -u "$name" "$@"
done
exec env "$@"
"""

_INSIDE = "export PYTHONNOUSERSITE=1\n"
"""The home is the node's: packages installed there with pip --user are for another Python."""

_FETCHED = re.compile(r"[a-z][a-z-]*://")
_NOT_FOR_BIND = re.compile(r'[:,"\\\r\n]')

_ERRORS = re.compile(
    r"^(?:\x1b\[[0-9;]*m)?(?:FATAL|ERROR) *: +(?:\x1b\[[0-9;]*m)?(.+?)\.?$"
    r"|^(Error for command .*?)\.?$"
    r"|^(env: .?(?:apptainer|singularity)\b.*?)\.?$",
    re.MULTILINE,
)
_NO_PYTHON = re.compile(r"^\S*sh: .*exec: .*python3: .*not found", re.MULTILINE)


class Apptainer:
    takes_image = True
    image_suffixes = (".sif", "", ".simg", ".sqfs", ".squashfs", ".sqsh", ".img")

    def __init__(self, name: str) -> None:
        """`name` is the program's as well."""
        self.name = name

    def fetched(self, reference: Reference) -> str | None:
        # It takes a tag or a digest, not both.
        version = f"@{reference.digest}" if reference.digest else f":{reference.tag}"
        return f"docker://{reference.registry}/{reference.repository}{version}"

    def job_dir(self, box: Box) -> str:
        return box.job_dir

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        if box.image is None:
            raise RequestError(
                f"The runtime {self.name} needs an image.",
                hint="Say --image NAME, or --runtime none for the node's own Python.",
            )
        image = without_nul(box.image, "the image's path")
        mounts = [Mount(box.job_dir, box.job_dir), *box.mounts]
        return Launch(
            (
                "/bin/sh",
                "-c",
                _START,
                "sh",
                self.name,
                # A fetch takes minutes, and may say how it gets on; warnings and errors remain.
                "" if _FETCHED.match(image) else "--quiet",
                "--pwd=/",
                *map(_mount, mounts),
                image,
                *in_workdir(argv, box, box.job_dir, _INSIDE),
            )
        )

    def check_argv(self) -> list[str]:
        return [self.name, "--version"]

    def explain(self, log_tail: str) -> Explained | None:
        errors = ["".join(found) for found in _ERRORS.findall(log_tail)]
        if not errors and _NO_PYTHON.search(log_tail):
            return Explained(
                "The image has no Python.",
                "A cell needs python3 (3.6 or later) in it: try another image, or begin the cell "
                "with #!/bin/sh.",
            )
        if not errors:
            return None
        what, advice = _advice(errors[-1])
        return Explained(f"{what}: {errors[-1]}.", advice)


APPTAINERS = (Apptainer("apptainer"), Apptainer("singularity"))


def _mount(mount: Mount) -> str:
    src = without_nul(mount.src, "the path to mount")
    dst = without_nul(mount.dst, "the mount point")
    for path in (src, dst):
        if not posixpath.isabs(path):
            raise RequestError(f"Apptainer needs absolute paths to mount, not {path!r}.")
    if posixpath.normpath(dst) == "/":
        raise RequestError(f"{src} cannot be mounted at {dst}.", hint="Say --mount SRC:/mnt/NAME.")
    if not _NOT_FOR_BIND.search(src + dst):
        return f"--bind={src}:{dst}{':ro' if mount.read_only else ''}"
    fields = ["type=bind", f"source={src}", f"destination={dst}"]
    line = io.StringIO()
    csv.writer(line).writerow(fields + ["ro"] * mount.read_only)
    return "--mount=" + line.getvalue().removesuffix("\r\n")


_KINDS = tuple(
    (re.compile(pattern), what, advice)
    for pattern, what, advice in (
        (
            r"^env: ",
            "Apptainer is not installed on the node",
            "A module may have it (`module avail`; --module NAME); else exclude the node with "
            "--exclude, or ask its administrators.",
        ),
        (
            r"unknown flag: --mount",
            "The node's Apptainer is too old for a path with a colon, comma or quote",
            "Singularity 3.9 and later mount such. Make a symbolic link without one and name that.",
        ),
        (
            r"unauthorized|authentication required|access .*denied|denied: ",
            "The registry does not let you have the image",
            "Is its name right? A private one needs a login: `jupyter slurm image login`.",
        ),
        (
            r"manifest unknown|name unknown|repository name not known|manifest for .* not found",
            "There is no such image in the registry",
            "Look at its name and tag.",
        ),
        (
            r"dial tcp|no such host|[Tt]imeout|TLS handshake|connection re(?:fused|set)|EOF$",
            "The registry cannot be reached from the node",
            "Fetch the image where there is a network (`jupyter slurm image pull`), and name the "
            "file; or name a mirror in the profile's [images].",
        ),
        (
            r"[Nn]o space left|disk quota exceeded",
            "There is no room to unpack the image",
            "It needs two or three times its size: set APPTAINER_TMPDIR and APPTAINER_CACHEDIR to "
            "roomy folders in the profile's `setup`, or fetch it once into a file.",
        ),
        (
            r"image targets|image's architecture|exec format error|no image found in .* for arch",
            "The image is for another kind of processor",
            "Look for one for the nodes' own (`uname -m` there).",
        ),
        (
            r"could not open image.*no such file|failed to retrieve path",
            "The image is not on the node",
            "Is its path right, and on a file system that the nodes see?",
        ),
        (
            r"image format not recognized|bad superblock|trying to read the squashfs",
            "The image is no image, or only a part of one",
            "Perhaps its transfer was cut off: fetch or build it again.",
        ),
        (
            r"/bin/sh|executable file not found|shared library is likely missing",
            "The image lacks what every program needs",
            "It needs /bin/sh and python3: try another image.",
        ),
        (
            r"/dev/fuse|fusermount",
            "The node does not let users mount image files",
            "It has no /dev/fuse for you: ask its administrators; a folder as image needs none "
            "(`apptainer build --sandbox FOLDER IMAGE`).",
        ),
        (
            r"user namespace|requires privileges|max_user_namespaces",
            "The node does not let users make containers",
            "Ask its administrators for unprivileged user namespaces, or a set-uid Apptainer.",
        ),
        (
            r"mount source .* doesn't exist|^while mounting|no such file or directory in mount",
            "Something to be mounted is not on the node",
            "What --mount names must exist on the node.",
        ),
    )
)


def _advice(error: str) -> tuple[str, str]:
    for pattern, what, advice in _KINDS:
        if pattern.search(error):
            return what, advice
    return "Apptainer could not run the container", "The sentence is its own."
