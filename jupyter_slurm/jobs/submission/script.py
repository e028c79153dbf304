"""The batch script of a job. No I/O.

The script always claims its attempt, so that a job that was submitted twice runs once. It reports
its start, forwards signals to the program, and writes the exit code to `exit.N.json`. It requires
bash 4.2 (2011) on the node, but not Python.

If `storage.stage` is set in the profile, the script copies the job's folder `work` to the node, and
copies changes back however the job ends.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from jupyter_slurm.profiles.profile import Storage
from jupyter_slurm.slurm.units import parse_time_s

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolve import Resolved

DUPLICATE_EXIT = 0
SETUP_EXIT = 66
"""The exit code if a module or the profile's setup failed: EX_NOINPUT of sysexits.h, which programs
rarely use."""
_MEASURED_MIB = 128
"""The minimum memory of a job on a node. With less memory, the script does not measure the job."""
STAGE_INSIDE = "/mnt/work"
"""The path, in the container, of the copy of the job's files on the node."""
_RESERVES_IN_LIMIT = 5
"""The minimum time limit of a job with a reserve (`storage.reserve_s`), as a multiple of the
reserve. Slurm may send a signal a minute early, and at once if the limit is shorter than the
reserve (sbatch(1), --signal)."""
NO_ROOM_EXIT = 74
"""The exit code if the job's folder cannot be written: EX_IOERR of sysexits.h."""
FAILURES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        NO_ROOM_EXIT: (
            "Cannot write to the job's folder.",
            "Check disk space and quota, and that `job_root` of the cluster's profile is mounted "
            "on the node.",
        ),
        SETUP_EXIT: (
            "Setup on the node failed, so the program did not start.",
            "See the output for the missing module or folder, or the failed setup of the profile.",
        ),
    }
)
"""The reason and the hint for each exit code that this script sets."""


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """The variable parts of the script."""

    title: str
    job_dir: str
    """The path on the node, outside any container."""
    command: Sequence[str]
    """The whole command with the container tool; `{attempt}` stands for the attempt's number, and
    `{task}` for the index of a sweep's task."""
    modules: Sequence[str] = ()
    setup: str = ""
    """The shell text of `setup` in the profile."""
    before: str = ""
    """Shell text that puts the job's files in place."""
    runtime_setup: Sequence[str] = ()
    """Shell lines of the runtime. Each line must succeed."""
    after: str = ""
    """Shell text that copies files back, even after a signal."""
    pid_file: str | None = None
    """The file for the program's process ID; None if the command replaces the shell."""
    signal: tuple[str, str] | None = None
    """The signal of `--signal`, and the signal to forward to the program."""
    login_shell: bool = True
    python: str = "python3"
    """The node's Python, for measurements."""
    is_sweep: bool = False
    """Set if the script runs for each task of an array. sbatch passes `TaskArray.offset` and
    `TaskArray.base` to the script, and each task has its own folder in `job_dir`."""


def render_script(plan: ScriptPlan) -> str:
    """Return the script's text, with a final newline."""
    return _TEMPLATE.format(
        shell="/bin/bash -p" if plan.login_shell else "/bin/bash",
        title=" ".join(plan.title.split()),
        begin=_begin(plan),
        place=(_PLACE_OF_TASK if plan.is_sweep else _PLACE).format(job_dir=_quote(plan.job_dir)),
        usage="$sweep_dir" if plan.is_sweep else "$job_dir",
        news=f"{_NEWS}\n  " if plan.is_sweep else "",
        target=_target(plan),
        signals=_traps(plan.signal),
        caught=_caught(plan.signal),
        prepare=f"{_NEWS}\n{_prepare(plan)}" if plan.is_sweep else _prepare(plan),
        command=_command(plan.command, _NUMBERS_OF_TASK if plan.is_sweep else _NUMBERS),
        python=_quote(plan.python),
        after=_without_dos(plan.after),
        setup_exit=SETUP_EXIT,
        no_room_exit=NO_ROOM_EXIT,
        measured_mib=_MEASURED_MIB,
    )


