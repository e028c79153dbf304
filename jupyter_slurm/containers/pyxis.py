"""Runtime `pyxis`: Slurm's plug-in for enroot, used in an srun step inside the batch script.

Facts (tested with pyxis 0.24, enroot 4.1.2 and Slurm 22.05; from the sources of pyxis 0.1 to 0.24
and srun 19.05 to 25.11):
- With sbatch, the options would put the whole batch script into the container. With srun, the
  script stays outside, where the job's folder, modules and traps are.
- A site's plugstack.conf and enroot.conf set the defaults, so we set every option that has an
  opposite.
- `--container-mounts` cannot escape commas and colons, and before 0.24 it cannot escape blanks. So
  a path with any of these is mounted through a symbolic link. pyxis reads PYXIS_CONTAINER_*
  variables as options, so we unset them.
- srun kills the step on SIGTERM (srun_job.c). So srun runs in its own session, and gets the signal
  only when Slurm ends the job; by then Slurm refuses srun's request to kill the step. Signals for
  the program go to its process ID on the node.
- srun delays a step's lines until they are complete, so the program writes to the job's log itself.
- The environment can limit srun to part of the job's resources; `STEP` prevents that.
- The container inherits the node's environment; variables that the image sets take precedence.
- All tasks of a step on one node share a container, which ends with the last task. enroot's hook
  50-slurm-pmi.sh mounts the PMIx folder; PMI-2 uses a file descriptor that stays open. Without the
  hook, Open MPI 4.1 printed a warning and continued.
- A named container stays on its node, and is reused regardless of `--container-image`. With the
  flag `no_exec`, a step starts a new container from it. Joining a running container would skip our
  mounts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from jupyter_slurm.containers.enroot_containers import (
    GPUS,
    INSIDE,
    JOB_DIR,
    EnrootContainers,
    StartMode,
    check_destination,
    enroot_lines,
    explain_enroot,
    is_plain,
)
from jupyter_slurm.containers.runtime import (
    NUL_IN_SRC,
    SWEEP,
    Box,
    Explained,
    Launch,
    StepInImage,
    image_of,
    in_workdir,
    without_nul,
)
from jupyter_slurm.containers.tool_errors import NO_SHELL, explain
from jupyter_slurm.errors import RequestError

_BARE = (
    "--no-container-mount-home",
    "--no-container-entrypoint",
    "--no-container-remap-root",
    "--container-writable",
    # The folder must exist in the image; the shell inside then enters the program's own folder.
    "--container-workdir=/",
)
"""Options for an idle container."""

_CLEAN = r"""
for one in $(awk 'BEGIN {
  wrong = "^(PYXIS_CONTAINER_[A-Z_]*|PYTHON(PATH|HOME)|VIRTUAL_ENV|CONDA_[A-Z0-9_]*|LD_PRELOAD)$"
  for (name in ENVIRON) if (name ~ wrong) print name
}'); do unset "$one"; done
"""
"""Sh text for the node. It removes variables that would change the request or describe the node's
own programs."""

STEP = (
    r"""
[ -z "${SLURMD_NODENAME:-}" ] || set -- "--nodelist=$SLURMD_NODENAME" "$@"
# Without --cpus-per-task a step gets all of the job's CPUs on its node. So multiply the CPUs per
# task by the job's tasks on this node.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
  tasks=${SLURM_TASKS_PER_NODE%%[!0-9]*}
  set -- "--cpus-per-task=$((SLURM_CPUS_PER_TASK * ${tasks:-1}))" "$@"
fi
# A step of one task on one node cannot get GPUs requested per task or for all nodes together.
# `--gpus` takes the GPUs on this node, regardless of other nodes (`--gres` does not, at least in
# 22.05).
if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ] || [ "${SLURM_NTASKS:-1}" -gt 1 ]; then
  asked=${SLURM_GPUS:-}${SLURM_GPUS_PER_TASK:-}${SLURM_TRES_PER_TASK:-}
  case $asked:${CUDA_VISIBLE_DEVICES:-} in :* | *: | *:NoDevFiles) ;; *)
    commas=$(printf %s "$CUDA_VISIBLE_DEVICES" | tr -dc ,)
    set -- "--gpus=$((${#commas} + 1))" "$@" ;;
  esac
  unset SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK
