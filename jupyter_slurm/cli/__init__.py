"""The program `jupyter slurm`, which runs a command, shows its value, and converts errors to exit
codes. `commands/functions.py` defines the commands that notebooks share, and the modules of this
package define all others. `caller.py` implements `Caller`. `show.py` shows values, and `follow.py`
shows a job's output.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jupyter_slurm.api import Api
from jupyter_slurm.cli import clusters, completion, kernel, local, new_cluster, shell, submit
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.say import note, say
from jupyter_slurm.cli.show import show
from jupyter_slurm.commands.arguments import find, help_text, read_arguments, with_values
from jupyter_slurm.commands.functions import FUNCTIONS
from jupyter_slurm.commands.parsing import before_dashes
from jupyter_slurm.errors import JupyterSlurmError, RequestError

_INTERRUPTED = 130
"""The exit code after SIGINT: 128 plus the signal's number, as in a shell."""
_CLOSED_PIPE = 141
"""The exit code after SIGPIPE: 128 plus the signal's number."""
COMMANDS: Mapping[str, Callable[[TerminalCaller, Any], object]] = MappingProxyType(
    {
        **FUNCTIONS,
        **clusters.COMMANDS,
        **kernel.COMMANDS,
        **local.COMMANDS,
        "clusters add": new_cluster.add,
        "completion": completion.completion,
        "shell": shell.shell,
        **submit.COMMANDS,
    }
)
"""The functions of the commands, by the commands' names."""


def main(argv: Sequence[str] | None = None, connect: Callable[[], Api] | None = None) -> int:
    """Run a command line. Return the exit code: 0 for success, 1 for a failure, 2 for an invalid
    line. `submit` and `attach` return the job's exit code. `connect` returns the Api.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if "_ARGCOMPLETE" in os.environ:
        completion.complete()
    if argv is None:
        _exit_at_signals()
    try:
        code = _run(words, TerminalCaller(connect))
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
        # The reader of our output has exited (`| head`), so prevent Python from writing the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    return code


def _exit_at_signals() -> None:
    """Convert SIGTERM and SIGHUP (closed terminal) to an exception, so that commands remove their
    unfinished files. Keep SIGHUP ignored under nohup(1)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def _run(words: Sequence[str], caller: TerminalCaller) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words[:1] == ["--version"]:
        from importlib import metadata  # noqa: PLC0415 - slow

        say(f"jupyter-slurm {metadata.version('jupyter-slurm')}\n")
        return 0
    if not words or words[0] in ("-h", "--help"):
        say(help_text(()))
        return 0
    command, behind = find(list(words), "terminal")
    if not {"-h", "--help"}.isdisjoint(before_dashes(behind)[0]):
        say(help_text(tuple(words[: len(words) - len(behind)])))
        return 0
    args = read_arguments(command, behind)
    args.options = with_values(args.options, os.environ)
    value = COMMANDS[command.name](caller, args)
    return show(caller, value, as_json=bool(getattr(args, "json", False)))
