"""The command that starts an image's own program by a script in the image. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

NONE_NAMED = "jupyter-slurm: the image names no program of its own"
"""The job's log line for an image that does not name a program."""
NONE_NAMED_EXIT = 127
"""A shell's exit code for a missing program."""
REFUSE = f"{{ echo '{NONE_NAMED}' >&2; exit {NONE_NAMED_EXIT}; }}"

# $0: the script. A shell runs a script that is not executable, for example enroot's /etc/rc.
_START = f"""[ ! -x "$0" ] || exec "$0" "$@"
[ ! -r "$0" ] || exec /bin/sh "$0" "$@"
{REFUSE}"""


def by_script(script: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs the image's own program by `script`, a path in the image."""
    return ("/bin/sh", "-c", _START, script, *arguments)