def render_environment(env: Mapping[str, str]) -> str:
    """Return the text of `env.sh`. Values are sent in a private file, never in a command line."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())


def render_enter(plan: ScriptPlan) -> str:
    """Return the text of the script `enter`. It runs another program in the plan's container, with
    the folder, modules and setup of the job's own program."""
    lines = (
        "#!/bin/bash -l" if plan.login_shell else "#!/bin/bash",
        f"cd -- {_quote(plan.job_dir)} || exit {NO_ROOM_EXIT}",
        _prepare(plan),
        f'exec {_command(plan.command, _NUMBERS)} "$@"',
    )
    return "".join(f"{line}\n" for line in lines)


def _begin(plan: ScriptPlan) -> str:
    """Return shell text that claims the attempt, then reads the login files."""
    claim = _CLAIM.format(no_room_exit=NO_ROOM_EXIT, duplicate_exit=DUPLICATE_EXIT)
    if not plan.login_shell:
        return claim
    count, words = (2, ' "$1" "$2"') if plan.is_sweep else (0, "")
    return _LOGIN.format(claim=claim, count=count, words=words)


def _quote(text: str) -> str:
    """Quote one word for bash."""
    return _without_dos(shlex.quote(text))


def _without_dos(quoted: str) -> str:
    """Return an equivalent script without CR LF, which sbatch rejects (src/sbatch/opt.c). Our
    script has CR LF only in single quotes."""
    return quoted.replace("\r\n", "\r'$'\\n''")


def _command(argv: Sequence[str], numbers: Mapping[str, str]) -> str:
    return " ".join(numbers.get(word) or _quote(word) for word in argv)


def _target(plan: ScriptPlan) -> str:
    """Return shell text that prints the ID of the process to signal, or nothing before the program
    has started."""
    if plan.pid_file is None:
        return "$(program)"
    stem, suffix = plan.pid_file.removesuffix(".pid"), '"$JSLURM_NODE".pid'
    path = f"{_quote(stem)}{suffix}" if plan.is_sweep else _quote(plan.pid_file)
    return f"$(cat {path} 2>/dev/null)"


def _traps(signal: tuple[str, str] | None) -> str:
    lines = ["trap 'caught=TERM; hand_on TERM' TERM", "trap 'caught=INT; hand_on INT' INT"]
    lines.append("trap : URG")
    if signal and signal[0] not in ("TERM", "INT"):
        lines.append(f"trap 'hand_on {signal[1]}' {signal[0]}")
    return "\n".join(lines)


def _caught(signal: tuple[str, str] | None) -> str:
    """Return the names of the signals that `_traps` catches and forwards."""
    return " ".join(dict.fromkeys(("TERM", "INT", *(signal or ())[:1])))


def _prepare(plan: ScriptPlan) -> str:
    lines: list[str] = []
    if plan.modules:
        lines.append(_MODULES.strip("\n"))
        lines += [f"load_module {_quote(module)}" for module in plan.modules]
    if plan.setup.strip():
        lines.append(plan.setup.replace("\r\n", "\n").rstrip("\n"))
    if plan.before:
        lines.append(_without_dos(plan.before.strip("\n")))
    setup = map(_without_dos, plan.runtime_setup)
    lines += [f"{{ {line}; }} || {{ rc={SETUP_EXIT}; exit $rc; }}" for line in setup]
    return "\n".join(lines)


_MODULES = """
if ! type module >/dev/null 2>&1; then
  for init in "${LMOD_PKG:-/none}/init/bash" "${MODULESHOME:-/none}/init/bash" \\
      /etc/profile.d/lmod.sh /etc/profile.d/modules.sh /etc/profile.d/z00_lmod.sh \\
      /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do
    [ -r "$init" ] && . "$init" && break
  done
fi
load_module() {
  if ! type module >/dev/null 2>&1; then
    echo "jupyter-slurm: cannot load the module '$1': this node lacks the command 'module'" >&2
    rc=66; exit $rc
  fi
  # Environment Modules before version 4 print ERROR and return 0. So check afterwards
  # whether the module is loaded.
  if ! module load "$1" || ! module list 2>&1 | grep -qF -- "${1%%/*}"; then
    echo "jupyter-slurm: cannot load the module '$1'; list the modules with 'module avail'" >&2
    rc=66; exit $rc
  fi
}
"""

