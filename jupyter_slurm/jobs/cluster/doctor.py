"""The checks that `jupyter slurm doctor` runs on a cluster.

Each check is a row with a shell command, the expected output and a hint. The commands do not change
or submit anything. Three calls to the cluster run all of them.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jupyter_slurm.containers import RUNTIMES
from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.formatting import visible
from jupyter_slurm.profiles.profile import UP_ORIGIN, ClusterProfile
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.transport import Completed, TimedOutError
from jupyter_slurm.transport.ssh.route import NO_SSH, has_openssh
from jupyter_slurm.wire import Check, Connection, ConnectionState

Run = Callable[[Sequence[str]], Completed]
"""A call that runs a command on the machine with Slurm's commands, in the profile's environment."""

SHARED = r"^(?:nfs|lustre|gpfs|beegfs|ceph|afs|smb|cifs|panfs|fuse|wekafs)"
"""A pattern for the `stat -f` names of file systems that machines usually share."""

_NOTHING = r"\A\Z"
_ANYTHING = r"."
_FEW_SESSIONS = 4


class Row(NamedTuple):
    """A check."""

    name: str
    command: str
    """sh text that prints the value. `_SETTINGS` provides the profile's settings."""
    expected: str
    """A pattern for good values."""
    hint: str | None = None
    otherwise: bool | None = False
    """`Check.ok` for other values; None if the row is for information only."""
    needs: Callable[[ClusterProfile], object] | None = None
    """A function that returns the profile setting required by the row. `examine` skips the row if
    the setting is empty."""
    of_nodes: bool = False
    """Set if the value depends on the nodes; a login node may have another value."""


def _programs(profile: ClusterProfile) -> Sequence[str]:
    return RUNTIMES[profile.runtime].programs if profile.runtime in RUNTIMES else ()


def _paths(profile: ClusterProfile) -> list[str]:
    """Return the profile's image folders and the paths of its image files, but not the references
    to images in registries."""
    return [one for one in (*profile.image_dirs, *profile.images.values()) if one[:1] in ("/", "~")]


_SETTINGS = r"""
home() { case $1 in '~'|'~/'*) printf %s "$HOME${1#\~}" ;; *) printf %s "$1" ;; esac; }
# Try sudo only if the user cannot use Docker directly: sudo reports each refusal to the
# administrators.
has() {
  case $1 in
  -*) srun --help | grep -q -e "$1" ;;
  docker) command -v docker && ! has sudo-docker ;;
  sudo-docker)
    [ -n "$by_sudo" ] || {
      by_sudo=no
      command -v docker && command -v sudo && ! docker version && sudo -n -l docker && by_sudo=yes
    }
    [ "$by_sudo" = yes ] ;;
  *) command -v "$1" ;;
  esac >/dev/null 2>&1 </dev/null
}
root=$(home "$1") python=$2 tools=$3 scratch=$4 days=$5 partitions=$6 by_sudo=; shift 6
at=$root
while [ ! -e "$at" ] && [ "$at" != / ] && [ "$at" != . ]; do at=$(dirname -- "$at"); done
"""
"""sh text that precedes the rows. Its arguments are, in this order, job_root, Python, the runtime's
programs, the scratch folder, the number of days until the site erases a file in that folder, the
partitions, and the image files and folders."""

_REPLACEABLE = """uid=$(id -u) up=$at
[ "$(id -gn)" = "$(id -un)" ] && gid=$(id -g) || gid=4294967295
while :; do
  find "$up" -maxdepth 0 %s -printf '%%p %%M\\n'
  case $up in / | .) break ;; esac
  up=$(dirname -- "$up")
done"""
_FOREIGN = '! -uid "$uid" ! -uid 0 -o ! -perm -1000 ! -perm -0002 -perm -0020 ! -gid "$gid"'
_OWN_FOLDERS = (
    "Set `job_root` to a folder whose parents are not writable by others, or run `chmod +t` on a "
    "shared parent."
)

