"""POSIX sh text that starts, watches and ends an engine's container on the node.

The script gives the container the job's user, groups, CPUs, memory, GPUs and environment, because
the engine's daemon does not have them. It forwards signals, and leaves no container behind.
`docker.py` has the parts of the command line that do not depend on the node.
"""

from __future__ import annotations

from jupyter_slurm.containers.own_program import REFUSE

ENVIRONMENT = "node$JSLURM_NODE.sh"
"""Name of the file in the job dir with the node's environment, as an sh expression. The file is
emptied when the program starts."""

NOT_BEGUN = "the container did not start"
"""The log line if the engine fails before the program starts."""

FORGET = r"""
node=${SLURMD_NODENAME:-$(hostname)}
forget() {
  for held in "$2"/.*.tar@"$node"; do
    version=${held##*+} version=${version%%.tar@*}
    { [ -f "$held" ] && [ "jupyter-slurm/image:$version" != "$3" ]; } || continue
    ls "$2"/*+"$version".tar >/dev/null 2>&1 && continue
    $1 rmi -- "jupyter-slurm/image:$version" >/dev/null 2>&1 || :
    left=$($1 images --quiet "jupyter-slurm/image:$version") && [ -z "$left" ] && rm -f -- "$held"
  done
  :
}
"""
"""The sh function `forget ENGINE FOLDER TAG`. It removes images from this node's engine if their
files are gone from the image folder, except TAG. Files beside the images record which images the
engine has (`image_folder.py`). The text must not contain apostrophes, because it is quoted."""

_ENGINE = r"""
engine=
while [ "$count" -gt 0 ]; do engine="$engine $1"; shift; count=$((count - 1)); done
say() { printf 'jupyter-slurm: %s\n' "$1" >&2; }
"""

# Load the image if this node runs it for the first time.
_LOAD = r"""
if [ -n "$archive" ] && ! $engine image inspect "$made" >/dev/null 2>&1; then
  $engine load <"$archive" || { say "the container did not start:$engine load failed"; exit 125; }
fi
"""

OWN_PROGRAM = rf"""
archive=$1 made=$2 asked=$3 arguments=$4 count=$5; shift 5
{_ENGINE}
pull=
trap '[ -z "$pull" ] || kill -s TERM "$pull" 2>/dev/null; exit 143' TERM INT
trap : USR1 USR2
{_LOAD}
if ! $engine image inspect "$made" >/dev/null 2>&1; then
  $engine pull "$made" &
  pull=$!
  while :; do
    wait "$pull"; rc=$?
    [ -d "/proc/$pull" ] || break
  done
  [ "$rc" = 0 ] || {{
    say "the container did not start: exit code $rc of$engine pull"; exit 125
  }}
  pull=
fi
own=$($engine image inspect --format "$asked" "$made") || exit 125
[ -n "$own$arguments" ] || {REFUSE}
eval "exec \"\$@\" $own $arguments"
"""
"""Sh text that starts a container with the image's own program. $1: the archive of an image that we
built, or ""; $2: the image's name; $3: the template with which the engine prints the program; $4:
the job's arguments, quoted; $5: the number of words that call the engine; then these words and the
words that start the container."""

