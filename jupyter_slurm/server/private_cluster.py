"""The route that starts the private local Slurm, as `jupyter slurm up` does."""

from __future__ import annotations

import asyncio

import msgspec
from tornado.web import authenticated

from jupyter_slurm import local_cluster
from jupyter_slurm.local_cluster import LocalStatus
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import StatefulHandler
from jupyter_slurm.server.kernels import Nothing
from jupyter_slurm.server.relay import in_thread

_WAIT_S = 1.0
"""Seconds that a request waits for the start to finish. The page then shows progress and asks
again."""


class Start(msgspec.Struct, frozen=True):
    """The progress of the start."""

    said: tuple[str, ...]
    """The steps so far, the latest last."""
    done: bool


class PrivateCluster:
    """The private cluster, started once for concurrent requests."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._start: asyncio.Future[LocalStatus] | None = None

    async def up(self) -> Start:
        """Start the private Slurm and return the progress; callers repeat the call until the
        start is done. Raise ConfigError if packages are missing, or LocalClusterError if the
        start fails."""
        start = self._start
        if start is None or start.done():
            said: list[str] = []
            self._said = said
            self._start = start = in_thread(
                lambda: local_cluster.up(local_cluster.shape(say=said.append), said.append)
            )
        done, _ = await asyncio.wait([start], timeout=_WAIT_S)
        if done:
            start.result()
        return Start(tuple(self._said), done=bool(done))


class UpHandler(StatefulHandler[PrivateCluster]):
    """`POST up`: start the private cluster and return the progress."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["up"])
        self.wish(Nothing)
        self.give_value(await self.state.up())
