"""Keeps Dask's dashboard for this user: it gets a Unix socket in place of a port.

Runs on the cluster, Python 3.6 and later, standard library and Dask only, as a `preload` of Dask's
(`DASK_DISTRIBUTED__SCHEDULER__PRELOAD`, and `…__WORKER__PRELOAD`). A dashboard of Dask's asks
nobody who they are, and everybody on the node can connect to a port. JSLURM_DASHBOARD is the path
of the scheduler's socket, in a folder of the user's alone. Without it, and in workers, the
dashboard listens nowhere.
"""

import os

from distributed.node import ServerNode
from tornado.netutil import bind_unix_socket

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any  # noqa: F401 - in comments

VARIABLE = "JSLURM_DASHBOARD"


def hide(start_http_server):
    # type: (Any) -> None
    """Have Dask do what follows after each `start_http_server`."""

    def start_hidden(node, *args, **kwargs):
        # type: (Any, *Any, **Any) -> None
        start_http_server(node, *args, **kwargs)
        move(node.http_server, is_of_scheduler=type(node).__name__ == "Scheduler")

    ServerNode.start_http_server = start_hidden  # type: ignore[method-assign,unused-ignore]


def move(server, is_of_scheduler):
    # type: (Any, bool) -> None
    # Nothing was accepted at the port: that is for the event loop, which has not had its turn.
    server.stop()
    path = os.environ.get(VARIABLE)
    if path and is_of_scheduler:
        server.add_sockets([bind_unix_socket(path, 0o600)])


if ServerNode.start_http_server.__name__ != "start_hidden":  # Dask loads a preload twice
    hide(ServerNode.start_http_server)
