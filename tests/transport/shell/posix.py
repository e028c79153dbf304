"""Shells that may be a /bin/sh, and the initial lines of our remote shells."""

from __future__ import annotations

from jupyter_slurm.transport.shell.helper import DEFINITIONS
from jupyter_slurm.transport.shell.quoting import quote
from jupyter_slurm.transport.shell.remote_shell import LOGIN_COMMAND

SHELLS = {
    "dash": ["dash"],
    "bash": ["bash", "--posix"],
    "busybox": ["busybox", "sh"],
    "zsh": ["zsh", "--emulate", "sh"],
}
LOOP = LOGIN_COMMAND.removeprefix("exec /bin/sh -c '").removesuffix("'")
PRELUDE = b"\n".join(
    [
        b"_n=$(printf '\\nx'); _n=${_n%x}; _i=0; _k=KEY:; exec 4>&2 2>/dev/null",
        b"_m() { printf '%s' \"$_k$_i $1$_n\"; printf '%s' \"$_k$_i$_n\" >&4; }",
        b"eval " + quote(DEFINITIONS),
        b"",
    ]
)