_NUMBERS: Mapping[str, str] = MappingProxyType({"{attempt}": '"$attempt"'})
_NUMBERS_OF_TASK = MappingProxyType({**_NUMBERS, "{task}": '"$task"'})
_PLACE = """\
job_dir={job_dir}
attempt=${{SLURM_RESTART_COUNT:-0}}"""
_PLACE_OF_TASK = """\
sweep_dir={job_dir}
task=$(($1 + SLURM_ARRAY_TASK_ID)) attempt=$(($2 + ${{SLURM_RESTART_COUNT:-0}}))
job_dir=$sweep_dir/tasks/$task
(umask 077 && mkdir -p "$job_dir")"""
_NEWS = """printf '%s %s\\n' "$task" "$attempt" >>"$sweep_dir/news\""""

_CLAIM = """\
# After a lost answer the job may be submitted again. Only the first of the two jobs can create this
# folder (mkdir is atomic, even on NFS). The other job exits at once.
if ! mkdir "$job_dir/claim.$attempt"; then
  if [ -d "$job_dir/claim.$attempt" ]; then
    echo "jupyter-slurm: another submission of this job is already running" >&2
    exit {duplicate_exit}
  fi
  echo "jupyter-slurm: cannot write to $job_dir on $HOSTNAME" >&2
  exit {no_room_exit}
fi
"""
_LOGIN = """\
# Claim the attempt before reading the login files: if they end the shell, the claim is the only
# trace.
if [ $# = {count} ]; then
{claim}exec /bin/bash -l "$0"{words} logged-in
fi
set +efuC # the login files may have changed them
unset IFS
type -P mkdir >/dev/null || exit 1
"""

_TEMPLATE = """\
#!{shell}
# {title}
# Written by jupyter-slurm. All files of this job are in the folder below.
{place}
rc=255 caught='' child='' seconds='' stage='' out_of_time=''

{begin}
exec >>"$job_dir/log.$attempt" 2>&1 </dev/null || exit {no_room_exit}

# Print the ID of the program, the only child of the process that waits for it. The program may
# still be starting.
program() {{
  local round stat line
  for round in 1 2 3 4 5; do
    kill -0 "$child" 2>/dev/null || return
    for stat in /proc/[0-9]*/stat; do
      {{ read -r line <"$stat"; }} 2>/dev/null || continue
      set -- "${{line%% *}}" ${{line##*) }} # proc(5): $3 parent
      [ "$3" != "$child" ] || {{ echo "$1"; return; }}
    done
  done
}}
# A signal may arrive after the program has started, but before this script has noted the process.
# The program is then the child that did not exist before.
hand_on() {{
  [ -n "$child" ] || [ -z "$before" ] || [ "$before" = "before $!" ] || child=$!
  local target
  target="{target}"
  [ -n "$target" ] && kill -"$1" "$target" 2>/dev/null
}}
# Find the descendants of this script and their start times. A container tool may start programs in
# other process groups (Apptainer's squashfuse), which a signal to this group does not reach.
find_below() {{
  below=''
  local stat line round tree=' '
  for round in 1 2 3; do
    for stat in /proc/[0-9]*/stat; do
      {{ read -r line <"$stat"; }} 2>/dev/null || continue
      set -- "${{line%% *}}" ${{line##*) }} # proc(5): $3 parent, $4 group, ${{21}} begin
      case $tree in *" $1 "*) continue ;; esac
      if [ "$4" = "$$" ]; then
        tree="$tree$1 "
      else
        case $tree in *" $3 "*) tree="$tree$1 " below="$below $1.${{21}}" ;; esac
      fi
    done
  done
}}
kill_below() {{
  local one line
  for one in $below; do
    {{ read -r line <"/proc/${{one%.*}}/stat"; }} 2>/dev/null || continue
    set -- "${{line%% *}}" ${{line##*) }}
    [ "$1.${{21}}" != "$one" ] || kill -KILL "$1"
  done
}}
finish() {{
  trap - EXIT
{after}
  trap '' TERM INT
  printf -v seconds '%(%s)T' -1
  printf -v ended '{{"exit_code": %d, "signal": "%s", "time_s": %d}}' "$rc" "$caught" "$seconds"
  printf '%s\\n' "$ended" >"$job_dir/exit.$attempt.json" || rc={no_room_exit}
  {news}exit "$rc"
}}
trap finish EXIT
{signals}

printf -v seconds '%(%s)T' -1
printf -v began '"slurm_id": "%s", "node": "%s", "time_s": %d' \\
  "$SLURM_JOB_ID" "${{SLURMD_NODENAME:-$HOSTNAME}}" "$seconds"
odd='[^a-zA-Z0-9_.@-]'
printf -v began '{{%s, "partition": "%s", "user": "%s"}}' \\
  "$began" "${{SLURM_JOB_PARTITION//$odd}}" "${{SLURM_JOB_USER//$odd}}"
# The line is short enough to be written at once, so do not rename the file into place. The same
# applies to the exit file. On a full disk the file exists but is empty.
printf '%s\\n' "$began" >"$job_dir/started.$attempt.json" || {{ rc={no_room_exit}; exit $rc; }}

{prepare}

# A helper waits for EOF on a pipe, which closes when this script ends. After a second it also
# measures the program. If this script was killed, the helper ends the processes that Slurm leaves
# running if it tracks processes by their parents (proctrack/linuxproc). The helper is not a child
# of this script, because bash 5.2 would still wait for that child after the program is killed by a
# signal. The helper also signals this script every five seconds, because a bash that is about to
# wait ignores a signal until the next signal or the end of the program.
exec 7> >(
  (
    trap '' TERM INT HUP USR1 USR2
    exec >/dev/null 2>&1 8>&-
    poke() {{ until read -rt 5 || [ $? -le 128 ]; do kill -URG "$$"; done; }}
    # Measuring takes about 12 MB of the job's memory, too much for a job with little memory.
    memory=${{SLURM_MEM_PER_NODE:-$((${{SLURM_MEM_PER_CPU:-0}} * ${{SLURM_CPUS_ON_NODE:-1}}))}}
    if [ "$memory" -gt 0 ] && [ "$memory" -lt {measured_mib} ]; then
      poke
    elif ! {{ read -rt 1 || [ $? -le 128 ]; }}; then
      for python in {python} python3 /usr/libexec/platform-python; do
        command -v "$python" || continue
        "$python" -ISB "{usage}/usage.py" "$job_dir/usage.$attempt.jsonl" "$$" <&0 &
        break
      done
      poke
    fi
    [ ! -s "$job_dir/exit.$attempt.json" ] || exit
    find_below
    kill -TERM -- "-$$"; sleep 2; hand_on KILL; kill_below; kill -KILL -- "-$$"
  ) <&0 &
)
before="before $!"
# `wait` returns early when a trapped signal arrives. If the child ends at that moment, bash 5.2
# loses the child's exit code in one of three cases. So a process without traps waits for the
# program, and writes the program's exit code to a file.
(
  trap : {caught} # not '', which the program would inherit
  exec 2>/dev/null # otherwise bash prints "Killed" and the whole command
  {command} 2>&1
  rc=$?
  printf '%d\n' "$rc" >"$job_dir/claim.$attempt/code"
  exit "$rc"
) 7>&- 8>&- &
child=$!
while :; do
  wait "$child"; rc=$?
  kill -0 "$child" 2>/dev/null || break
done
{{ read -r code <"$job_dir/claim.$attempt/code"; }} 2>/dev/null && rc=$code
exit "$rc"
"""


