"""The program that an image itself names: by ENTRYPOINT and CMD, or as a runscript. Where that is a
script in the image, start it, and write it for a recipe. Pure text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jupyter_slurm.containers.steps import Enter, Program, Step

NONE_NAMED = "jupyter-slurm: the image names no program of its own"
"""The line in the log of a job that was to run it."""
NONE_NAMED_EXIT = 127
"""As a shell says that a program is missing."""
REFUSE = f"{{ echo '{NONE_NAMED}' >&2; exit {NONE_NAMED_EXIT}; }}"

# $0 the script. One that cannot be executed is a shell's: enroot writes /etc/rc so.
_START = f"""[ ! -x "$0" ] || exec "$0" "$@"
[ ! -r "$0" ] || exec /bin/sh "$0" "$@"
{REFUSE}"""


def by_script(script: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run the image's own program, which `script` is in the image."""
    return ("/bin/sh", "-c", _START, script, *arguments)


# The base may have been made here, too: so the first name may be taken.
_KEEP_BASE = """base="$own.base"
while [ -e "$base" ]; do base="$base.base"; done
[ ! -e "$own" ] || mv -- "$own" "$base"
"""
_HEAD = r"""quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
{ echo '#!/bin/sh'
"""
_IN_FOLDER = r"""printf 'cd -- %s || exit\n' "$(quoted "$PWD")"
"""
_NAME_BASE = r"""printf 'base=%s\n' "$(quoted "$base")"
"""
_TAIL = """} >"$own.new"
chmod 755 "$own.new"
mv -- "$own.new" "$own"
"""


def written(steps: Sequence[Step], script: str, run_base: str) -> str:
    """Return POSIX sh for the end of a recipe's script, which puts the program that the recipe
    names in the place of the base's; "": it names none.

    `run_base`: the command that runs the base's script: `exec`, or `.` for what is always a
    shell's. That gets the words of CMD where no ENTRYPOINT stands before them.
    """
    named = {step.is_entrypoint: step.words for step in steps if isinstance(step, Program)}
    if not named:
        return ""
    usual = shlex.join(named.get(False, ()))
    lines = [f'[ "$#" -gt 0 ] || set -- {usual}'] if usual else []
    entrypoint = named.get(True)
    if entrypoint is not None:
        begin, write = "", _IN_FOLDER
        lines.append(f'set -- {shlex.join(entrypoint)} "$@"')
    else:
        begin, write = _KEEP_BASE, _NAME_BASE
        if any(isinstance(step, Enter) for step in steps):
            write += _IN_FOLDER
            lines.append("cd() { :; }")  # the folder of the base does not count
        lines.append(f'[ ! -r "$base" ] || {run_base} "$base" "$@"')
    lines += [f'[ "$#" -gt 0 ] || {REFUSE}', 'exec "$@"']
    text = f"printf '%s\\n' {shlex.join(lines)}\n"
    return f"own={script}\n{begin}{_HEAD}{write}{text}{_TAIL}"
