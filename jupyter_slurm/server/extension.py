"""The extension of a Jupyter server: routes, environment of kernels, shutdown."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from jupyter_core.paths import jupyter_path
from jupyter_server.extension.application import ExtensionApp
from tornado.web import RequestHandler

from jupyter_slurm import client
from jupyter_slurm.agent.place import SOCKET_VARIABLE, socket_path
from jupyter_slurm.errors import ConfigError
from jupyter_slurm.server.events import SCHEMA, JobStates, NotebookRenames
from jupyter_slurm.server.feed import Feed
from jupyter_slurm.server.handlers import AgentHandler, CallHandler, NoSuchRoute
from jupyter_slurm.server.kernels import (
    AddKernelHandler,
    KernelsHandler,
    MeantKernelHandler,
    RemoveKernelHandler,
)
from jupyter_slurm.server.labs import DashboardHandler, LabHandler, NoProxyHandler
from jupyter_slurm.server.new_cluster import NewClusterHandler, NewClusters
from jupyter_slurm.server.own import (
    ExecutedHandler,
    LogHandler,
    NotebookHandler,
    OutlookHandler,
    SpecHandler,
)
from jupyter_slurm.server.private_cluster import PrivateCluster, UpHandler
from jupyter_slurm.server.relay import Relay
from jupyter_slurm.server.terminals import TerminalHandler
from jupyter_slurm.server.watch import Client, WatchHandler
from jupyter_slurm.views.card import CARDS_VARIABLE

_LAB_PROXY: type[RequestHandler] = NoProxyHandler
_DASHBOARD_PROXY: type[RequestHandler] = NoProxyHandler
if importlib.util.find_spec("jupyter_server_proxy") is not None:
    from jupyter_slurm.server import lab_proxy

    _LAB_PROXY, _DASHBOARD_PROXY = lab_proxy.LabProxyHandler, lab_proxy.DashboardProxyHandler
ROUTES: tuple[tuple[str, type[RequestHandler]], ...] = (
    (r"/jupyter-slurm/api/watch", WatchHandler),
    (r"/jupyter-slurm/api/terminal", TerminalHandler),
    (r"/jupyter-slurm/api/spec", SpecHandler),
    (r"/jupyter-slurm/api/outlook", OutlookHandler),
    (r"/jupyter-slurm/api/notebook", NotebookHandler),
    (r"/jupyter-slurm/api/executed", ExecutedHandler),
    (r"/jupyter-slurm/api/kernels", KernelsHandler),
    (r"/jupyter-slurm/api/kernel_meant", MeantKernelHandler),
    (r"/jupyter-slurm/api/kernel_add", AddKernelHandler),
    (r"/jupyter-slurm/api/kernel_remove", RemoveKernelHandler),
    (r"/jupyter-slurm/api/up", UpHandler),
    (r"/jupyter-slurm/api/(cluster_(?:ways|begin|found|keep|drop))", NewClusterHandler),
    (r"/jupyter-slurm/api/logfile", LogHandler),
    (r"/jupyter-slurm/api/([a-z_]+)", CallHandler),
    (r"/jupyter-slurm/agent/v1/([a-z_]+)", AgentHandler),
    (r"/jupyter-slurm/lab/([a-z2-7]{8})", LabHandler),
    (r"/jupyter-slurm/dashboard/([a-z2-7]{8})/(ray|dask|tensorboard)", DashboardHandler),
    (r"/jupyter-slurm/lab-proxy/([a-z2-7]{8})(/.*)", _LAB_PROXY),
    (
        r"/jupyter-slurm/dashboard-proxy/([a-z2-7]{8}/(?:ray|dask|tensorboard))(/.*)",
        _DASHBOARD_PROXY,
    ),
    (r"/jupyter-slurm/.*", NoSuchRoute),
)
"""Routes below the server's base URL."""


class SlurmApp(ExtensionApp):
    """The extension, which serves the agent to pages and kernels. The first request starts the
    agent."""

    name = "jupyter_slurm"

    def initialize_settings(self) -> None:
        assert self.serverapp is not None
        self._set_environment()
        logger = self.serverapp.event_logger
        assert logger is not None
        logger.register_event_schema(SCHEMA)
        states = JobStates(lambda data: logger.emit(schema_id=JobStates.SCHEMA_ID, data=data))
        self.relay = Relay(client.connect_here)
        renames = NotebookRenames(self.serverapp.contents_manager, self.relay)
        logger.add_listener(schema_id=NotebookRenames.SCHEMA_ID, listener=renames.hear)
        self.feed = Feed(self.relay.ask, self.relay.caller, states.see)
        self.clients: set[Client] = set()
        self.new_clusters = NewClusters()

    def initialize_handlers(self) -> None:
        given: dict[type[RequestHandler], dict[str, object]] = {
            WatchHandler: {"feed": self.feed, "clients": self.clients},
            NewClusterHandler: {"relay": self.relay, "state": self.new_clusters},
            UpHandler: {"relay": self.relay, "state": PrivateCluster()},
        }
        self.handlers.extend(
            (pattern, handler, given.get(handler, {"relay": self.relay}))
            for pattern, handler in ROUTES
        )

    async def stop_extension(self) -> None:
        """Close the connections. The jobs and the agent continue."""
        if not hasattr(self, "feed"):
            return  # the server stopped before it was initialized
        for page in list(self.clients):
            page.close()
        self.new_clusters.close()
        self.feed.close()
        self.relay.close()

    def _set_environment(self) -> None:
        """Set environment variables for kernels: a flag if pages update cards, and the path of the
        agent's socket, because a kernel's folders may differ. Keep an inherited socket path if it
        is on this host."""
        folders = map(Path, jupyter_path("labextensions"))
        if any((folder / "jupyter-slurm" / "package.json").is_file() for folder in folders):
            os.environ[CARDS_VARIABLE] = "live"
        try:
            os.environ[SOCKET_VARIABLE] = os.fspath(socket_path())
        except (OSError, ConfigError) as exc:
            self.log.warning("jupyter-slurm: cannot create the agent's folder: %s", exc)
