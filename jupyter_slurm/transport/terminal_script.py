"""The script that runs a program on a terminal and then removes its folder. No I/O."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

START = "start"
"""The script's name in the folder."""

# While a shell waits for a foreground child, it does not run traps. When a terminal closes, the
# kernel signals only the session's leader. So the program is a background child with the terminal
# on descriptor 3, and closing the terminal ends it. srun passes on SIGHUP, which a program may
# ignore; SIGTERM ends its step. A background child starts with SIGINT ignored, but srun sets its
# own handler.
_SCRIPT = """#!/bin/sh
{setting}cd || cd /
folder={folder} child=
trap '[ -z "$child" ] || kill -TERM "$child" 2>/dev/null' HUP TERM
trap : INT QUIT
exec 3<&0
{words} <&3 3<&- &
child=$!
while :; do
  wait "$child"; rc=$?
  kill -0 "$child" 2>/dev/null || break
done
{{ rm -rf -- "$folder"; exit "$rc"; }}
"""


_OF_TERMINAL = (
    "TERM COLORTERM LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC "
    "LC_TIME"
)
ONLY_TERMINALS_VARIABLES = (
    '[ -n "${JSLURM_CLEAN-}" ] || exec env -i JSLURM_CLEAN=yes '
    + " ".join(f'${{{name}+"{name}=${name}"}}' for name in _OF_TERMINAL.split())
    + ' /bin/sh "$0"\nunset JSLURM_CLEAN\n'
)
"""Sh text that drops the variables of the user's shell, except those that describe the terminal.
srun would pass the others on to the job, and would read those of a surrounding job as options."""


def exports(env: Mapping[str, str]) -> str:
    """Return sh text that sets the variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())


def script(folder: str, argv: Sequence[str], setting: str = "") -> bytes:
    """Return the script; `setting` is sh text to run first and ends with a newline."""
    text = _SCRIPT.format(folder=shlex.quote(folder), words=shlex.join(argv), setting=setting)
    return os.fsencode(text)
