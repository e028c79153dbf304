"""Where a job runs, and how its files get there and back: names and shell text. PURE: no I/O.

Three places: the mirror of a pushed folder, kept on the cluster so that only what differs travels;
the job's own folder `work`, a copy of it; and, where the profile's `storage` says so, a copy of
that on the node, of which the job's script brings back what has changed, however it ends.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.jobs.submission.script import NO_ROOM_EXIT, SETUP_EXIT
from jupyter_slurm.profiles.profile import Storage
from jupyter_slurm.slurm.units import parse_time_s

INSIDE = "/mnt/work"
"""The folder on the node, as a container sees it."""

_RESERVES_IN_LIMIT = 5
"""A time limit with room for fewer reserves gets none: Slurm may send a signal a minute early, and
at once where the limit is shorter than the reserve (sbatch(1), --signal)."""


# --- a snapshot of what is pushed -------------------------------------------------------------

MIRROR_KEPT_DAYS = 30
"""A mirror that no job was pushed from for so long is removed by the next push of any folder."""

# $1 the mirror, $2 the job's folder. A copy that is there is whole, and stays as it is.
# Then one other mirror goes that was not used for more than $3 days: one, for somebody waits. Who
# uses a mirror marks it under its lock before looking at it (`files.mirror`), so what is old under
# its lock is nobody's; where nothing can be locked, all of them stay.
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
    """Return where the cluster keeps its copy of this machine's `folder`, beside `job_root`."""
    of = f"{host}\0{folder}"
    digest = hashlib.blake2b(of.encode(errors="surrogateescape"), digest_size=10)
    return job_dir.path.parent.parent / "pushed" / digest.hexdigest()


def lock_of(mirror: str) -> str:
    """Return the file that a program locks there while it changes a mirror, or takes it away."""
    return f"{mirror}.lock"


def snapshot_argv(mirror: PurePosixPath, job_dir: JobDir) -> list[str]:
    """Return the command that copies the mirror into the job's folder, unless that is done."""
    words = [str(mirror), str(job_dir.path), str(MIRROR_KEPT_DAYS)]
    return ["sh", "-c", _SNAPSHOT_SH, "snapshot", *words]


# --- on the node ------------------------------------------------------------------------------

_MAKE_WORK = 'mkdir -p -- "$job_dir/work" || {{ rc={no_room_exit}; exit $rc; }}'

# The lock goes with its holder, also when that is killed outright; what is without one is removed.
# Only this node's: file systems that nodes share keep locks to themselves. `tick` is waited for
# since clocks of file systems are coarse: what changes from then on is newer than `stamp`.
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

# A signal for the job is noted, and what copies does not hear it.
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

# Slurm is to be the one that says that the time was up.
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
    """The part of the job's script that prepares the folder in which the job runs."""

    before: str
    """Shell text, before its program starts."""
    after: str
    """Shell text, when the program has ended, whatever ended it."""
    reserve_s: int
    """How long before the time limit the program is ended, to bring its files back; 0: not."""


def staged(job: Resolved) -> Staged:
    """Return what the job's script does to stage the job's files."""
    if not job.runs_in_work:
        return Staged("", "", 0)
    before = _MAKE_WORK.format(no_room_exit=NO_ROOM_EXIT)
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
    """Return the profile's reserve, and 0 for a job that has not the time for it, or asks for a
    signal of its own: that brings its files back itself."""
    if options.get("signal"):
        return 0
    limit_s = parse_time_s(options["time"]) if options.get("time") else None
    return 0 if limit_s is not None and limit_s < _RESERVES_IN_LIMIT * reserve else reserve


_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def _scratch(storage: Storage) -> tuple[str, str]:
    """Return shell text that checks the variables in `scratch`, and a word that is its value."""
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
