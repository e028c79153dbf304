"""What each magic does when it is run, asked about or completed: one call into a sibling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from IPython.core.error import UsageError

from jupyter_slurm.errors import CodeError, CommandError, RequestError, VariableError
from jupyter_slurm.magics import cell, commands, image, manual
from jupyter_slurm.magics.completion import Completions
from jupyter_slurm.magics.frontend import warn
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import SlurmText, Table, read
from jupyter_slurm.wire import ScriptSpec

_R = TypeVar("_R")


class Bodies:
    """The magics of one kernel."""

    def __init__(self, state: MagicsState) -> None:
        self._session = state
        self.completions = Completions(state)

    def run_line(self, name: str, line: str) -> object:
        """Run `%name line`."""
        if name == "slurm":
            return _usage(lambda: commands.run(self._session, self._session.words(line)))
        if name == "salloc":  # it would keep the kernel waiting, and has no terminal
            return _usage(lambda: commands.run(self._session, [name]))
        return self._run_command(name, line)

    def run_cell(self, name: str, line: str, code: str) -> object:
        """Run `%%name line` over the cell `code`."""
        session = self._session
        match name:
            case "sbatch":
                return _usage(lambda: cell.run(session, line, code, ScriptSpec))
            case "slurm_image":
                return _usage(lambda: image.build(session, line, code))
            case _:
                return _usage(lambda: cell.run(session, line, code))

    def documentation(self, kind: str, name: str) -> str:
        """Return what `%name?` or `%%name?` shows."""
        match kind, name:
            case "line", "slurm" | "salloc":
                return manual.line_help()
            case "cell", "slurm":
                return manual.cell_help()
            case _, "sbatch":
                return manual.script_help()
            case _, "slurm_image":
                return manual.image_help()
            case _:
                return manual.command_help(name)

    def _run_command(self, command: str, line: str) -> SlurmText | Table | None:
        """Run `%squeue` or a sibling: the real command, its arguments as written. `%sprio` alone
        would be everybody's jobs, so it shows one's own."""
        if command == "sprio" and not line.strip():
            return commands.show_priorities(self._session)
        argv = [command, *_usage(lambda: self._session.words(line))]
        output = self._session.api.command(argv, self._session.cluster)
        if output.returncode != 0:
            raise CommandError(
                f"`{command}` ended with exit code {output.returncode}.",
                detail=output.stderr or output.stdout,
            )
        if output.stderr.strip():
            warn(output.stderr.rstrip("\n"))
        return read(argv, output.stdout) if output.stdout.strip() else None


def _usage(call: Callable[[], _R]) -> _R:
    """Run `call`; show a line that is not valid as one line of error, as IPython's own magics
    do."""
    try:
        return call()
    except (CodeError, VariableError):
        raise
    except RequestError as exc:
        raise UsageError(" ".join(str(exc).split("\n"))) from None
