"""`jupyter slurm …`: words on a terminal -> calls of the Api or of the local cluster.

`main` reads the words, runs a command and turns errors into a sentence and an exit code. Inside:
`parser` (the words), `local` (up, down, status, agent), `jobs` (what is there), `submit`,
`session`, `kernel`, `shell`, `follow` (a job's output as it comes), `image`,
`remote` (logins, tunnels, files), `clusters`, `new_cluster` and `from_template` (profiles),
`completion` (Tab in shells), `help`, `preview`, `terminal` (what goes to stdout and stderr),
`table`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from jupyter_slurm.api import Api
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.parser import parse
from jupyter_slurm.cli.say import note
from jupyter_slurm.errors import JupyterSlurmError, RequestError

_INTERRUPTED = 130
"""128 + SIGINT, as a shell says it."""
_CLOSED_PIPE = 141
"""128 + SIGPIPE."""


def main(argv: Sequence[str] | None = None, connect: Connect | None = None) -> int:
    """Run one command line; return its exit code: 0, 1 for a failure, 2 for a wrong line.

    `submit` and `attach` return the exit code of the job. `connect` returns the Api.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        _exit_at_signals()
    try:
        code = parse(words)(lambda: _with_logins((connect or _connect)()))
        sys.stdout.flush()
    except JupyterSlurmError as exc:
        if os.environ.get("JUPYTER_SLURM_DEBUG"):
            raise
        sys.stdout.flush()
        note(f"jupyter slurm: {exc}\n")
        return 2 if isinstance(exc, RequestError) else 1
    except KeyboardInterrupt as exc:
        if str(exc):
            note(f"jupyter slurm: {exc}\n")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); Python must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    return code


def _exit_at_signals() -> None:
    """Let SIGTERM and a closed terminal (SIGHUP) end the process as an exception does, so that what
    is half made is removed. nohup(1) has SIGHUP ignored: that stays."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def _connect() -> Api:
    from jupyter_slurm.client import connect  # noqa: PLC0415 - not needed to print the help

    return connect()


def _with_logins(api: Api) -> Api:
    """Return the Api for commands that ask for a login on the terminal if they need it, and go
    on."""
    from jupyter_slurm.client.login import TerminalAnswerer, attended  # noqa: PLC0415

    return attended(api, TerminalAnswerer())
