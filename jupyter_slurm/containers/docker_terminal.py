"""POSIX sh text that runs a program on a terminal in an engine's container.

A program started in a running container does not end with the engine's client. So the program
stores its process ID, and the script kills it by that ID. `docker_script.py` starts the container
itself.
"""

HANG_UP = 'kill -HUP "-$1" "$1"'
"""Sh text that signals the process group of $1. Many images' shells reject `--` before a group."""

# $1: the job dir; $2: a command that starts an idle container, because only the node of the batch
# script has the job's container; $3: the number of words that call the engine; then these words and
# the program inside.
ENTER = r"""
dir=$1 waiting=$2 count=$3; shift 3
engine=
while [ "$count" -gt 0 ]; do engine="$engine $1"; shift; count=$((count - 1)); done
name=jslurm-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
began=$dir/started.${SLURM_RESTART_COUNT:-0}.json
start= environment=
if ! grep -qsF "\"node\": \"$SLURMD_NODENAME\"" "$began"; then
  start=$waiting JSLURM_NODE=.$SLURMD_NODENAME.$$; export JSLURM_NODE
  name=$name$JSLURM_NODE environment=$dir/node$JSLURM_NODE.sh
fi
mark=$dir/terminal.$$
[ -d "$HOME" ] && [ "$HOME" != / ] || { HOME=$dir; export HOME; }
(
  umask 077
  awk 'BEGIN {
    told = "^(SLURMD?_[A-Z0-9_]*|OMP_NUM_THREADS|HOME|USER|LOGNAME|TZ|(COLOR)?TERM|LANG|LC_[A-Z]*)$"
    for (name in ENVIRON) if (name ~ told || tolower(name) ~ /^(https?|ftp|no|all)_proxy$/) {
      value = ENVIRON[name]; gsub(/\047/, "\047\\\047\047", value)
      printf "export %s=\047%s\047\n", name, value
    }
  }' >"$mark.sh"
) || exit 74

company=
leave() {
  trap '' HUP TERM
  if [ -s "$mark" ]; then
    $engine exec "$name" /bin/sh -c 'HANG_UP' sh "$(cat "$mark")" >/dev/null 2>&1
  fi
  rm -f "$mark" "$mark.sh"
  [ -z "$company" ] || { kill -TERM "$company"; wait "$company"; } 2>/dev/null
  [ -z "$environment" ] || rm -f "$environment"
}
trap 'leave; exit 129' HUP TERM
[ -z "$start" ] || { eval "$start" </dev/null & company=$!; }
runs() {
  [ "$($engine container inspect --format '{{.State.Running}}' "$name" 2>/dev/null)" = true ]
}
until runs; do
  [ -z "$company" ] || kill -0 "$company" 2>/dev/null || {
    wait "$company"; rc=$?; rm -f "$mark.sh"; exit "$rc"
  }
  sleep 0.2
done
$engine exec --interactive --tty --env "JSLURM_TERMINAL=$mark" "$name" "$@"
rc=$?
leave
exit "$rc"
""".replace("HANG_UP", HANG_UP)

BEFORE_ENTERED = r"""mark=$JSLURM_TERMINAL; unset JSLURM_TERMINAL JSLURM_NODE
printf '%s\n' "$$" >"$mark"
. "$mark.sh"; rm -f "$mark.sh"
"""
"""Sh text to run in the container before the program."""
