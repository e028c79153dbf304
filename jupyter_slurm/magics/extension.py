"""The magics as IPython sees them: names, settings, help. Every body is a call into a sibling.

`jupyter_slurm.load_ipython_extension` calls `load`; nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, magics_class, no_var_expand
from traitlets import Bool, CaselessStrEnum, Int, Unicode

from jupyter_slurm.errors import CodeError, CommandError, RequestError, VariableError
from jupyter_slurm.magics import cell, commands, image, manual
from jupyter_slurm.magics.completion import Completions
from jupyter_slurm.magics.frontend import warn
from jupyter_slurm.magics.session import Session
from jupyter_slurm.magics.table import SlurmText, read
from jupyter_slurm.wire import JobKind

_R = TypeVar("_R")

SLURM_COMMANDS = (
    "squeue",
    "sinfo",
    "sacct",
    "scancel",
    "scontrol",
    "sprio",
    "sreport",
    "sshare",
    "sacctmgr",
)


@magics_class
class SlurmMagics(Magics):
    """Run cells as Slurm jobs. `%config SlurmMagics` shows these settings."""

    default_cluster = Unicode(
        "", config=True, help="The cluster for lines that name none; empty: the profiles' default."
    )
    default_options = Unicode("", config=True, help="Options in front of those of every cell.")
    detach = Bool(False, config=True, help="Cells give a job handle at once, and do not wait.")
    out_format = CaselessStrEnum(
        ("", "auto", "data"),
        "",
        config=True,
        help="How variables come back from cells, as --out-format; empty: as the profile says.",
    )
    show = CaselessStrEnum(
        ("full", "sandboxed", "text"),
        "full",
        config=True,
        help="What of jobs' HTML and JavaScript is shown: all, in a frame that sees nothing of the "
        "page, or text and pictures alone. Where the cluster's profile says less, that counts.",
    )
    on_interrupt = CaselessStrEnum(
        ("detach", "cancel"),
        "detach",
        config=True,
        help="What interrupting a cell does to its job.",
    )
    output_limit_bytes = Int(
        1_000_000, min=1_000, config=True, help="Of text above this, only the last lines are shown."
    )

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self.session = Session(shell, self)
        self.completions = Completions(self.session)


def load(shell: InteractiveShell) -> None:
    """Registers the magics, once; loading again keeps what the session knows."""
    if "SlurmMagics" in shell.magics_manager.registry:
        return
    magics = SlurmMagics(shell)
    shell.magics_manager.register(magics)
    for kind, name, function in _functions(magics.session):
        shell.magics_manager.register_function(no_var_expand(function), kind, name)
    shell.Completer.custom_matchers.append(magics.completions.matcher)


def unload(shell: InteractiveShell) -> None:
    """Takes them away again; jobs and their cards go on."""
    magics = shell.magics_manager.registry.pop("SlurmMagics", None)
    if not isinstance(magics, SlurmMagics):
        return
    for kind, name, _ in _functions(magics.session):
        shell.magics_manager.magics[kind].pop(name, None)
    shell.Completer.custom_matchers.remove(magics.completions.matcher)
    configurables: list[Any] = shell.configurables
    configurables.remove(magics)


def _functions(
    session: Session,
) -> Iterator[tuple[Literal["line", "cell"], str, Callable[..., object]]]:
    def slurm(line: str) -> object:
        return _usage(lambda: commands.run(session, session.words(line)))

    def slurm_cell(line: str, code: str) -> object:
        return _usage(lambda: cell.run(session, line, code))

    def sbatch(line: str, code: str) -> object:
        return _usage(lambda: cell.run(session, line, code, JobKind.SCRIPT))

    def slurm_image(line: str, code: str) -> object:
        return _usage(lambda: image.build(session, line, code))

    slurm.__doc__ = manual.line_help()
    slurm_cell.__doc__ = manual.cell_help()
    sbatch.__doc__ = manual.script_help()
    slurm_image.__doc__ = manual.image_help()
    yield "line", "slurm", slurm
    yield "cell", "slurm", slurm_cell
    yield "cell", "sbatch", sbatch
    yield "cell", "slurm_image", slurm_image
    for command in SLURM_COMMANDS:
        yield "line", command, _slurm_command(session, command)


def _slurm_command(session: Session, command: str) -> Callable[[str], SlurmText | None]:
    """`%squeue` and its siblings: the real command, its arguments as written."""

    def magic(line: str) -> SlurmText | None:
        argv = [command, *_usage(lambda: session.words(line))]
        output = session.api.command(argv, session.cluster)
        if output.returncode != 0:
            raise CommandError(
                f"`{command}` ended with exit code {output.returncode}.",
                detail=output.stderr or output.stdout,
            )
        if output.stderr.strip():
            warn(output.stderr.rstrip("\n"))
        return read(argv, output.stdout) if output.stdout.strip() else None

    magic.__doc__ = manual.command_help(command)
    return magic


def _usage(call: Callable[[], _R]) -> _R:
    """A line that cannot be is one line of error, as for IPython's own magics."""
    try:
        return call()
    except (CodeError, VariableError):
        raise
    except RequestError as exc:
        raise UsageError(" ".join(str(exc).split("\n"))) from None
