"""`%slurm login`, `push`, `pull`, `tunnel` and their siblings: the way to a cluster, and files.

One small function a word, for the table in `commands.py`. Each raises RequestError for words that
cannot be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.magics.follow import Worker
from jupyter_slurm.magics.frontend import say
from jupyter_slurm.magics.session import Session
from jupyter_slurm.magics.table import Table
from jupyter_slurm.magics.transfer import follow_transfer
from jupyter_slurm.views.connections import (
    CONNECTION_HEAD,
    TUNNEL_HEAD,
    connected,
    connection_row,
    reach,
    target,
    tunnel_row,
)
from jupyter_slurm.wire import Transfer


def login(session: Session, words: Sequence[str]) -> None:
    """Logs in where that is needed, and says how it stands."""
    say(connected(session.person.log_in(named_cluster(session, words, "login"))))


def logout(session: Session, words: Sequence[str]) -> None:
    closed = session.api.disconnect(named_cluster(session, words, "logout"))
    say(f"The connection to {closed.cluster} is {closed.state}. Jobs go on.")


def connections(session: Session, words: Sequence[str]) -> Table:
    _read(words, "connections", most=0)
    now_s = time.time()
    rows = (connection_row(one, now_s) for one in session.api.connections())
    return Table(CONNECTION_HEAD, tuple(rows))


def push(session: Session, words: Sequence[str]) -> None:
    usage = "push LOCAL [REMOTE] [--exclude PATTERN]"
    (local, remote), options = _read(words, usage, least=1, most=2, takes=("exclude", "cluster"))
    path = _here(local)
    if not path.exists():
        raise NotFoundError(f"There is no {path}.")
    cluster = _cluster(session, options)
    there = remote or path.resolve().name or _no_name(usage)
    exclude = tuple(options["exclude"])
    _follow(session, cluster, lambda: session.agent.push(str(path), there, cluster, exclude))


def pull(session: Session, words: Sequence[str]) -> None:
    usage = "pull REMOTE [LOCAL] [--exclude PATTERN]"
    (remote, local), options = _read(words, usage, least=1, most=2, takes=("exclude", "cluster"))
    cluster = _cluster(session, options)
    name = PurePosixPath(remote).name
    path = _here(local or (name if name not in ("~", "..") else "") or _no_name(usage))
    exclude = tuple(options["exclude"])
    _follow(session, cluster, lambda: session.agent.pull(remote, str(path), cluster, exclude))


def tunnel(session: Session, words: Sequence[str]) -> None:
    """Opens one, or closes one."""
    usage = "tunnel [JOB|HOST:]PORT [--local-port N], tunnel --close ID"
    (aim,), options = _read(words, usage, most=1, takes=("local-port", "close", "cluster"))
    if options["close"]:
        for tunnel_id in options["close"]:
            session.api.close_tunnel(tunnel_id)
            say(f"Tunnel {tunnel_id} is closed.")
        return
    if not aim:
        raise RequestError(f"`%slurm {usage}`")
    goal = target(session.api, aim, (options["local-port"] or ["0"])[-1])
    opened = session.api.forward(
        goal.host, goal.port, _cluster(session, options), goal.job_id, goal.local_port
    )
    say(reach(opened))


def tunnels(session: Session, words: Sequence[str]) -> Table:
    _read(words, "tunnels", most=0)
    found = session.api.tunnels()
    caption = "" if found else "No tunnel is open."
    return Table(TUNNEL_HEAD, tuple(map(tunnel_row, found)), caption=caption)


def _follow(session: Session, cluster: str | None, begin: Callable[[], Transfer]) -> None:
    with Worker(session.person, cluster) as worker:
        follow_transfer(session.agent, worker, worker(begin))


def named_cluster(session: Session, words: Sequence[str], command: str) -> str | None:
    """Return the cluster of `command [CLUSTER]` or `command --cluster CLUSTER`; where they name
    none, the cluster that cells go to. RequestError."""
    (cluster,), options = _read(words, f"{command} [CLUSTER]", most=1, takes=("cluster",))
    return cluster or _cluster(session, options)


def _cluster(session: Session, options: Mapping[str, Sequence[str]]) -> str | None:
    return options["cluster"][-1] if options["cluster"] else session.cluster


def _here(path: str) -> Path:
    """The agent's own folder is another: what it is told is absolute."""
    return Path(path).expanduser().absolute()


def _no_name(usage: str) -> str:
    raise RequestError(f"What is it to be called there? `%slurm {usage}`")


def _read(
    words: Sequence[str], usage: str, *, most: int, least: int = 0, takes: Iterable[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """`most` words ("" for those left out), and the values of the options in `takes`."""
    wrong = RequestError(f"`%slurm {usage}`")
    options: dict[str, list[str]] = {name: [] for name in takes}
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in options:
            given = value if equals else next(rest, "")
            if not given:
                raise RequestError(f"--{name} needs a value. `%slurm {usage}`")
            options[name].append(given)
        elif word.startswith("-") or len(plain) == most:
            raise wrong
        else:
            plain.append(word)
    if len(plain) < least:
        raise wrong
    return plain + [""] * (most - len(plain)), options
