"""`%slurm login`, `push`, `pull`, `tunnel` and their siblings: the way to a cluster, and files.

One small function a word, for the table in `commands.py`. Each raises RequestError for words that
cannot be.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from jupyter_slurm.client import lab_page
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.magics.follow import CallThread
from jupyter_slurm.magics.frontend import say
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import Table
from jupyter_slurm.magics.transfer import follow_transfer
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
from jupyter_slurm.wire import Transfer


def login(state: MagicsState, args: Arguments) -> None:
    """Log in if that is needed, and say how the connection stands."""
    say(connected(state.person.log_in(args.cluster or state.cluster)))


def logout(state: MagicsState, args: Arguments) -> None:
    closed = state.api.disconnect(args.cluster or state.cluster)
    say(f"Logged out of {closed.cluster}. Jobs continue.")


def connections(state: MagicsState, _args: Arguments) -> Table:
    now_s = time.time()
    rows = (connection_row(one, now_s) for one in state.api.connections())
    return Table(CONNECTION_HEAD, tuple(rows))


def push(state: MagicsState, args: Arguments) -> None:
    path = _here(args.local)
    if not path.exists():
        raise NotFoundError(f"There is no {path}.")
    cluster = args.cluster or state.cluster
    there = args.remote or path.resolve().name or _no_name("REMOTE")
    _follow(state, cluster, lambda: state.agent.push(str(path), there, cluster, args.exclude))


def pull(state: MagicsState, args: Arguments) -> None:
    name, cluster = PurePosixPath(args.remote).name, args.cluster or state.cluster
    here = args.local or (name if name not in ("~", "..") else "") or _no_name("LOCAL")
    path, remote = str(_here(here)), args.remote
    _follow(state, cluster, lambda: state.agent.pull(remote, path, cluster, args.exclude))


def tunnel(state: MagicsState, args: Arguments) -> Table | None:
    """Open a tunnel or a dashboard, close some, or list them."""
    for tunnel_id in args.close:
        state.api.close_tunnel(tunnel_id)
        say(f"Tunnel {tunnel_id} is closed.")
    if args.target is None:
        return None if args.close else tunnels(state, args)
    if (aim := dashboard_aim(state.api, args.target)) is not None:
        page, _ = lab_page.of_dashboard(state.api, *aim)
        opens = lab_page.show(page)
        # Its address stays out of the notebook, as a lab's does.
        say(
            "It is open in the browser."
            if opens
            else f"Opening {page} in a browser of this machine logs in there."
        )
        return None
    ends = tunnel_ends(state.api, args.target, args.local_port)
    cluster = args.cluster or state.cluster
    opened = state.api.forward(ends.host, ends.port, cluster, ends.job_id, ends.local_port)
    say(reach(opened))
    return None


def tunnels(state: MagicsState, _args: Arguments) -> Table:
    found = state.api.tunnels()
    caption = "" if found else "No tunnel is open."
    return Table(TUNNEL_HEAD, tuple(map(tunnel_row, found)), caption=caption)


def _follow(state: MagicsState, cluster: str | None, begin: Callable[[], Transfer]) -> None:
    with CallThread(state.person, cluster) as worker:
        follow_transfer(state.agent, worker, worker(begin))


def _here(path: str) -> Path:
    """Return the path as absolute, since the agent runs in another folder."""
    return Path(path).expanduser().absolute()


def _no_name(word: str) -> str:
    raise RequestError(f"Say {word} too: there is no name to take from the other side.")


COMMANDS = by_words(
    login=login,
    logout=logout,
    connections=connections,
    push=push,
    pull=pull,
    tunnel=tunnel,
    tunnels=tunnels,
)
