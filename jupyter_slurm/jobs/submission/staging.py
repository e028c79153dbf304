"""PURE. The folders in which a job's files are copied: names and shell text.

A pushed folder has a mirror on the cluster, so that only changes are sent. The job's own folder
`work` is a copy of the mirror. If the profile's `storage` says so, the node has a copy of `work`,
and the job's script copies changes back however the job ends.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.jobs.submission.script import NO_ROOM_EXIT, SETUP_EXIT
from jupyter_slurm.profiles.profile import Storage
from jupyter_slurm.slurm.units import parse_time_s

INSIDE = "/mnt/work"
"""The folder on the node as a container sees it."""

_RESERVES_IN_LIMIT = 5
"""Minimum time limit in reserves; a shorter limit gets none. Slurm may send a signal a minute
early, and at once if the limit is shorter than the reserve (sbatch(1), --signal)."""


# --- a snapshot of what is pushed -------------------------------------------------------------

MIRROR_KEPT_DAYS = 30
"""Days after which the next push removes an unused mirror."""

# $1 the mirror, $2 the job's folder. An existing copy is complete and stays.
# Then remove one other mirror that was unused for more than $3 days; only one, since the user
# waits. A user of a mirror marks it under its lock first (`files.mirror`), so an old one is unused.
# Without locks all mirrors stay.
_SNAPSHOT_SH = """
[ -d "$2/work" ] && exit 0
(umask 077; mkdir -p -m 700 -- "${2%/*}" "$2") && [ -O "$2" ] && [ ! -L "$2" ] || exit 1
chmod 700 -- "$1" "$2" || exit 1
rm -rf -- "$2/work.partial" && mkdir -- "$2/work.partial" || exit 1
cp -a --reflink=auto -- "$1/." "$2/work.partial" 2>/dev/null ||
  cp -a -- "$1/." "$2/work.partial" || exit 1
rm -rf -- "$2/work.partial/.jupyter-slurm" && mv -- "$2/work.partial" "$2/work" || exit 1
cd -- "${1%/*}" && command -v flock >/dev/null 2>&1 || exit 0
find . ! -name . -prune -type d -mtime "+$3" -print | while read -r old; do
  [ -e "$old.lock" ] && flock -n "$old.lock" sh -c '
    [ -n "$(find "$1" -prune -mtime "+$2")" ] && rm -rf -- "$1" "$1.lock"
  ' old "$old" "$3" && break
done
exit 0
"""


def mirror_of(job_dir: JobDir, host: str, folder: Path) -> PurePosixPath:
    """Return the mirror of the local `folder`, beside `job_root`."""
    of = f"{host}\0{folder}"
    digest = hashlib.blake2b(of.encode(errors="surrogateescape"), digest_size=10)
    return job_dir.path.parent.parent / "pushed" / digest.hexdigest()


def lock_of(mirror: str) -> str:
    """Return the lock file of a mirror, held while it is changed or removed."""
    return f"{mirror}.lock"


def snapshot_argv(mirror: PurePosixPath, job_dir: JobDir) -> list[str]:
    """Return the command that copies the mirror into the job's folder once."""
    words = [str(mirror), str(job_dir.path), str(MIRROR_KEPT_DAYS)]
    return ["sh", "-c", _SNAPSHOT_SH, "snapshot", *words]


# --- on the node ------------------------------------------------------------------------------

_MAKE_WORK = 'mkdir -p -- "{folder}/work" || {{ rc={no_room_exit}; exit $rc; }}'

# The lock ends with its holder, even when killed; folders without one are removed, but only this
# node's, since shared file systems may not share locks. File system clocks are coarse: after `tick`
# every change is newer than `stamp`.
_STAGE_IN = """
no_stage() {{ echo "jupyter-slurm: $1" >&2; rc={setup_exit}; exit $rc; }}
{check}
scratch={scratch}
(umask 077; mkdir -p -- "$scratch") || no_stage "$scratch cannot be written on $HOSTNAME"
if command -v flock >/dev/null 2>&1; then
  for old in "$scratch/jupyter-slurm.$HOSTNAME".*/lock; do
    [ -O "$old" ] && flock -n "$old" rm -rf -- "${{old%/lock}}"
  done
fi
new="$scratch/.jupyter-slurm.$HOSTNAME.$SLURM_JOB_ID.$attempt"
mkdir -m 700 -- "$new" && exec 8>"$new/lock" || no_stage "$scratch cannot be written on $HOSTNAME"
flock -n 8 2>/dev/null
stage="$scratch/jupyter-slurm.$HOSTNAME.$SLURM_JOB_ID.$attempt"
mv -- "$new" "$stage" && cp -a -- "$job_dir/work" "$stage/work" ||
  no_stage "the job's files cannot be copied to $stage on $HOSTNAME"
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

# Signals are noted, but do not interrupt the copying.
_STAGE_OUT = """
  trap '' USR2
  if [ -e "$stage/stamp" ]; then
    if (trap '' TERM INT; set -o pipefail; cd -- "$stage/work" &&
        find . \\( -type f -o -type l -o -type d -empty \\) -cnewer ../stamp -print0 |
        xargs -0 -r cp -a --parents -t "$job_dir/work" --); then
      rm -rf -- "$stage"
    else
      rm -f -- "$stage/lock"
      echo "jupyter-slurm: not all files came back; they are in $stage/work on $HOSTNAME"
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
    """Seconds before the time limit at which the program is stopped; 0: never."""


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
    """Return the profile's reserve; 0 for a job that is too short, or that requests a signal and so
    copies its files back itself."""
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
