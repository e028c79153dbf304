"""What there is on the machine where Slurm's commands run: looked at once, by one command.

Programs, folders, versions; no judgement (`doctor.py`). Of Slurm only the nodes' names are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.profiles.profile import ClusterProfile, Storage
from jupyter_slurm.transport import Completed, TimedOutError

Run = Callable[[Sequence[str]], Completed]
"""Runs a command there, with the environment of the profile."""

SHARED = (
    "nfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "afs",
    "smb",
    "cifs",
    "panfs",
    "fuse",
    "wekafs",
)
"""File systems, as `stat -f` names them, that several machines see as a rule."""

_PROBE = r"""
home() { case $1 in '~'|'~/'*) printf '%s' "$HOME${1#\~}" ;; *) printf '%s' "$1" ;; esac; }
say() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }
root=$(home "$1"); python=$2 programs=$3 scratch=$4 old=$5 may_sudo=; shift 5
for name in $programs; do say program "$name" "$(command -v "$name")"; done
if srun --help 2>/dev/null | grep -q -e --container-image; then
  say program --container-image "srun"
fi
# Only who may not ask Docker tries sudo, which tells the administrators of everybody whom it
# refuses.
if command -v docker && command -v sudo && ! docker version && sudo -n -l docker; then
  may_sudo=yes
fi >/dev/null 2>&1 </dev/null
[ -n "$may_sudo" ] && say program docker "" && say program sudo-docker sudo
at=$root
while [ ! -e "$at" ] && [ "$at" != / ] && [ "$at" != . ]; do at=$(dirname "$at"); done
[ -d "$at" ] && [ -w "$at" ] && say writable "$root" "$at"
say me "$(id -u)" "$([ "$(id -gn)" != "$(id -un)" ] || id -g)"
up=$at
while :; do
  rights=$(LC_ALL=C ls -ldn -- "$up" 2>/dev/null | { read -r a b c d e; echo "$a $c $d"; })
  say rights "$up" "$rights"
  case $up in / | .) break ;; esac
  up=$(dirname -- "$up")
done
say filesystem "$root" "$(stat -f -c %T "$at" 2>/dev/null)"
say free_kib "$root" "$(df -Pk "$at" 2>/dev/null | awk 'NR == 2 { print $4 }')"
version='import sys; print("%d.%d" % sys.version_info[:2])'
say python "$python" "$("$python" -c "$version" 2>/dev/null)"
say module "" "$(bash -lc 'type module >/dev/null 2>&1 && echo yes' 2>/dev/null </dev/null)"
# What the login files print comes before the word; where they end the shell, it does not come.
case $(/bin/bash -lc 'type -P mkdir >/dev/null && printf outlived' 2>/dev/null </dev/null) in
  *outlived) say login_shell "" yes ;;
  *) say login_shell "" no ;;
esac
say host "" "$(uname -n | cut -d. -f1)"
case $scratch in *'{user}'*) scratch=${scratch%%'{user}'*}$(id -un)${scratch#*'{user}'} ;; esac
if [ -n "$scratch" ]; then
  # A file system with millions of files is not walked to its end.
  { timeout 10 find -H "$scratch" -xdev -type f -mmin "+$old" -printf '%T@ %s %p\n'; echo $?; } \
    2>/dev/null | LC_ALL=C awk -v scratch="$scratch" '
      NF == 1 { cut = $1 == 124 }
      $1 ~ /^[0-9.]+$/ && $2 ~ /^[0-9]+$/ {
        count++; bytes += $2
        if (count == 1 || $1 < oldest) { oldest = $1; sub(/^[^ ]* [^ ]* /, ""); first = $0 }
      }
      END {
        printf "old\t%s\t%.0f %.0f %d\n", scratch, count, bytes, cut
        if (count) printf "oldest\t%s\t%.0f\n", first, int(oldest)
      }'
fi
for path in "$@"; do [ -e "$(home "$path")" ] && say path "$path" yes; done
exit 0
"""
"""$1 job_root, $2 profile.python, $3 programs, $4 a folder whose old files the site erases or "",
$5 the minutes after which one there is old, the rest: paths. Prints KIND, NAME, VALUE."""

_DAY_MIN = 24 * 60


@dataclass(frozen=True)
class Found:
    """The facts of the machine where Slurm's commands run, as the probe has seen them."""

    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def one(self, kind: str) -> str:
        """Return the value of a kind that has one line; "" when there is none."""
        return next(iter(self.facts.get(kind, {}).values()), "")

    @property
    def login_files_end(self) -> bool:
        """True if the login files end a job before its code begins. Nodes mostly share them."""
        return self.one("login_shell") == "no"

    def programs(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` that are there."""
        return [name for name in names if self.facts.get("program", {}).get(name)]


def probe(profile: ClusterProfile, programs: Iterable[str], run: Run) -> Found:
    """Look for `programs`, and for what the profile names. Raises what `run` raises."""
    storage = profile.storage
    purged = (
        [storage.scratch, str(due_days(storage) * _DAY_MIN)] if storage.purge_days else ["", ""]
    )
    words = [profile.job_root, profile.python, " ".join(programs), *purged, *file_paths(profile)]
    argv = ["sh", "-c", _PROBE, "sh", *words]
    facts: dict[str, dict[str, str]] = {}
    for line in run(argv).stdout.decode("utf-8", "replace").splitlines():
        kind, _, rest = line.partition("\t")
        name, _, value = rest.rpartition("\t")
        facts.setdefault(kind, {})[name] = value
    return Found(facts)


def due_days(storage: Storage) -> int:
    """Return the age in days from which a file in `scratch` will soon be erased."""
    return max(storage.purge_days - 14, storage.purge_days // 2)


def file_paths(profile: ClusterProfile) -> list[str]:
    """Return the profile's images and image folders that are files, not names in a registry."""
    return [
        one for one in (*profile.image_dirs, *profile.images.values()) if one.startswith(("/", "~"))
    ]


def ask(run: Run, argv: Sequence[str]) -> str | None:
    """Return what the command printed; None: it failed."""
    try:
        done = run(argv)
    except (JupyterSlurmError, TimedOutError):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")


def is_alone(found: Found, run: Run) -> bool:
    """Tell whether every node of the cluster is the machine that was probed."""
    hosts = (ask(run, ["sinfo", "-h", "-N", "-o", "%n"]) or "").split()
    return bool(hosts) and {host.split(".")[0] for host in hosts} <= {
        found.one("host"),
        "localhost",
    }
