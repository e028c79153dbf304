"""The magics as IPython sees them: names, settings, help. Every body is a call into a sibling.

`jupyter_slurm.load_ipython_extension` registers this class; nothing heavy is imported here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from traitlets import Bool, CaselessStrEnum, Int, Unicode

from jupyter_slurm.errors import CommandError, RequestError, VariableError
from jupyter_slurm.job import JobHandle
from jupyter_slurm.magics import cell, commands, manual
from jupyter_slurm.magics.completion import Completions
from jupyter_slurm.magics.frontend import warn
from jupyter_slurm.magics.session import Session
from jupyter_slurm.magics.table import SlurmText, read
from jupyter_slurm.wire import JobKind

_P = ParamSpec("_P")
_R = TypeVar("_R")

COMMANDS = ("squeue", "sinfo", "sacct", "scancel", "scontrol", "sprio", "sreport", "sshare")
COMMANDS_OF_OPERATORS = ("sacctmgr",)


def _usage(call: Callable[[], _R]) -> _R:
    """A line that cannot be is one line of error, as for IPython's own magics."""
    try:
        return call()
    except VariableError:
        raise
    except RequestError as exc:
        raise UsageError(str(exc)) from None


@magics_class
class SlurmMagics(Magics):
    """Run cells as Slurm jobs. `%config SlurmMagics` shows these settings."""

    default_cluster = Unicode("", help="The cluster for lines that name none; empty: the default.").tag(
        config=True
    )
    default_options = Unicode("", help="Options in front of those of every cell.").tag(config=True)
    detach = Bool(False, help="Cells give a job handle at once instead of waiting.").tag(config=True)
    on_interrupt = CaselessStrEnum(
        ("detach", "cancel"), "detach", help="What interrupting a cell does to its job."
    ).tag(config=True)
    output_limit_bytes = Int(
        1_000_000, help="Text above this is shown as its last lines only.", min=1_000
    ).tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self.session = Session(shell, self)
        self.completions = Completions(self.session)

    @no_var_expand
    @line_magic("slurm")
    def slurm_line(self, line: str) -> object:
        return _usage(lambda: commands.run(self.session, self.session.words(line)))

    @no_var_expand
    @cell_magic("slurm")
    def slurm_cell(self, line: str, code: str) -> JobHandle | None:
        return _usage(lambda: cell.run(self.session, line, code))

    @no_var_expand
    @cell_magic("sbatch")
    def sbatch(self, line: str, code: str) -> JobHandle | None:
        return _usage(lambda: cell.run(self.session, line, code, JobKind.SCRIPT))

    slurm_line.__doc__ = manual.line_help()
    slurm_cell.__doc__ = manual.cell_help()
    sbatch.__doc__ = manual.script_help()
