"""`jupyter slurm kernel add|list|remove`: kernels in jobs, for the picker of every client."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from types import MappingProxyType

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.environment import with_values
from jupyter_slurm.cli.first_word import Commands, by_first_word
from jupyter_slurm.cli.say import note, say
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.errors import RequestError
from jupyter_slurm.kernel import spec

_USAGE = """\
usage: jupyter slurm kernel add [OPTIONS]      a kernel that runs in a job, for Jupyter's picker
       jupyter slurm kernel list [--json]      those that there are
       jupyter slurm kernel remove NAME …      no longer in the picker; what runs goes on

OPTIONS are those of `submit` (--cluster, --gpus, --image, --time …), and
  --name NAME            what Jupyter calls it (from its title)
  --display-name TEXT    its title ("Python 3 (arandu · 1 GPU)")
  --idle TIME            its job ends after so long with nobody connected (the profile's: 1h)
The image needs ipykernel. `--env NAME` takes the value that this shell exports; the values lie in a
file that only you can read.
"""


def kernel(args: Namespace, connect: Connect) -> int:
    return by_first_word("kernel", args.words, _COMMANDS, _USAGE, connect)


def _add(words: Sequence[str], connect: Connect) -> int:
    made = spec.add(spec.meant(with_values(words, os.environ, spec.OWN), connect().clusters()))
    say(f"{made.display_name} is in Jupyter's picker, as `{made.name}`.\n")
    return 0


def _list(words: Sequence[str], _connect: Connect) -> int:
    if [word for word in words if word != "--json"]:
        raise RequestError("`kernel list` takes nothing but --json.")
    found = spec.listed()
    if words:
        told = [{"name": s.name, "display_name": s.display_name, "words": s.words} for s in found]
        say(as_json(told))
    elif found:
        rows = [[one.name, one.display_name, " ".join(one.words)] for one in found]
        say(table(["NAME", "TITLE", "OPTIONS"], rows))
    else:
        say("There are no kernels in jobs: `jupyter slurm kernel add`\n")
    for name in spec.exposed():
        note(
            f"Other users of this machine can read the values of --env of {name}: make it again, "
            f"with `jupyter slurm kernel add --name {name}` and its options.\n"
        )
    return 0


def _remove(words: Sequence[str], _connect: Connect) -> int:
    if not words:
        raise RequestError("`kernel remove` needs a name: `jupyter slurm kernel list`.")
    for name in words:
        spec.remove(name)
        say(f"{name} is no longer in Jupyter's picker.\n")
    return 0


_COMMANDS: Commands = MappingProxyType({"add": _add, "list": _list, "remove": _remove})
