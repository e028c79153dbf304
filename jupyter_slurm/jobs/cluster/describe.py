"""The search for a cluster's tools, Python and folders, for a new profile (`clusters add`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jupyter_slurm.jobs.cluster.doctor import (
    LOGIN_FILES,
    MODULES,
    PYTHON,
    SHARED,
    TOOLS,
    Row,
    Run,
    is_one_machine,
    values,
)
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm.fields import optional_int
from jupyter_slurm.wire import Description, Folder

_SBATCH = Row("sbatch", "command -v sbatch", ".")
_FOLDERS = r"""
user=$(id -un)
say() {
  [ -n "$2" ] && [ -d "$2" ] || return
  writable=; [ -w "$2" ] && writable=yes
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$writable" "$(stat -f -c %T "$2" 2>/dev/null)" \
    "$(df -Pk "$2" 2>/dev/null | awk 'NR == 2 { print $4 }')" "$2"
}
say '$HOME' "$HOME"
# Sites set these variables in the login files, which may also print text.
names='for name in SCRATCH WORK PROJECT DATA; do
  eval "path=\$$name"; printf "\n@folder@%s\t%s\n" "$name" "$path"
done'
bash -lc "$names" 2>/dev/null </dev/null | sed -n 's/^@folder@//p' |
  while IFS=$(printf '\t') read -r name path; do say "\$$name" "$path"; done
for folder in /scratch /work /project /data /raid /output /prj; do
  say "$folder/\$USER" "$folder/$user"
done
exit 0
"""
"""sh text that prints NAME, WRITABLE, FILE SYSTEM, FREE KIB and PATH of each folder. The path comes
last, since it may contain any character."""


def describe(profile: ClusterProfile, run: Run) -> Description:
    """Describe the machine that runs Slurm's commands. Raises the errors of `run`."""
    told = values(profile, run, (_SBATCH, TOOLS, MODULES, PYTHON, LOGIN_FILES))
    alone = is_one_machine(profile, run)
    return Description(
        name=profile.name,
        sbatch=told[_SBATCH.name] or None,
        runtimes=tuple(told[TOOLS.name].split()),
        modules=bool(told[MODULES.name]),
        python=told[PYTHON.name] or None,
        login_shell=bool(re.search(LOGIN_FILES.expected, told[LOGIN_FILES.name])),
        folders=tuple(_folders(run(["sh", "-c", _FOLDERS]).stdout, alone)),
    )


def _folders(told: bytes, alone: bool) -> Sequence[Folder]:
    """Parse the output of `_FOLDERS`. Return each folder once, under its first name."""
    folders: dict[str, Folder] = {}
    for line in told.decode("utf-8", "replace").splitlines():
        parts = line.split("\t", 4)
        if len(parts) < 5:
            continue
        name, writable, kind, free, path = parts
        folders.setdefault(
            path,
            Folder(
                name=name,
                path=path,
                writable=bool(writable),
                file_system=kind or "unknown",
                free_mib=kib // 1024 if (kib := optional_int(free)) is not None else None,
                shared=True if alone or re.match(SHARED, kind) else None,
            ),
        )
    return list(folders.values())
