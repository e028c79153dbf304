"""`login`, `logout`, `connections`, `tunnel`, `push`, `pull`: ways to a cluster."""

from __future__ import annotations

import secrets
import time
from pathlib import Path, PurePosixPath

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.progress import follow_transfer
from jupyter_slurm.cli.say import remark, say, tell
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.client import lab_page
from jupyter_slurm.client.login import TerminalAnswerer, log_in
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.views.connections import (
    CONNECTION_HEAD,
    TUNNEL_HEAD,
    connected,
    connection_row,
    dashboard_aim,
    reach,
    tunnel_ends,
    tunnel_row,
)


def login(args: Arguments, connect: Connect) -> int:
    """Log in, for every terminal and notebook."""
    cluster = cluster_name(args.cluster)
    connection = log_in(connect(), cluster, TerminalAnswerer(), secrets.token_hex(8))
    if args.json:
        say(as_json(connection))
    else:
        tell(connected(connection))
    return 0


def logout(args: Arguments, connect: Connect) -> int:
    connection = connect().disconnect(cluster_name(args.cluster))
    tell(f"Logged out of {connection.cluster}. Jobs continue.")
    return 0


def connections(args: Arguments, connect: Connect) -> int:
    found = connect().connections()
    if args.json:
        say(as_json(found))
        return 0
    now_s = time.time()
    rows = [connection_row(one, now_s) for one in found]
    say(table(CONNECTION_HEAD, rows))
    return 0


def tunnel(args: Arguments, connect: Connect) -> int:
    """Open a tunnel, which outlives this command, or a dashboard; close some, or list them."""
    api = connect()
    for tunnel_id in args.close:
        api.close_tunnel(tunnel_id)
        tell(f"Tunnel {tunnel_id} is closed.")
    aim = None if args.target is None else dashboard_aim(api, args.target)
    if aim is not None:
        page, address = lab_page.of_dashboard(api, *aim)
        say(f"{address}\n")
        if not lab_page.show(page):
            remark(f"Open {page} in a browser of this machine: it logs in there.")
    elif args.target is not None:
        ends = tunnel_ends(api, args.target, args.local_port)
        opened = api.forward(
            ends.host, ends.port, cluster_name(args.cluster), ends.job_id, ends.local_port
        )
        if args.json:
            say(as_json(opened))
        else:
            tell(reach(opened))
    elif not args.close:
        _list(args, connect)
    return 0


def _list(args: Arguments, connect: Connect) -> None:
    found = connect().tunnels()
    if args.json:
        say(as_json(found))
        return
    if found:
        say(table(TUNNEL_HEAD, [*map(tunnel_row, found)]))
    else:
        tell("No tunnel is open.")


def push(args: Arguments, connect: Connect) -> int:
    local = Path(args.local).expanduser().absolute()
    if not local.exists():
        raise NotFoundError(f"There is no {local}.")
    remote = args.remote or _named(local.resolve().name, "REMOTE")
    api = connect()
    begun = api.push(str(local), remote, cluster_name(args.cluster), tuple(args.exclude))
    follow_transfer(api, begun)
    return 0


def pull(args: Arguments, connect: Connect) -> int:
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


COMMANDS = by_words(
    login=login, logout=logout, connections=connections, push=push, pull=pull, tunnel=tunnel
)
