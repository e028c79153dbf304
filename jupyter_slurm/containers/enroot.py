"""Runtime `enroot`: its commands on the node, without pyxis. `enroot_containers.py` defines the
part shared with pyxis. Facts (tested with 4.1.2; src/runtime.sh, src/docker.sh and conf/hooks of
2.2 to 4.1):
- `enroot start` execs the program, so its exit code is the program's. A container stays on the node
  until removed, so a shell waits for the program's end and removes the container.
- The container does not inherit the node's environment. `--env` would lose newlines and show values
  to every user who can list processes, so the job's variables are in a file.
- `--mount` does not allow blanks. The file for `--conf` defines the functions `mounts` and `rc`. In
  the lines of `mounts`, blanks are escaped as in fstab. enroot creates a missing mount destination.
- Our `rc` replaces the image's, because its entrypoint may print banners or run another program.
- With the node's home, a shell inside would read the user's own ~/.profile, hence
  ENROOT_LOGIN_SHELL=no.
- The NVIDIA hook gives GPUs to containers with NVIDIA_VISIBLE_DEVICES. The image may lack this
  variable while the node has it.
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
)
from jupyter_slurm.containers.runtime import (
    NUL_IN_SRC,
    Box,
    Explained,
    Launch,
    Mount,
    image_of,
    in_workdir,
    without_nul,
)

_ENVIRONMENT = "node$JSLURM_NODE.sh"
"""Name of the file in the job dir with the node's environment, as an sh expression."""

# $1: the container; $2: the image file, if downloaded.
_HEIR = r"""trap '' TERM INT HUP USR1 USR2
program=
while read -r line; do
  case $line in done) exit ;; *) program=$line ;; esac
done
[ -z "$program" ] || kill -KILL "$program"
rm -f "$2"
for try in 1 2 3; do # the process that unpacks it may still be ending
  enroot list | grep -qxF -e "$1" || exit
  enroot remove --force "$1"
done
"""

