"""Keeps the dashboards of Dask's scheduler and workers from the node's other users.

Runs on the cluster, Python 3.6 and later, standard library and distributed only; also as a
`preload` of a worker's. These dashboards ask nobody who they are, and everybody on the node can
connect to a port. Once this is imported none listens at its port; the scheduler's gets a Unix
socket instead, which dashboards.py leads to.
"""

from distributed.node import ServerNode
from tornado.netutil import bind_unix_socket

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any


def hide(start_http_server: "Any") -> None:
    def start_hidden(node: "Any", *args: "Any", **kwargs: "Any") -> None:
        start_http_server(node, *args, **kwargs)
        # Nothing was accepted there: that is for the event loop, which has not had its turn.
        node.http_server.stop()

    ServerNode.start_http_server = start_hidden  # type: ignore[method-assign,unused-ignore]


def listen(scheduler: "Any", path: str) -> None:
    """Have the scheduler's dashboard listen at a Unix socket, in a folder of the user's alone."""
    scheduler.http_server.add_sockets([bind_unix_socket(path, 0o600)])


if ServerNode.start_http_server.__name__ != "start_hidden":  # Dask loads a preload twice
    hide(ServerNode.start_http_server)
