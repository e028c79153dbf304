"""Runtime `enroot`: its commands on the node, without pyxis; and what both say and do alike.

Nothing of Slurm's but what a job's environment says. What had to be known (tried with 4.1.2;
src/runtime.sh, src/docker.sh, conf/hooks of 2.2 to 4.1):
- `enroot start` becomes the program, so its exit code is the program's. A container stays on the
  node until it is removed: a shell waits for the end and does that.
- Nothing of the node's environment comes inside; `--env` would lose newlines, and show values to
  everybody who may look at processes. What of the job's is wanted is written to a file.
- `--mount` cannot have blanks. In the text of `--conf`, which has `mounts` and `rc` as functions,
  they are written as in fstab. A mount's destination is made where it is missing.
- The `rc` that is given takes the place of the image's, whose entrypoint would print banners, or
  run something else than it is told.
- The user's own ~/.profile is read inside, where the home is the node's: ENROOT_LOGIN_SHELL=no.
- The NVIDIA hook gives GPUs to what has NVIDIA_VISIBLE_DEVICES. An image need not; the node may.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from jupyter_slurm.containers.enroot_errors import explained_by_enroot
from jupyter_slurm.containers.references import HUB, Reference
from jupyter_slurm.containers.runtime import Box, Explained, Launch, Mount, in_workdir, without_nul
from jupyter_slurm.errors import RequestError

IMAGE_SUFFIXES = (".sqsh", ".squashfs", ".sqfs")
JOB_DIR = "/mnt/job"
PID_FILE = "program.pid"

GPUS = r"""
gpus=
case ${CUDA_VISIBLE_DEVICES:-} in '' | NoDevFiles) ;; *)
  gpus=$(nvidia-smi -i "$CUDA_VISIBLE_DEVICES" --query-gpu=uuid --format=csv,noheader \
    2>/dev/null) && gpus=$(printf '%s' "$gpus" | tr '\n' ,) || gpus= ;;
esac
if [ -n "$gpus" ]; then
  export NVIDIA_VISIBLE_DEVICES="$gpus"
  export NVIDIA_DRIVER_CAPABILITIES="${NVIDIA_DRIVER_CAPABILITIES:-compute,utility,video}"
fi
ENROOT_LOGIN_SHELL=no; export ENROOT_LOGIN_SHELL
"""
"""sh for the node: the job's GPUs by UUID, which is right whether or not cgroups hide the others;
none are named where the node's tools know none."""

INSIDE = r"""
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ -r /etc/environment ]; then
  while IFS= read -r pair || [ -n "$pair" ]; do
    case $pair in PATH=*) PATH=${pair#PATH=} PATH=${PATH#[\"\']} PATH=${PATH%[\"\']} ;; esac
  done </etc/environment
fi
[ -d "${TMPDIR:-/tmp}" ] || unset TMPDIR
export PATH PYTHONNOUSERSITE=1
# Signals go to a process id only where it means the same on both sides.
[ -z "$JSLURM_PIDS" ] || [ "$(readlink /proc/self/ns/pid)" != "$JSLURM_PIDS" ] ||
  printf '%s\n' "$$" >/mnt/job/program.pid
unset JSLURM_PIDS
"""
"""sh for the container: the PATH is the image's, which enroot keeps in that file, whatever a
profile has made of it. The home is the node's: what `pip install --user` has put there is for
another Python."""

_ENVIRONMENT = "node.sh"
_CONF = "enroot.conf"

# $1 the job dir, $2 the image, $3 the text of the configuration, $4 what the container's name gets
# for a program with a terminal, or nothing; then the program inside.
_START = (
    r"""
dir=$1 image=$2 conf=$3 terminal=$4; shift 4
name=jslurm-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
[ -z "$terminal" ] || name=$name-$terminal-$$
made= sqsh= told=
finish() {
  trap '' TERM INT HUP USR1 USR2
  [ -n "$terminal" ] || rm -f "$dir/program.pid"
  [ -z "$made" ] || enroot remove --force "$name" >/dev/null
  [ -z "$sqsh" ] || rm -f "$sqsh"
}
trap finish EXIT
# What runs gets signals by itself; from here on this shell only waits for its end.
trap told=yes TERM INT HUP
trap : USR1 USR2
[ -n "$terminal" ] || rm -f "$dir/program.pid"
run() {
  "$@" &
  child=$!
  while :; do
    wait "$child"; rc=$?
    kill -0 "$child" 2>/dev/null && continue
    wait "$child" 2>/dev/null; last=$?
    [ "$last" = 127 ] || rc=$last
    break
  done
}
step() { # towards a container: nothing follows on what has failed, or on an order to end
  run "$@"
  [ "$rc" != 0 ] || [ -z "$told" ] || rc=143
  [ "$rc" = 0 ] || exit "$rc"
}
create() { # what it says is wanted only where it fails
  log=$dir/enroot.log
  enroot create --name "$name" "$image" >"$log" 2>&1 || { rc=$?; cat "$log" >&2; return "$rc"; }
}
"""
    + GPUS
    + r"""
umask 077
# What a job that was killed has left; of which nothing is known is let alone.
for old in $(enroot list 2>/dev/null | grep '^jslurm-[0-9]'); do
  job=${old#jslurm-}
  case $(squeue --noheader --job "${job%%-*}" --format %T 2>&1) in
  '' | *'Invalid job id'*) enroot remove --force "$old" >/dev/null 2>&1 ;;
  esac
done
printf '%s' "$conf" >"$dir/enroot.conf" || exit 74
[ -z "$gpus" ] || export CUDA_VISIBLE_DEVICES="$gpus"
pids=$(readlink /proc/self/ns/pid)
[ -z "$terminal" ] || pids=
JSLURM_PIDS=$pids awk 'BEGIN {
  told = "^(SLURMD?_[A-Z0-9_]*|CUDA_VISIBLE_DEVICES|HOME|USER|LOGNAME|TZ|JSLURM_PIDS)$"
  for (name in ENVIRON) if (name ~ told) {
    value = ENVIRON[name]; gsub(/\047/, "\047\\\047\047", value)
    printf "export %s=\047%s\047\n", name, value
  }
}' >"$dir/node.sh" || exit 74
case $image in
@*) name=${image#@} ;;
*)
  case $image in /*) ;; *)
    sqsh=${TMPDIR:-/tmp}/$name.sqsh
    step enroot import --output "$sqsh" "docker://$image"
    image=$sqsh ;;
  esac
  made=yes
  step create ;;
esac
[ -z "$sqsh" ] || { rm -f "$sqsh"; sqsh=; }
export ENROOT_MOUNT_HOME=yes ENROOT_REMAP_ROOT=no
set -- enroot start --conf "$dir/enroot.conf" --rw "$name" "$@"
[ -z "$terminal" ] || { "$@"; exit "$?"; }
run "$@"
exit "$rc"
"""
)


