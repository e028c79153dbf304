"""Names and settings of the magics for IPython.

`jupyter_slurm.load_ipython_extension` calls `load` in every kernel whose configuration loads the
extension. So the first magic, rather than `load`, imports the implementation (`commands.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, magics_class, no_var_expand
from traitlets import Bool, CaselessStrEnum, Int, Unicode

if TYPE_CHECKING:
    from jupyter_slurm.magics.commands import Bodies
    from jupyter_slurm.magics.state import MagicsState

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
_MAGICS: tuple[tuple[Literal["line", "cell"], str], ...] = (
    ("line", "slurm"),
    ("cell", "slurm"),
    ("cell", "sbatch"),
    ("cell", "slurm_image"),
    *(("line", command) for command in SLURM_COMMANDS),
    ("line", "salloc"),
)


@magics_class
class SlurmMagics(Magics):
    """Run cells as Slurm jobs. `%config SlurmMagics` shows these settings."""

    default_cluster = Unicode(
        "", config=True, help="The default cluster; empty for the profiles' default."
    )
    default_options = Unicode("", config=True, help="Default options of every cell.")
    detach = Bool(False, config=True, help="Cells return a job handle at once and do not wait.")
    out_format = CaselessStrEnum(
        ("", "auto", "data"),
        "",
        config=True,
        help="The default of --out-format; empty for the profile's default.",
    )
    show = CaselessStrEnum(
        ("full", "sandboxed", "text"),
        "full",
        config=True,
        help="The display of jobs' HTML and JavaScript: in full, in a sandboxed frame, or as text "
        "and pictures only. The cluster's profile may restrict it further.",
    )
    on_interrupt = CaselessStrEnum(
        ("detach", "cancel"),
        "detach",
        config=True,
        help="The effect of an interrupt of a cell on its job.",
    )
    output_limit_bytes = Int(
        1_000_000,
        min=1_000,
        config=True,
        help="Bytes of text above which a cell shows only the last lines.",
    )

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self.matcher = _matcher(self)

    @cached_property
    def state(self) -> MagicsState:
        """Return the state of the magics."""
        from jupyter_slurm.magics.state import MagicsState  # noqa: PLC0415 - loaded with the first magic

        assert self.shell is not None
        return MagicsState(self.shell, self)

    @cached_property
    def bodies(self) -> Bodies:
        from jupyter_slurm.magics.commands import Bodies  # noqa: PLC0415

        return Bodies(self.state)


def load(shell: InteractiveShell) -> None:
    """Register the magics. Loading again keeps the existing magics."""
    if "SlurmMagics" in shell.magics_manager.registry:
        return
    magics = SlurmMagics(shell)
    shell.magics_manager.register(magics)
    for kind, name, function in _functions(magics):
        shell.magics_manager.register_function(no_var_expand(function), kind, name)
    shell.Completer.custom_matchers.append(magics.matcher)


def unload(shell: InteractiveShell) -> None:
    """Remove the magics. Jobs and their cards continue."""
    magics = shell.magics_manager.registry.pop("SlurmMagics", None)
    if not isinstance(magics, SlurmMagics):
        return
    for kind, name in _MAGICS:
        shell.magics_manager.magics[kind].pop(name, None)
    shell.Completer.custom_matchers.remove(magics.matcher)
    configurables: list[Any] = shell.configurables
    configurables.remove(magics)


def _functions(
    magics: SlurmMagics,
) -> Iterator[tuple[Literal["line", "cell"], str, Callable[..., object]]]:
    for kind, name in _MAGICS:
        function: Any = _line_magic(magics, name) if kind == "line" else _cell_magic(magics, name)
        function.__name__ = name
        # IPython prefers `getdoc` to `__doc__`.
        function.getdoc = _documentation(magics, kind, name)
        yield kind, name, function


def _line_magic(magics: SlurmMagics, name: str) -> Callable[[str], object]:
    return lambda line: magics.bodies.run_line(name, line)


def _cell_magic(magics: SlurmMagics, name: str) -> Callable[[str, str], object]:
    return lambda line, cell: magics.bodies.run_cell(name, line, cell)


def _documentation(magics: SlurmMagics, kind: str, name: str) -> Callable[[], str]:
    return lambda: magics.bodies.documentation(kind, name)


def _matcher(magics: SlurmMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    @context_matcher()  # type: ignore[untyped-decorator]
    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        return magics.bodies.completions.matcher(context)

    done: Callable[[CompletionContext], SimpleMatcherResult] = matcher
    return done
