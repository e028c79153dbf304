"""The submission of cells to their session, `node/session.py`.

A session accepts each ID once, so a cell can be sent again safely. The cell's files report its
output and end, as for a cell in a job of its own (`watcher.py`, `ending.py`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from types import MappingProxyType

from jupyter_slurm.errors import (
    ConnectionLostError,
    FileAccessError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
    SubmitError,
    TransportError,
)
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds.cell import own_files
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.submit import Submitter
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.wire import CellSpec, Job, JobState

_TIMEOUT_S = 30.0


def ask(
    cluster: SlurmCluster,
    folder: JobDir,
    verb: str,
    cell_id: str,
    files: Files = MappingProxyType({}),
) -> None:
    """Send the cell's files to `folder`, and then a request for the cell to its session. Raises
    TransportError, or ConnectionLostError if the request may have been sent."""
    session = JobDir(folder.path.parent.parent)
    request = (f"{verb} {cell_id}", session.requests, session.poke)
    try:
        cluster.transport.upload_and_append(folder.path, files, *request, timeout_s=_TIMEOUT_S)
    except TimedOutError as exc:
        raise ConnectionLostError(f"Cannot reach the session's folder: {exc}.") from exc


def ended(session: Job) -> SubmitError:
    why = f" {session.why}" if session.why else ""
    return SubmitError(
        f"The session {session.name} ({session.id}) has ended ({session.state.word}), and its "
        f"variables are lost.{why}",
        hint="Start another session with `%slurm session start [OPTIONS]`.",
    )


class CellSubmitter(Submitter):
    """The submission of one cell, retried until the session accepts the cell."""

    def try_once(self) -> bool:
        """Send the cell. Return False if `run` has to try again."""
        try:
            self._cluster = self._find_cluster()
            return self._step()
        except JupyterSlurmError:  # `run` reports the error
            return False

    def _step(self) -> bool:
        record = self._registry.record(self._id)
        job, spec = record.job, record.spec
        if spec is not None and job.cancel_requested_s is not None:
            # A cell's folder is created before its request is sent.
            may_run = record.sbatch_calls and self._cluster.transport.exists(self._dir.path)
            if not may_run and self._cancelled_meanwhile():
                return True
        if isinstance(spec, CellSpec):  # the spec of a sent cell is None
            try:
                if not self._send(spec):
                    return True
            except (RequestError, NotFoundError, SubmitError) as exc:
                return self._reject(exc)
            except FileAccessError as exc:
                return self._reject(SubmitError(exc.message, hint=exc.hint, detail=exc.detail))
            job = self._sent()
        if job.cancel_requested_s is not None and not job.state.final:
            ask(self._cluster, self._dir, "cancel", self._id)
        return True

    def _send(self, spec: CellSpec) -> bool:
        """Send the cell; return False if the user has cancelled it."""
        session = self._registry.job(spec.session or "")
        if session.state.final:
            if self._cluster.transport.exists(self._dir.claim(0)):  # an earlier agent has sent it
                return True
            raise ended(session)
        with self._registry.lock():
            record = self._registry.record(self._id)
            if record.job.state.final:
                return False
            record.sbatch_calls += 1  # sending again is safe
        try:
            ask(self._cluster, self._dir, "run", self._id, own_files(spec))
        except ConnectionLostError:
            raise
        except TransportError:
            record.sbatch_calls -= 1
            raise
        return True

    def _sent(self) -> Job:
        with self._registry.lock():  # another thread may record the cell's end
            record = self._registry.record(self._id)
            job = record.job
            session = self._registry.job(job.session or "")
            record.spec, record.folder = None, self._registry.record(session.id).folder
            changes: dict[str, object] = {"submitted_s": time.time()}
            if job.state is JobState.SUBMITTING:
                changes |= {"state": JobState.PENDING, "problem": None, "problem_since_s": None}
                changes["why"] = _waits_for(session, self._others(session))
            if not job.state.final:
                self._registry.observe(session.id, idle_since_s=None)
            if self._cluster.access.connection is not None:
                return self._registry.change(self._id, **changes)
            # If this agent ends before the cell, the next agent on this machine sends the cell
            # again at once. The session ignores the second request.
            self._registry.observe(self._id, **changes)
            return self._registry.job(self._id)

    def _others(self, session: Job) -> bool:
        live = self._registry.live(session.cluster)
        return any(r.job.session == session.id and r.job.id != self._id for r in live)


def _waits_for(session: Job, others: bool) -> str | None:
    if session.state is not JobState.RUNNING:
        return joined("The session is not running yet.", session.why)
    return "Waiting for earlier cells of the session." if others else None


def ends_s(session: Job) -> float | None:
    """Return the end of the session's time limit; None if unknown or unlimited."""
    if session.started_s is None or session.limit_s is None:
        return None
    return session.started_s + session.limit_s


def rests(registry: JobRegistry, session_id: str) -> None:
    """Record that the session is idle from now on, unless it has unfinished cells or has ended."""
    with registry.lock(), suppress(NotFoundError):  # the user forgot the session
        session = registry.job(session_id)
        has_cells = any(one.job.session == session.id for one in registry.live(session.cluster))
        if not has_cells and not session.state.final:
            registry.observe(session.id, idle_since_s=time.time())
