"""Job states on Jupyter's event bus, for extensions of others: one event for each change.

This asks the agent for nothing: it sees only the answers that pass to clients of `changes`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec

_log = logging.getLogger(__name__)

SCHEMA = Path(__file__).with_name("job_state.yaml")


class _Job(msgspec.Struct):
    """The part of a job that this reads."""

    id: str
    cluster: str
    state: str
    revision: int = 0


class _Changes(msgspec.Struct):
    whole: bool
    jobs: list[_Job]
    gone: list[str] = []


class JobStates:
    """The last state of each job; a new one goes to `emit`."""

    SCHEMA_ID: ClassVar[str] = "urn:jupyter-slurm:job-state:1"

    def __init__(self, emit: Callable[[dict[str, str]], object]) -> None:
        self._emit = emit
        self._known: dict[str, _Job] = {}

    def see(self, call: str, value: bytes) -> None:
        """Take the agent's answer to `call`."""
        if call != "changes":
            return
        try:
            changes = msgspec.json.decode(value, type=_Changes)
        except msgspec.MsgspecError:
            return  # of another version: the watching clients get an error
        beginning = changes.whole and not self._known
        for job in changes.jobs:
            before = self._known.get(job.id)
            if before is not None and job.revision < before.revision:
                continue  # an older answer that arrives later
            self._known[job.id] = job
            if not beginning and (before is None or before.state != job.state):
                self._tell(job)
        for job_id in changes.gone:
            self._known.pop(job_id, None)

    def _tell(self, job: _Job) -> None:
        try:
            self._emit({"id": job.id, "cluster": job.cluster, "state": job.state})
        except Exception:  # noqa: BLE001 - a handler of somebody else's
            _log.exception("jupyter-slurm: the event of job %s could not be told", job.id)
