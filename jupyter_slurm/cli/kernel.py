"""`jupyter slurm kernel add|list|remove`: kernels in jobs, for the picker of every client."""

from __future__ import annotations

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.say import say, tell
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.kernel import spec


def add(args: Arguments, connect: Connect) -> int:
    made = spec.add(spec.meant(args, connect().clusters()))
    tell(f"{made.display_name} is in Jupyter's picker, as `{made.name}`.")
    return 0


def listed(args: Arguments, _connect: Connect) -> int:
    found = spec.listed()
    if args.json:
        told = [{"name": s.name, "display_name": s.display_name, "words": s.words} for s in found]
        say(as_json(told))
    elif found:
        rows = [[one.name, one.display_name, " ".join(one.words)] for one in found]
        say(table(["Name", "Title", "Options"], rows))
    else:
        tell("There are no kernels in jobs: `jupyter slurm kernel add`")
    return 0


def remove(args: Arguments, _connect: Connect) -> int:
    for name in args.names:
        spec.remove(name)
        tell(f"{name} is no longer in Jupyter's picker.")
    return 0


COMMANDS = by_words(kernel_add=add, kernel_list=listed, kernel_remove=remove)
