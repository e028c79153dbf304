"""Sessions, which run cells on request in a process on the node. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.cell import runner_files
from jupyter_slurm.jobs.kinds.kind import ByPython, Files
from jupyter_slurm.wire import SessionJob, SessionSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.outcome.verdict import Evidence
    from jupyter_slurm.jobs.submission.resolve import Resolved


class Session(ByPython[SessionSpec]):
    """A session. Its cells may have variables."""

    __slots__ = ()

    spec = SessionSpec
    job = SessionJob
    noun = "session"
    runner = layout.SESSION
    rank_runner = layout.SESSION_RANKS
    node_files = ("session.py", "session_files.py", "session_worker.py")
    uses_runner = True
    accepts_cells = True
    is_service = True

    def check(self, spec: SessionSpec) -> None:
        if spec.idle_s < 1:
            raise RequestError("--idle must be at least one second.")

    def files(self, spec: SessionSpec, job: Resolved) -> Files:
        own = {layout.CELL: b"", layout.TASK: task(spec), layout.KEY: b""}
        return {**own, **runner_files(variables=True), **super().files(spec, job)}

    def success_reason(self, evidence: Evidence) -> str:
        told = evidence.result.evalue if evidence.result else None
        return told or super().success_reason(evidence)


def task(spec: SessionSpec) -> bytes:
    """Return the task for node/session.py."""
    return msgspec.json.encode({"id": spec.id, "idle_s": spec.idle_s})
