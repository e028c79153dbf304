"""Renames of this server's notebooks, passed to the agent: jobs and kernels follow them."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from jupyter_events import EventLogger
from jupyter_server.services.contents.manager import ContentsManager
from jupyter_server.utils import ensure_async

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.server.files import Folders
from jupyter_slurm.server.relay import Relay

_log = logging.getLogger(__name__)


class Renames:
    """The listener to what the contents manager emits."""

    SCHEMA_ID = ContentsManager.event_schema_id

    def __init__(self, contents: ContentsManager, relay: Relay) -> None:
        self._contents = contents
        self._folders = Folders(contents)
        self._relay = relay
        self._in_order = asyncio.Lock()

    async def hear(self, logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        """Pass on the rename of a notebook or a folder."""
        if data["action"] != "rename":
            return
        async with self._in_order:
            try:
                await self._pass_on(data["source_path"], data["path"])
            except JupyterSlurmError as exc:
                _log.warning("jupyter-slurm: jobs do not follow the rename of a file: %s", exc)

    async def _pass_on(self, path: str, to: str) -> None:
        if not path.endswith(".ipynb") and not await ensure_async(self._contents.dir_exists(to)):
            return
        old, new = (os.fspath(self._folders.local(one)) for one in (path, to))
        await self._relay.with_agent(lambda agent: agent.notebook_moved(old, new))