# $1: the job dir; $2: the option that mounts it; $3 and $4: the archive and the name of an image
# that we built, or ""; $5: the number of words that call the engine; then these words, the engine's
# options, the image, and the program inside.
_FACTS = (
    r"""
dir=$1 mount=$2 archive=$3 made=$4 count=$5; shift 5
"""
    + _ENGINE
    + r"""
name=jslurm-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}${JSLURM_NODE:-}
environment=$dir/node${JSLURM_NODE:-}.sh
set -- --name "$name" --label "jupyter-slurm.job=$SLURM_JOB_ID" --user "$(id -u):$(id -g)" "$@"
[ -z "${JSLURM_NODE:-}" ] || set -- --env "JSLURM_NODE=$JSLURM_NODE" "$@"

# Mount the home instead of a job dir below it, because root may lack access to a home on NFS.
if [ -d "$HOME" ] && [ "$HOME" != / ]; then
  home=$HOME
  case $home in *\"*) home=$(printf '%s' "$home" | sed 's/"/""/g') ;; esac
  set -- --mount "type=bind,\"src=$home\",\"dst=$home\"" "$@"
  case $dir/ in "$HOME"/*) mount= ;; esac
else
  HOME=$dir; export HOME
fi
[ -z "$mount" ] || set -- "$mount" "$@"

facts=$(awk '/^Cpus_allowed_list:/ { cpus = $2 } /^MemTotal:/ { print cpus, int($2 / 2) "k" }' \
  /proc/self/status /proc/meminfo)
limit=$(ulimit -l 2>/dev/null)
case $limit in '' | *[!0-9]*) limit=-1 ;; *) limit=$((limit * 1024)) ;; esac
set -- --ulimit "memlock=$limit" --shm-size "${facts#* }" "$@"

gpus=
case ${CUDA_VISIBLE_DEVICES:-} in
'' | NoDevFiles) ;;
*GPU-* | *MIG-*) gpus=$CUDA_VISIBLE_DEVICES ;;
*)
  if command -v nvidia-smi >/dev/null; then
    gpus=$(nvidia-smi -i "$CUDA_VISIBLE_DEVICES" --query-gpu=uuid --format=csv,noheader) || {
      say "nvidia-smi does not know the GPUs of this job ($CUDA_VISIBLE_DEVICES): $gpus"; exit 66
    }
    gpus=$(printf '%s' "$gpus" | tr '\n' ,)
    CUDA_VISIBLE_DEVICES=$gpus; export CUDA_VISIBLE_DEVICES
  fi ;;
esac
# NVIDIA's images set this variable to `all`, which applies if NVIDIA's runtime is the engine's
# default.
set -- --env "NVIDIA_VISIBLE_DEVICES=${gpus:-void}" "$@"
"""
)

DOCKER_LIMITS = r"""
for group in $(id -G); do set -- --group-add "$group" "$@"; done
memory=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-0}))}
[ -z "${SLURM_MEM_PER_GPU:-}" ] || memory=$((SLURM_MEM_PER_GPU * ${SLURM_GPUS_ON_NODE:-0}))
[ "$memory" -gt 0 ] && set -- --memory "${memory}m" "$@"
set -- --cpuset-cpus "${facts% *}" "$@"
[ -z "$gpus" ] || set -- --gpus "\"device=$gpus\"" "$@"
"""
"""Sh text with Docker's limits. Docker reads --gpus as CSV, so a list of several GPUs must be
quoted."""

PODMAN_LIMITS = r"""
for gpu in $(printf '%s' "$gpus" | tr , ' '); do
  set -- --device "nvidia.com/gpu=$gpu" "$@"
done
"""
"""Sh text with the GPUs for podman. Podman's containers stay in the job's cgroup, where Slurm's
limits apply. `--gpus` has no effect before 5.0. The device names need podman 4.1 and the output of
`nvidia-ctk cdi generate`."""

