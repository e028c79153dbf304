"""Start the program that an image itself names, where that is a script in the image. Pure text."""

from __future__ import annotations

from collections.abc import Sequence

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
