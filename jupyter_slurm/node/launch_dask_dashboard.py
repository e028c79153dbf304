"""A patch that closes the ports of Dask's dashboards in the importing process.

Runs on the cluster, Python 3.6 and later, standard library and distributed only. A worker loads it
as its `preload`. The dashboards do not authenticate users, and any user of the node can connect to
a port. The scheduler's dashboard gets a Unix socket instead, which dashboards.py forwards.
"""

from distributed.node import ServerNode
from tornado.netutil import bind_unix_socket

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any


def hide(start_http_server: "Any") -> None:
    def start_hidden(node: "Any", *args: "Any", **kwargs: "Any") -> None:
        start_http_server(node, *args, **kwargs)
        # The port has not accepted a connection yet; the event loop does that later.
        node.http_server.stop()

    ServerNode.start_http_server = start_hidden  # type: ignore[method-assign,unused-ignore]


def listen(scheduler: "Any", path: str) -> None:
    """Serve the scheduler's dashboard on a Unix socket in a private folder."""
    scheduler.http_server.add_sockets([bind_unix_socket(path, 0o600)])


if ServerNode.start_http_server.__name__ != "start_hidden":  # Dask loads a preload twice
    hide(ServerNode.start_http_server)