fi
unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE
"""
    + GPUS
    + _CLEAN
    + r"""
export JSLURM_GPUS="$gpus" JSLURM_LIBRARIES="${LD_LIBRARY_PATH:-}"
"""
)
"""Sh text for the batch script, before a step. It prepends to `"$@"` the options that give the step
the job's resources on this node. It also removes variables that would change the request."""

SRUN = "setsid srun --nodes=1 --ntasks=1 --export=ALL --input=none"

_NAMED = r"""
if [ -n "$name" ]; then
  case $name in *:*) ;; *)
    case $(srun --help 2>/dev/null) in *--container-env*) name=$name:no_exec ;; esac ;;
  esac
  set -- "--container-name=$name" "$@"
fi
"""

# $1: the container's name or ""; then srun's arguments. GPU UUIDs differ between nodes, so on many
# nodes each task keeps the GPU numbers that Slurm sets.
_RANKS = (
    "name=$1; shift 2\n"
    + GPUS
    + r"""
[ -z "$gpus" ] || NVIDIA_VISIBLE_DEVICES=all
export JSLURM_GPUS= JSLURM_PIDS= JSLURM_LIBRARIES="${LD_LIBRARY_PATH:-}"
"""
    + _NAMED
    + _CLEAN
    + r"""
exec srun "$@"
"""
)

# $1: the job dir; $2: the container's name or ""; $3: srun's options for a terminal or ""; then
# other options of srun, `--`, and the program inside.
_START = (
    r"""
dir=$1 name=$2 terminal=$3; shift 3
node=${JSLURM_NODE:-}
finish() { rm -f "$dir/program$node.pid" "$said"; }
# The step gets signals directly. From here, this shell only waits for it to end.
[ -n "$terminal" ] || { trap : TERM INT HUP USR1 USR2; rm -f "$dir/program$node.pid"; }
"""
    + _NAMED
    + STEP
    + r"""
log=$(readlink "/proc/$$/fd/1") real=$(cd -- "$dir" && pwd -P)
case $log in "$real"/*) log=/mnt/job/${log#"$real"/} ;; *) log= ;; esac
export JSLURM_LOG="$log" JSLURM_PIDS="$(readlink /proc/self/ns/pid)"

if [ -n "$terminal" ]; then
  JSLURM_LOG= JSLURM_PIDS=
  unset SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU
  exec srun --nodes=1 --ntasks=1 --export=ALL $terminal "$@"
fi
# Drop srun's lines about exit codes other than 0 and about the end of the step.
said=$dir/srun.${SLURM_RESTART_COUNT:-0}$node
rm -f "$said"
mkfifo "$said" || exit 74
trap finish EXIT
( trap '' TERM INT HUP USR1 USR2
  exec grep --line-buffered -v -e '^srun: error: .*: task 0: ' -e '^slurmstepd.*: \*\*\* STEP ' \
    <"$said" >&2 ) &
sieve=$!
"""
    + SRUN
    + r""" --quiet "$@" 2>"$said" &
child=$!
while :; do
  wait "$child"; rc=$?
  kill -0 "$child" 2>/dev/null && continue
  wait "$child" 2>/dev/null; last=$?
  case $last in 127 | -1) ;; *) rc=$last ;; esac
  break
done
while kill -0 "$sieve" 2>/dev/null; do wait "$sieve"; done
exit "$rc"
"""
)

STEP_INSIDE = (
    INSIDE
    + r"""
[ "${LD_LIBRARY_PATH:-}" != "$JSLURM_LIBRARIES" ] || unset LD_LIBRARY_PATH
[ -z "$JSLURM_GPUS" ] || export CUDA_VISIBLE_DEVICES="$JSLURM_GPUS"
unset JSLURM_GPUS JSLURM_LIBRARIES
"""
)
"""Sh text to run in the container after `STEP` has run outside it."""

_BEFORE = (
    r"""
[ -z "$JSLURM_LOG" ] || exec >>"$JSLURM_LOG" 2>&1
unset JSLURM_LOG
"""
    + STEP_INSIDE
)