# --- the job's files on the node ---

_MAKE_WORK = 'mkdir -p -- "{folder}/work" || {{ rc={no_room_exit}; exit $rc; }}'

# The system releases the lock when its holder ends, even if the holder is killed. Remove folders
# without a lock, but only those of this node, since shared file systems may not share locks. File
# system clocks are coarse. Once `tick` is newer than `stamp`, every later change is newer too.
_STAGE_IN = """
no_stage() {{ echo "jupyter-slurm: $1" >&2; rc={setup_exit}; exit $rc; }}
{check}
scratch={scratch}
(umask 077; mkdir -p -- "$scratch") || no_stage "cannot write to $scratch on $HOSTNAME"
if command -v flock >/dev/null 2>&1; then
  for old in "$scratch/jupyter-slurm.$HOSTNAME".*/lock; do
    [ -O "$old" ] && flock -n "$old" rm -rf -- "${{old%/lock}}"
  done
fi
new="$scratch/.jupyter-slurm.$HOSTNAME.$SLURM_JOB_ID.$attempt"
mkdir -m 700 -- "$new" && exec 8>"$new/lock" || no_stage "cannot write to $scratch on $HOSTNAME"
flock -n 8 2>/dev/null
stage="$scratch/jupyter-slurm.$HOSTNAME.$SLURM_JOB_ID.$attempt"
mv -- "$new" "$stage" && cp -a -- "$job_dir/work" "$stage/work" ||
  no_stage "cannot copy the job's files to $stage on $HOSTNAME"
: >"$stage/stamp"
until [ "$stage/tick" -nt "$stage/stamp" ]; do sleep 0.01; : >"$stage/tick"; done
ln -sfn -- "$stage/work" "$job_dir/stage" || {{ rc={no_room_exit}; exit $rc; }}
"""

