"""The commands `clusters test|remove|default|templates`. `new_cluster.py` adds a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from jupyter_slurm.cli import follow
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.values import Checks
from jupyter_slurm.profiles import save, templates
from jupyter_slurm.views.table import Table
from jupyter_slurm.wire import CellSpec

_HELLO = (
    "import platform, sys\n"
    "print(f'A job on {platform.node()} says hello from Python {sys.version.split()[0]}.')\n"
)


def test(caller: TerminalCaller, args: Arguments) -> Iterator[Checks | int | str]:
    """Check the cluster, then run a tiny job."""
    yield Checks(caller.api.doctor(args.name))
    options = {} if args.partition is None else {"partition": args.partition}
    job = caller.api.submit(CellSpec(name="hello", code=_HELLO, cluster=args.name, options=options))
    code = follow.follow(caller.api, job)
    yield code
    if code == 0:
        caller.api.forget(job.id)
        yield f"✔ A job on `{job.cluster}` succeeded."


def remove(_caller: TerminalCaller, args: Arguments) -> str:
    path = save.remove_profile(args.name)
    return f"Removed `{args.name}`: {path}. Its jobs continue."


def default(_caller: TerminalCaller, args: Arguments) -> str:
    path = save.set_default(args.name)
    return f"The default cluster is now `{args.name}` ({path})."


def list_templates(_caller: TerminalCaller, _args: Arguments) -> Table:
    known = {name: templates.read(name).about for name in templates.names()}
    use = "Use a template with: jupyter slurm clusters add NAME --template NAME"
    return Table(("Name", "Cluster"), tuple(known.items()), use, known)


COMMANDS: Mapping[str, Callable[[TerminalCaller, Arguments], object]] = MappingProxyType(
    {
        "clusters test": test,
        "clusters remove": remove,
        "clusters default": default,
        "clusters templates": list_templates,
    }
)