_COMMANDS = Row(
    "Slurm's commands",
    'for one in squeue scontrol scancel sinfo sbatch; do command -v "$one" >/dev/null || '
    'echo "$one missing"; done; command -v sbatch',
    r"\A(?!.* missing)",
    "Add the commands' folder to `path` in the cluster's profile.",
)
_CONTROLLER = Row("Controller", "scontrol ping", r" is UP")
_SLURM = (
    Row(
        "Slurm version",
        "sinfo --version",
        r" (?:20\.11|2[1-9]\.|[3-9]\d\.)",
        "Ask the administrators for Slurm 20.11 or later: earlier releases lack options of sbatch.",
        None,
    ),
    Row(
        "Accounting",
        "scontrol show config | sed -n 's/^AccountingStorageType *= //p'",
        r"slurmdbd",
        "Ask the administrators for slurmdbd: it records usage and the user who cancelled a job.",
        None,
    ),
    Row(
        "Slurm keeps ended jobs for",
        "scontrol show config | sed -n 's/^MinJobAge *= //p'",
        r"^(?:0|[3-9]\d|\d{3,}) ",
        "Ask the administrators for a MinJobAge of 300.",
        None,
    ),
    Row(
        "Partitions",
        "sinfo --noheader -o '%P %a' | awk '$2 == \"up\" { print $1 }'",
        _ANYTHING,
        "See `sinfo -a`.",
    ),
    Row(
        "Missing partitions",
        'for one in $partitions; do [ -n "$(sinfo --all --noheader -p "$one" -o %P)" ] || '
        'echo "$one"; done',
        _NOTHING,
        "Change `partitions` in the cluster's profile.",
        None,
        needs=lambda profile: profile.partitions,
    ),
    Row("Nodes", "sinfo --noheader -N -o %N | sort -u | wc -l", r"[1-9]", "See `sinfo -a -N`."),
    Row(
        "Nodes out of service", "sinfo --noheader -R -o '%N: %E'", _NOTHING, "See `sinfo -R`.", None
    ),
    Row("GPUs", "sinfo --noheader -o '%D x %G' | grep gpu", _ANYTHING, None, None),
)
_ONE_MACHINE = Row(
    "One machine",
    'hosts=$(sinfo --noheader -N -o %n | cut -d. -f1); [ -n "$hosts" ] && ! echo "$hosts" | '
    'grep -qvx -e localhost -e "$(uname -n | cut -d. -f1)" && echo yes',
    _ANYTHING,
)

