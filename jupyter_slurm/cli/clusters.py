"""`clusters list|test|remove|default`: the clusters that you have. `new_cluster.py` adds one."""

from __future__ import annotations

import sys

from jupyter_slurm.cli import follow
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import check_text
from jupyter_slurm.cli.say import say, tell
from jupyter_slurm.cli.table import as_json, in_words_of_a_terminal, table
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.profiles import save
from jupyter_slurm.wire import CellSpec

_HELLO = (
    "import platform, sys\n"
    "print(f'A job on {platform.node()} says hello from Python {sys.version.split()[0]}.')\n"
)


def listed(args: Arguments, connect: Connect) -> int:
    known = connect().clusters()
    if args.json:
        say(as_json(known))
        return 0
    if not known:
        tell(
            "No cluster yet: `jupyter slurm clusters add NAME` sets one up, `jupyter slurm up` "
            "starts one on this machine."
        )
        return 0
    rows = [
        [
            "*" if one.default else "",
            one.name,
            one.host or "this machine",
            one.runtime,
            ", ".join(one.images),
            in_words_of_a_terminal(one.problem.message) if one.problem else one.origin,
        ]
        for one in known
    ]
    say(table(["", "Name", "Host", "Runtime", "Images", "From"], rows))
    return 0


def test(args: Arguments, connect: Connect) -> int:
    """Print what doctor finds, then run a tiny job. Return 1 when something is wrong."""
    api = connect()
    checks = api.doctor(args.name)
    tell("\n".join(map(check_text, checks)))
    sys.stdout.flush()
    job = api.submit(
        CellSpec(
            name="hello",
            code=_HELLO,
            cluster=args.name,
            options={} if args.partition is None else {"partition": args.partition},
        )
    )
    code = follow.follow(api, job)
    if code == 0:
        api.forget(job.id)
        tell(f"✔ A job went to `{job.cluster}` and came back.")
    return code or (1 if any(check.ok is False for check in checks) else 0)


def remove(args: Arguments, connect: Connect) -> int:
    del connect
    path = save.remove_profile(args.name)
    tell(f"`{args.name}` is removed: {path}. Its jobs go on.")
    return 0


def default(args: Arguments, connect: Connect) -> int:
    del connect
    path = save.set_default(args.name)
    tell(f"Jobs that name no cluster go to `{args.name}` now ({path}).")
    return 0


COMMANDS = by_words(
    clusters_list=listed, clusters_test=test, clusters_remove=remove, clusters_default=default
)
