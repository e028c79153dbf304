"""`push` and `pull`: files from here to a cluster, and back."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.progress import follow_transfer
from jupyter_slurm.commands.asked import Asked
from jupyter_slurm.errors import NotFoundError, RequestError


def push(args: Asked, connect: Connect) -> int:
    local = Path(args.local).expanduser().absolute()
    if not local.exists():
        raise NotFoundError(f"There is no {local}.")
    remote = args.remote or _named(local.resolve().name, "REMOTE")
    api = connect()
    begun = api.push(str(local), remote, cluster_name(args.cluster), tuple(args.exclude))
    follow_transfer(api, begun)
    return 0


def pull(args: Asked, connect: Connect) -> int:
    name = PurePosixPath(args.remote).name
    local = args.local or _named("" if name in ("~", "..") else name, "LOCAL")
    path = Path(local).expanduser().absolute()
    api = connect()
    begun = api.pull(args.remote, str(path), cluster_name(args.cluster), tuple(args.exclude))
    follow_transfer(api, begun)
    return 0


def _named(name: str, word: str) -> str:
    if not name:
        raise RequestError(f"Say {word} too: there is no name to take from the other side.")
    return name
