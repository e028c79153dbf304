"""The connection to Jupyter's event bus. It publishes changes of job states, and follows renames of
notebooks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from jupyter_events import EventLogger
from jupyter_server.services.contents.manager import ContentsManager
from jupyter_server.utils import ensure_async

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.server.files import Folders
from jupyter_slurm.server.relay import Relay

_log = logging.getLogger(__name__)

SCHEMA = Path(__file__).with_name("job_state.yaml")


class _Job(msgspec.Struct):
    """The fields of a job that this module reads."""

    id: str
    cluster: str
    state: str
    revision: int = 0


class _Changes(msgspec.Struct):
    whole: bool
    jobs: list[_Job]
    gone: list[str] = []


class JobStates:
    """A publisher that emits an event for each job state change in answers to `changes`."""

    SCHEMA_ID: ClassVar[str] = "urn:jupyter-slurm:job-state:1"

    def __init__(self, emit: Callable[[dict[str, str]], object]) -> None:
        self._emit = emit
        self._known: dict[str, _Job] = {}

    def see(self, call: str, value: bytes) -> None:
        """Process the agent's answer to `call`."""
        if call != "changes":
            return
        try:
            changes = msgspec.json.decode(value, type=_Changes)
        except msgspec.MsgspecError:
            return  # another version; the watching clients get an error
        beginning = changes.whole and not self._known
        for job in changes.jobs:
            before = self._known.get(job.id)
            if before is not None and job.revision < before.revision:
                continue  # an older answer that arrived late
            self._known[job.id] = job
            if not beginning and (before is None or before.state != job.state):
                self._emit_state(job)
        for job_id in changes.gone:
            self._known.pop(job_id, None)

    def _emit_state(self, job: _Job) -> None:
        try:
            self._emit({"id": job.id, "cluster": job.cluster, "state": job.state})
        except Exception:  # noqa: BLE001 - an error of a foreign handler
            _log.exception("jupyter-slurm: the event of job %s was not emitted", job.id)


class NotebookRenames:
    """A handler that reports renamed notebooks and folders to the agent, so that jobs and kernels
    follow them."""

    SCHEMA_ID = ContentsManager.event_schema_id

    def __init__(self, contents: ContentsManager, relay: Relay) -> None:
        self._contents = contents
        self._folders = Folders(contents)
        self._relay = relay
        self._in_order = asyncio.Lock()

    async def hear(self, logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        """Process an event of the contents manager."""
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