_RESERVE = """
time_up() {{
  out_of_time=1
  hand_on TERM
  {{ for ((left = {grace_s}; left > 0; left--)); do sleep 1; done; hand_on KILL; }} &
  killer=$!
}}
trap time_up USR2
"""

# Record signals, but do not let them interrupt the copying.
_STAGE_OUT = """
  trap '' USR2
  if [ -e "$stage/stamp" ]; then
    if (trap '' TERM INT; set -o pipefail; cd -- "$stage/work" &&
        find . \\( -type f -o -type l -o -type d -empty \\) -cnewer ../stamp -print0 |
        xargs -0 -r cp -a --parents -t "$job_dir/work" --); then
      rm -rf -- "$stage"
    else
      rm -f -- "$stage/lock"
      echo "jupyter-slurm: cannot copy all files back; see $stage/work on $HOSTNAME"
      [ "$rc" != 0 ] || rc={no_room_exit}
    fi
  elif [ -n "$stage" ]; then
    rm -rf -- "$stage"
  fi
  rm -f -- "$job_dir/stage"
"""

# Let Slurm report that the time limit was reached.
_AWAIT_END = """
  if [ -n "$out_of_time" ]; then
    kill "$killer" 2>/dev/null
    for ((left = {longest_s}; left > 0; left--)); do
      [ -n "$caught" ] && break
      sleep 1 & wait $!
    done
  fi
"""


@dataclass(frozen=True, slots=True)
class Staged:
    """The part of the job's script that copies its files to the node and back."""

    before: str
    """Shell text before the program starts."""
    after: str
    """Shell text after the program has ended for any reason."""
    reserve_s: int
    """Seconds to reserve before the time limit, by stopping the program then; 0 for none."""


def staged(job: Resolved) -> Staged:
    """Return the staging part of the job's script."""
    if not job.runs_in_work:
        return Staged("", "", 0)
    folder = "$sweep_dir" if job.kind.has_tasks else "$job_dir"
    before = _MAKE_WORK.format(folder=folder, no_room_exit=NO_ROOM_EXIT)
    if not job.is_staged:
        return Staged(before, "", 0)
    check, scratch = _scratch(job.profile.storage)
    before += _STAGE_IN.format(
        check=check, scratch=scratch, setup_exit=SETUP_EXIT, no_room_exit=NO_ROOM_EXIT
    )
    after = _STAGE_OUT.strip("\n").format(no_room_exit=NO_ROOM_EXIT)
    reserve_s = _reserve_s(job.options, job.profile.storage.reserve_s)
    if reserve_s:
        before += _RESERVE.format(grace_s=max(1, reserve_s // 3))
        after += "\n" + _AWAIT_END.strip("\n").format(longest_s=reserve_s + 120)
    return Staged(before, after, reserve_s)


def _reserve_s(options: Mapping[str, str], reserve: int) -> int:
    """Return the profile's reserve; 0 if the job's time limit is too short or `--signal` is set."""
    if options.get("signal"):
        return 0
    limit_s = parse_time_s(options["time"]) if options.get("time") else None
    return 0 if limit_s is not None and limit_s < _RESERVES_IN_LIMIT * reserve else reserve


_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def _scratch(storage: Storage) -> tuple[str, str]:
    """Return shell text that checks the variables in `scratch`, and a shell word for its value."""
    check, words, at = [], [], 0
    for found in _VARIABLE.finditer(storage.scratch):
        name = found[1] or found[2]
        words += [_literal(storage.scratch[at : found.start()]), f'"${{{name}}}"']
        check.append(
            f'[ -n "${{{name}-}}" ] || no_stage "the variable {name}, which storage.scratch names, '
            'is not set on $HOSTNAME"'
        )
        at = found.end()
    words.append(_literal(storage.scratch[at:]))
    return "\n".join(check), "".join(words)


def _literal(text: str) -> str:
    user = '"$(id -un)"'
    return user.join(shlex.quote(part) if part else "" for part in text.split("{user}"))