PYTHON = Row(
    "Python without an image",
    '"$python" -c \'import sys; print("%d.%d" % sys.version_info[:2])\'',
    r"^(?:3\.(?:[6-9]|\d\d)|[4-9])",
    "Set `python` in the cluster's profile to Python 3.6 or later on the nodes.",
    of_nodes=True,
)
TOOLS = Row(
    "Container tools",
    "".join(
        f"has {tool.programs[0]} && echo {name}\n"
        for name, tool in RUNTIMES.items()
        if tool.programs
    ),
    _ANYTHING,
    None,
    None,
)
MODULES = Row(
    "Environment modules",
    "bash -lc 'type module >/dev/null && echo available' </dev/null | grep -o available",
    _ANYTHING,
    "Ask the administrators for `module`: the profile loads modules.",
    None,
    needs=lambda profile: profile.modules,
)
LOGIN_FILES = Row(
    "Login files",
    "/bin/bash -lc 'type -P mkdir >/dev/null && echo harmless' </dev/null | grep -o harmless || "
    "echo 'they end the shell'",
    r"harmless",
    "Set `login_shell = false` in the cluster's profile: the login files end a job before its code "
    "starts (an `exec`, an `exit` or a wrong PATH).",
    needs=lambda profile: profile.login_shell,
)
_MACHINE = (
    LOGIN_FILES,
    Row(
        "Job folder",
        '[ -d "$at" ] && [ -w "$at" ] || echo "not writable"; printf "%s\\n" "$root"',
        r"\A(?!not writable)",
        "Set `job_root` in the cluster's profile to a folder that every node mounts and that you "
        "can write to.",
    ),
    Row(
        "Space in the job folder",
        """df -Pk "$at" | awk 'NR == 2 { printf "%.1f GiB\\n", $4 / 1048576 }'""",
        r"\A(?!0\.)",
        "Remove old files from the folder, or set another `job_root`.",
    ),
    Row(
        "File system of the job folder",
        'stat -f -c %T "$at"',
        SHARED,
        "If the nodes do not mount this folder, set `job_root` to a shared folder.",
        None,
    ),
    Row(
        "World-writable parents of the job folder",
        _REPLACEABLE % "! -perm -1000 -perm -0002",
        _NOTHING,
        _OWN_FOLDERS,
    ),
    Row(
        "Parents of the job folder, owned or writable by others",
        _REPLACEABLE % rf"\( {_FOREIGN} \)",
        _NOTHING,
        _OWN_FOLDERS,
        None,
    ),
    # Stop early on a file system with millions of files.
    Row(
        "Files that the site erases soon",
        r"""case $scratch in
*'{user}'*) scratch=${scratch%%'{user}'*}$(id -un)${scratch#*'{user}'} ;;
esac
old=$((days > 28 ? days - 14 : days / 2))
timeout 10 find -H "$scratch" -xdev -type f -mmin "+$((old * 1440))" -printf '%T@ %s %p\n' |
  LC_ALL=C awk '{
    count++; bytes += $2
    if (count == 1 || $1 < oldest) { oldest = $1; sub(/^[^ ]* [^ ]* /, ""); first = $0 }
  } END { if (count) printf "%d %.0f %.0f %s\n", count, bytes, oldest, first }' |
  while read -r count bytes oldest first; do
    echo "$count ($(numfmt --to=si --suffix=B "$bytes"))"
    echo "$first on $(date -d "@$((oldest + days * 86400))" '+%Y-%m-%d %H:%M')"
  done""",
        _NOTHING,
        "Copy them to this machine with `%slurm pull FOLDER`.",
        None,
        needs=lambda profile: profile.storage.purge_days,
    ),
    TOOLS,
    PYTHON,
    Row(
        "Programs of the profile's runtime",
        'for one in $tools; do has "$one" && echo "$one"; done',
        _ANYTHING,
        "Set `runtime` in the cluster's profile to a container tool on the nodes.",
        needs=_programs,
        of_nodes=True,
    ),
    MODULES,
    Row(
        "Missing images and image folders",
        'for one; do [ -e "$(home "$one")" ] || printf "%s\\n" "$one"; done',
        _NOTHING,
        "Build them, copy them to the cluster, or change `images` and `image_dirs` in the profile.",
        needs=_paths,
    ),
)


def examine(profile: ClusterProfile, run: Run) -> list[Check]:
    """Check the cluster, and return the results, the basics first. Raises LoginNeededError."""
    rows, of_slurm = (
        [row for row in table if row.needs is None or row.needs(profile)]
        for table in (_MACHINE, _SLURM)
    )
    try:
        told = values(profile, run, (_COMMANDS, *rows))
        checks = [_check(_COMMANDS, told)]
        if checks[0].ok:
            checks.append(_controller(profile, run))
        if len(checks) == 2 and checks[1].ok:
            told |= values(profile, run, (*of_slurm, _ONE_MACHINE))
            checks += [_check(row, told) for row in of_slurm]
    except LoginNeededError:
        raise
    except (JupyterSlurmError, TimedOutError) as exc:
        return [Check(ok=False, sentence=f"Cluster: {exc}", hint=_reach(profile))]
    return checks + [_check(row, told) for row in rows]