# $1: the job dir; $2: the image; $3: the configuration text; $4: "yes" if the program is root
# inside; $5: "beside" for a terminal beside the job's program, or ""; then the program inside.
_START = (
    f"heirs={shlex.quote(_HEIR)}"
    r"""
dir=$1 image=$2 conf=$3 root=$4 terminal=$5; shift 5
node=${JSLURM_NODE:-}
name=jslurm-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}$node
[ -z "$terminal" ] || name=$name-$terminal-$$
made= sqsh= told= heir=
finish() {
  trap '' TERM INT HUP USR1 USR2
  [ -n "$terminal" ] || rm -f "$dir/program$node.pid"
  [ -z "$made" ] || enroot remove --force "$name" >/dev/null
  [ -z "$sqsh" ] || rm -f "$sqsh"
  [ -z "$heir" ] || echo done >&9
}
trap finish EXIT
# Each command below gets signals directly. This shell only waits for it to end.
trap told=yes TERM INT HUP
trap : USR1 USR2
[ -n "$terminal" ] || rm -f "$dir/program$node.pid"
run() {
  "$@" 9>&- &
  child=$!
  [ -z "$heir" ] || echo "$child" >&9
  while :; do
    wait "$child" 2>/dev/null; rc=$? # otherwise the shell prints "Terminated"
    kill -0 "$child" 2>/dev/null && continue
    wait "$child" 2>/dev/null; last=$?
    case $last in 127 | -1) ;; *) rc=$last ;; esac
    break
  done
}
step() { # exit after a failure or a signal
  run "$@"
  [ "$rc" != 0 ] || [ -z "$told" ] || rc=143
  [ "$rc" = 0 ] || exit "$rc"
}
# A killed shell cannot clean up. So a second process receives the list of what to remove over a
# pipe. It is not a child of the job, so it outlives the job if Slurm tracks processes by parent.
# Under proctrack/cgroup, Slurm kills it too, and the next job removes the leftovers.
appoint() {
  pipe=$dir/heir$node.$$
  mkfifo "$pipe" 2>/dev/null || { pipe=${TMPDIR:-/tmp}/$name.heir; mkfifo "$pipe"; } || return 0
  exec 9<>"$pipe" 8<"$pipe"
  rm "$pipe"
  ( setsid /bin/sh -c "$heirs" sh "$name" "${TMPDIR:-/tmp}/$name.sqsh" \
    <&8 8<&- 9>&- >/dev/null 2>&1 & )
  exec 8<&-
  heir=yes
}
create() { # show the log only after a failure
  log=$dir/enroot$node.log
  enroot create --name "$name" "$image" >"$log" 2>&1 || { rc=$?; cat "$log" >&2; return "$rc"; }
}
"""
    + GPUS
    + r"""
umask 077
# Remove leftovers of killed jobs; keep containers of jobs in an unknown state.
for old in $(enroot list 2>/dev/null | grep '^jslurm-[0-9]'); do
  job=${old#jslurm-}
  case $(squeue --noheader --job "${job%%-*}" --format %T 2>&1) in
  '' | *'Invalid job id'*) enroot remove --force "$old" >/dev/null 2>&1 ;;
  esac
done
printf '%s' "$conf" >"$dir/enroot$node.conf" || exit 74
[ -z "$gpus" ] || export CUDA_VISIBLE_DEVICES="$gpus"
pids=$(readlink /proc/self/ns/pid)
[ -z "$terminal" ] || pids=
JSLURM_PIDS=$pids awk -v terminal="$terminal" 'BEGIN {
  told = "^(SLURMD?_[A-Z0-9_]*|CUDA_VISIBLE_DEVICES|HOME|USER|LOGNAME|TZ|JSLURM_PIDS)$"
  shown = "^((COLOR)?TERM|LANG|LC_[A-Z]*)$"
  for (name in ENVIRON) if (name ~ told || terminal != "" && name ~ shown) {
    value = ENVIRON[name]; gsub(/\047/, "\047\\\047\047", value)
    printf "export %s=\047%s\047\n", name, value
  }
}' >"$dir/node$node.sh" || exit 74
case $image in
@*) name=${image#@} ;;
*)
  appoint
  case $image in /*) ;; *)
    sqsh=${TMPDIR:-/tmp}/$name.sqsh
    step enroot import --output "$sqsh" "docker://$image"
    image=$sqsh ;;
  esac
  made=yes
  step create ;;
esac
[ -z "$sqsh" ] || { rm -f "$sqsh"; sqsh=; }
export ENROOT_MOUNT_HOME=yes ENROOT_REMAP_ROOT="$root"
[ -z "$node" ] || set -- /bin/sh -c 'export JSLURM_NODE="$1"; shift; exec "$@"' sh "$node" "$@"
set -- enroot start --conf "$dir/enroot$node.conf" --rw "$name" "$@"
[ -z "$terminal" ] || { "$@" 9>&-; exit "$?"; }
run "$@"
exit "$rc"
"""
)


class Enroot(EnrootContainers):
    name = "enroot"
    programs = ("enroot",)
    has_mpi = False
    """False, because ranks get MPI variables only if a hook of the site lists them."""

    def started(self, argv: Sequence[str], box: Box, mode: StartMode) -> Launch:
        for mount in box.mounts:
            check_destination(mount)
        conf = _conf([*box.mounts, Mount(box.job_dir, JOB_DIR)])
        inside = in_workdir(argv, box, JOB_DIR, f". {JOB_DIR}/{_ENVIRONMENT}\n{INSIDE}")
        terminal = "" if mode is StartMode.PROGRAM else mode.value
        root = "yes" if box.as_root else "no"
        words = (box.job_dir, image_of(box, self.name), conf, root, terminal, *inside)
        return Launch(("/bin/sh", "-c", _START, "sh", *words))

    def explain(self, log_tail: str) -> Explained | None:
        return explain_enroot(enroot_lines(log_tail))


def _conf(mounts: Sequence[Mount]) -> str:
    """Return bash for enroot: fstab lines for the mounts, and a replacement for the entrypoint."""
    lines = [
        f"{_field(without_nul(mount.src, NUL_IN_SRC))} {mount.dst} {_flags(mount)}"
        for mount in mounts
    ]
    echoed = "".join(f"  printf '%s\\n' {shlex.quote(line)}\n" for line in lines)
    return f'mounts() {{\n{echoed}}}\nrc() {{\n  cd / && exec "$@"\n}}\n'


def _flags(mount: Mount) -> str:
    return f"x-create=auto,rbind{',ro' if mount.read_only else ''}"


def _field(path: str) -> str:
    return re.sub(r"[\s\\]", lambda found: f"\\{ord(found[0]):03o}", path)