_RUN = (
    r"""
mask=$(umask)
umask 077
{
  printf 'umask %s\nexport PYTHONNOUSERSITE=1\n' "$mask"
  awk 'BEGIN {
    told = "^(SLURMD?_[A-Z0-9_]*|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS|HOME|USER|LOGNAME|TZ)$"
    for (name in ENVIRON) if (name ~ told || tolower(name) ~ /^(https?|ftp|no|all)_proxy$/) {
      value = ENVIRON[name]; gsub(/\047/, "\047\\\047\047", value)
      printf "export %s=\047%s\047\n", name, value
    }
  }'
} >"$environment" || exit 74

client='' signalled='' told=''
alive() { kill -0 "$client" 2>/dev/null || [ -d "/proc/$client" ]; }
hand_on() {
  signalled=1
  case $1 in TERM | INT) told=1 ;; esac
  [ -n "$client" ] || return
  tries=0
  until $engine kill --signal "$1" "$name" >/dev/null 2>&1; do
    # Either the engine is pulling the image, and stops if its client ends, or the container is
    # about to start.
    case $1 in TERM | INT) kill -s TERM "$client" 2>/dev/null ;; *) return ;; esac
    tries=$((tries + 1))
    { alive && [ "$tries" -lt 25 ]; } || return
    sleep 0.2
  done
}
for signal in TERM INT USR1 USR2; do trap "hand_on $signal" "$signal"; done

# The pipe needs its name only for a moment. Some shared file systems do not support pipes.
pipe=$dir/stdin${JSLURM_NODE:-}.$$
mkfifo "$pipe" 2>/dev/null || { pipe=/tmp/jslurm-$(id -u).$$; mkfifo "$pipe"; } || exit 74
exec 9<>"$pipe" 8<"$pipe"
rm "$pipe"

# If all processes of a job are killed at once, without TERM before, the engine still creates the
# requested container, but does not start it. The keeper removes the container. The keeper is not a
# child of this script, so it survives if Slurm tracks processes by parents or process groups. Under
# proctrack/cgroup, Slurm kills the keeper too, and the next job on the node removes containers that
# never ran. (Sending the create and start requests in one write does not help: the engine stops
# reading when its client is gone.)
keeper='"""
    + FORGET
    + r"""
trap "" TERM INT HUP USR1 USR2
cd /
$1 container prune --force --filter label=jupyter-slurm.job --filter until=10m
[ -z "$4" ] || forget "$1" "${4%/*}" "$5"
read -r over && exit
for pause in 0 1 2 5; do
  sleep "$pause"
  [ -s "$3" ] || exit # the container has started, and ends on its own
  [ -z "$($1 rm --force "$2")" ] || exit
done'
"""
    + _LOAD
    + r"""
if [ -n "$archive" ]; then # the folder may belong to another user
  note=${archive%/*}/.${archive##*/}@${SLURMD_NODENAME:-$(hostname)}
  [ -e "$note" ] || (: >"$note") 2>/dev/null
fi
[ -z "$told" ] || exit 143
( setsid sh -c "$keeper" sh "$engine" "$name" "$environment" "$archive" "$made" <&8 8<&- 9>&- \
  >/dev/null 2>&1 & )
$engine run --rm --interactive --init "$@" <&8 8<&- 9>&- &
client=$!
exec 8<&-
rc=
# `wait` returns early when a trapped signal arrives. `kill -0` may be denied for a client that sudo
# started. A second `wait` also returns 127.
while :; do
  signalled='' before=$rc
  wait "$client"; rc=$?
  [ -n "$signalled" ] && [ "$rc" -gt 128 ] && continue
  [ "$rc" = 127 ] && rc=${before:-127}
  break
done
trap '' TERM INT USR1 USR2
begun=1
[ -s "$environment" ] && begun=
if [ -z "$begun" ] && { [ -n "$told" ] || [ "$rc" -gt 128 ]; }; then
  # The engine may still be creating the container of a killed client: 20.10 completes it. Slurm
  # waits at least five seconds before it sends KILL (KillWait, src/slurmd/slurmd/req.c).
  for pause in 0 0.5 1 2; do
    sleep "$pause"
    [ -z "$($engine rm --force "$name" 2>/dev/null)" ] || break
  done
else
  [ "$rc" -lt 125 ] || $engine rm --force "$name" >/dev/null 2>&1
  echo over >&9
fi
[ -n "$begun$told" ] || [ "$rc" = 0 ] ||
  say "the container did not start: exit code $rc of$engine run"
exit "$rc"
"""
)

# The program's input is empty. At EOF, a background reader kills everything but process 1, which
# then ends too. The reader is not a child that the program could wait for.
_DEAD_MAN = """exec 3<&0 </dev/null
(
  ( trap '' TERM INT USR1 USR2; while read -r line <&3; do :; done; kill -KILL -1 ) &
)
exec 3<&-
"""


def start_script(limits: str) -> str:
    """Return the script for `sh -c`; `limits` is the engine's own part, which prepends options to
    `"$@"`."""
    return _FACTS + limits + _RUN


def before_program(environment: str) -> str:
    """Return sh text to run in the container before the program. `environment`: the path of the
    environment's file, as an sh expression."""
    return f"{_DEAD_MAN}. {environment}\n: >{environment}\nunset JSLURM_NODE\n"