_TERMINAL = "--pty --overlap --mem=0"

_PYXIS = re.compile(r"^slurmstepd\S* error: (?:pyxis: (.*)|(execve\(\): .*))$", re.MULTILINE)
_SRUN = re.compile(r"^srun: (?:error: |fatal: )?(.*)$", re.MULTILINE)


class Pyxis(EnrootContainers):
    name = "pyxis"
    programs = ("--container-image",)
    has_mpi = True

    def started(self, argv: Sequence[str], box: Box, mode: StartMode) -> Launch:
        name, options, links = self._container(box)
        terminal = ""
        if mode is StartMode.BESIDE:
            terminal, argv = _TERMINAL, ("/bin/sh", "-c", SWEEP, "sh", *argv)
        return Launch(
            (
                *("/bin/sh", "-c", _START, "sh", box.job_dir, name, terminal),
                *options,
                "--",
                *in_workdir(argv, box, JOB_DIR, _BEFORE),
            ),
            setup=links,
        )

    def step(self, box: Box) -> StepInImage:
        name, options, links = self._container(box)
        return StepInImage(
            before=("/bin/sh", "-c", "\n".join([*links, _RANKS]), "sh", name),
            options=options,
            inside=in_workdir((), box, JOB_DIR, STEP_INSIDE),
        )

    def _container(self, box: Box) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Return the container's name or "", srun's options, and sh lines to run first."""
        image = image_of(box, self.name)
        name = box.container_name or ""
        if image.startswith("@"):
            image, name = "", image.removeprefix("@")
        mounts, links = _mounts(box)
        wanted = {"--no-container-mount-home"}
        wanted |= {"--no-container-remap-root"} if box.as_root else set()
        options = (
            *((f"--container-image={image}",) if image else ()),
            f"--container-mounts={mounts}",
            *(one.replace("--no-", "--") if one in wanted else one for one in _BARE),
        )
        return name, options, links

    def explain(self, log_tail: str) -> Explained | None:
        lines = ["".join(found) for found in _PYXIS.findall(log_tail)]
        own = explain(_ERRORS, [*_SRUN.findall(log_tail), *lines])
        errors = enroot_lines("\n".join(lines))
        return own or explain_enroot(errors or [one for one in lines if "[INFO]" not in one])


def _mounts(box: Box) -> tuple[str, tuple[str, ...]]:
    """Return the value of `--container-mounts`, and sh lines that create the symbolic links that it
    names."""
    if not is_plain(box.job_dir):
        raise RequestError(
            f"pyxis cannot mount {box.job_dir}: it does not allow blanks, commas, colons, quotes, "
            "$ and \\.",
            hint="Set a `job_root` without these characters in the cluster's profile.",
        )
    words, links = [], []
    for number, mount in enumerate(box.mounts):
        check_destination(mount)
        src = without_nul(mount.src, NUL_IN_SRC)
        if not is_plain(src):
            link = f"{box.job_dir}/mount.{number}"
            links.append(f"ln -sfn -- {shlex.quote(src)} {shlex.quote(link)}")
            src = link
        words.append(f"{src}:{mount.dst}{':ro' if mount.read_only else ''}")
    return ",".join([*words, f"{box.job_dir}:{JOB_DIR}"]), tuple(links)


_ERRORS = (
    (
        r"unrecognized option.*container-",
        "This cluster's Slurm lacks pyxis, or has an old version of it",
        "Use another --runtime, or ask the administrators for the plug-in on all nodes.",
    ),
    (
        r"a container with name .* does not exist",
        "The node does not have this container",
        "Use --nodelist with the node that has it, or add --image IMAGE.",
    ),
    (r"execve\(\)|exited too soon", *NO_SHELL),
    (
        r"couldn't (?:mkdir|chown) ",
        "pyxis cannot create its folder on the node",
        "Ask the administrators to check runtime_path in plugstack.conf.",
    ),
    (
        r"Unable to create step|Requested nodes are busy",
        "Slurm did not start the container's step",
        "Use --cpus-per-task instead of --ntasks and --gpus-per-task.",
    ),
)