class Enroot:
    name = "enroot"
    takes_image = True
    image_suffixes = IMAGE_SUFFIXES

    def fetched(self, reference: Reference) -> str | None:
        return enroot_name(reference)

    def kept(self, name: str) -> str:
        return f"@{container_name(name)}"

    def job_dir(self, box: Box) -> str:
        return JOB_DIR

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        return replace(self._start(argv, box, ""), pid_file=f"{box.job_dir}/{PID_FILE}")

    def in_terminal(self, argv: Sequence[str], box: Box) -> Launch:
        return self._start(argv, box, "terminal")

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """A container of its own: what the job's has changed in its image is not there."""
        return self._start(argv, box, "terminal")

    def _start(self, argv: Sequence[str], box: Box, terminal: str) -> Launch:
        image = image_of(box, self.name)
        for mount in box.mounts:
            check_destination(mount)
        conf = _conf([*box.mounts, Mount(box.job_dir, JOB_DIR)])
        inside = in_workdir(argv, box, JOB_DIR, f". {JOB_DIR}/{_ENVIRONMENT}\n{INSIDE}")
        return Launch(("/bin/sh", "-c", _START, "sh", box.job_dir, image, conf, terminal, *inside))

    def check_argv(self) -> list[str]:
        return ["enroot", "version"]

    def explain(self, log_tail: str) -> Explained | None:
        return explained_by_enroot(log_tail)


def enroot_name(reference: Reference) -> str:
    """As enroot 2 to 4 and pyxis read it: `ubuntu:20.04`, `nvcr.io#nvidia/pytorch:22.11-py3`.

    Its version 4 takes a slash for the `#` too, and digests.
    """
    if reference.registry == HUB:
        return f"{reference.repository.removeprefix('library/')}{reference.version}"
    return f"{reference.registry}#{reference.repository}{reference.version}"


def container_name(name: str) -> str:
    """RequestError: no container can be called that."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        raise RequestError(
            f"{name!r} is not the name of a container that is kept on a node.",
            hint="Say --image @NAME, with the name that `enroot list` shows there; for pyxis "
            "without the `pyxis_` before it.",
        )
    return name


def image_of(box: Box, runtime: str) -> str:
    """The box's image; RequestError where it has none."""
    if box.image is None:
        raise RequestError(
            f"The runtime {runtime} needs an image.",
            hint="Say --image NAME, or --runtime none for the node's own Python.",
        )
    return without_nul(box.image, "the image's name")


def check_destination(mount: Mount) -> None:
    """RequestError: nothing can be mounted there, by enroot, or beside the job's own folder."""
    if not posixpath.isabs(mount.src):
        raise RequestError(f"enroot needs an absolute path to mount, not {mount.src!r}.")
    dst = posixpath.normpath(without_nul(mount.dst, "the mount point"))
    if not is_plain(dst):
        raise RequestError(
            f"{mount.src} cannot be mounted at {mount.dst}: enroot reads blanks, commas, colons, "
            "quotes, $ and \\ there as its own.",
            hint="What is mounted may be called anything; say a plain name behind it: "
            "--mount SRC:/mnt/NAME.",
        )
    if dst in {"/", "/mnt"} or (dst + "/").startswith(JOB_DIR + "/"):
        raise RequestError(
            f"{mount.src} cannot be mounted at {mount.dst}.", hint="Say --mount SRC:/mnt/NAME."
        )


def is_plain(path: str) -> bool:
    """Whether pyxis and enroot hand it on as it is."""
    return not re.search(r'[\s,:"$`\\]', path)


def _conf(mounts: Sequence[Mount]) -> str:
    """bash, which enroot reads: the lines of an fstab, and what runs in place of the entrypoint."""
    lines = [
        f"{_field(without_nul(mount.src, 'the path to mount'))} {mount.dst} "
        f"x-create=auto,rbind{',ro' if mount.read_only else ''}"
        for mount in mounts
    ]
    echoed = "".join(f"  printf '%s\\n' {shlex.quote(line)}\n" for line in lines)
    return f'mounts() {{\n{echoed}}}\nrc() {{\n  cd / && exec "$@"\n}}\n'


def _field(path: str) -> str:
    return re.sub(r"[\s\\]", lambda found: f"\\{ord(found[0]):03o}", path)