def values(profile: ClusterProfile, run: Run, rows: Sequence[Row]) -> dict[str, str]:
    """Return the output of each row's command, by row name. Raises the errors of `run`."""
    scratch, days = profile.storage.scratch, profile.storage.purge_days
    settings = [
        *(profile.job_root, profile.python, " ".join(_programs(profile)), scratch, str(days)),
        " ".join(profile.partitions),
    ]
    mark = f"\n@{secrets.token_hex(8)} "  # a file name may contain newlines
    script = [
        f"printf '%s\\n' {shlex.quote(mark + row.name)}; (\n{row.command}\n) 2>/dev/null\n"
        for row in rows
    ]
    argv = ["sh", "-c", "".join([_SETTINGS, *script, "exit 0"]), "sh", *settings, *_paths(profile)]
    parts = run(argv).stdout.decode("utf-8", "replace").split(mark)
    named = (part.partition("\n") for part in parts[1:])
    return {row.name: "" for row in rows} | {name: value.strip() for name, _, value in named}


def is_one_machine(profile: ClusterProfile, run: Run) -> bool:
    """Return whether every node is the machine that runs Slurm's commands; False if unknown."""
    try:
        return bool(values(profile, run, [_ONE_MACHINE])[_ONE_MACHINE.name])
    except (JupyterSlurmError, TimedOutError):
        return False


def _check(row: Row, told: Mapping[str, str]) -> Check:
    value, one_machine = told[row.name], bool(told.get(_ONE_MACHINE.name))
    lines = ", ".join(visible(line) for line in value.splitlines())
    well = bool(re.search(row.expected, value)) or (row.expected == SHARED and one_machine)
    return Check(
        ok=True if well else None if row.of_nodes and not one_machine else row.otherwise,
        sentence=f"{row.name}: {lines or 'none'}.",
        hint=None if well else row.hint,
    )


def _controller(profile: ClusterProfile, run: Run) -> Check:
    try:
        done = run(["scontrol", "ping"])
    except (JupyterSlurmError, TimedOutError) as exc:
        return Check(ok=False, sentence=f"Controller: {exc}", hint=_reach(profile))
    text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    check = _check(_CONTROLLER, {_CONTROLLER.name: text})
    known = explain_rejection(text)
    advice = known.hint if known is not None else None
    return Check(
        ok=check.ok,
        sentence=check.sentence,
        hint=None if check.ok else profile.hint or advice or _reach(profile),
    )


def _reach(profile: ClusterProfile) -> str:
    if profile.origin == UP_ORIGIN:
        return f"Start the cluster with `jupyter slurm up --name {profile.name}`."
    return profile.hint or "Wait, or ask the administrators."


def examine_records(set_aside: Sequence[Path]) -> Iterator[Check]:
    """Yield a check for each unreadable job record of all clusters."""
    for path in set_aside:
        yield Check(
            ok=False,
            sentence=f"Cannot read the record of job {path.name.split('.')[0]}: {path}.",
            hint="Restore the file and restart the agent, or remove the file.",
        )


def examine_connection(connection: Connection, sessions: int | None) -> Iterator[Check]:
    """Yield the checks of the connection to a remote cluster. `sessions` is sshd's limit on
    concurrent sessions; None if unknown."""
    if connection.state is ConnectionState.LOCAL:
        return
    trip = connection.round_trip_s
    yield Check(
        ok=connection.state is ConnectionState.OPEN,
        sentence=f"Connection: {connection.state.value}, {' → '.join(connection.hosts)}"
        f"{'' if trip is None else f', {trip * 1000:.0f} ms'}.",
        hint=connection.problem.message if connection.problem else None,
    )
    if sessions is not None and sessions < _FEW_SESSIONS:
        yield Check(
            ok=None,
            sentence=f"sshd allows {sessions} concurrent sessions.",
            hint="Ask the administrators for a higher MaxSessions, for faster transfers.",
        )
    if not has_openssh():
        yield Check(ok=None, sentence=NO_SSH)
