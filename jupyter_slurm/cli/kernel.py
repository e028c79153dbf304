"""The commands `kernel add|list|remove`: kernels in jobs, for Jupyter's kernel picker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.kernel import spec
from jupyter_slurm.views.table import Table


def add(caller: TerminalCaller, args: Arguments) -> str:
    made = spec.add(spec.meant(args, caller.api.clusters()))
    return f"Added {made.display_name} to Jupyter's kernels as `{made.name}`."


def listed(_caller: TerminalCaller, _args: Arguments) -> Table:
    found = spec.listed()
    return Table(
        ("Name", "Title", "Options"),
        tuple((one.name, one.display_name, " ".join(one.words)) for one in found),
        "" if found else "No kernels in jobs. Add one with `jupyter slurm kernel add`.",
        [{"name": s.name, "display_name": s.display_name, "words": s.words} for s in found],
    )


def remove(_caller: TerminalCaller, args: Arguments) -> Iterator[str]:
    for name in args.names:
        spec.remove(name)
        yield f"Removed {name} from Jupyter's kernels."


COMMANDS: Mapping[str, Callable[[TerminalCaller, Arguments], object]] = MappingProxyType(
    {"kernel add": add, "kernel list": listed, "kernel remove": remove}
)
