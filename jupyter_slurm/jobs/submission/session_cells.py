"""Send cells to their session, `node/session.py`.

A session accepts each ID once, so a cell is sent again when in doubt. Its files report output and
end like those of any cell (`watcher.py`, `ending.py`).
"""

from __future__ import annotations

import time
from contextlib import suppress

from jupyter_slurm.errors import (
    ConnectionLostError,
    FileAccessError,
    NotFoundError,
    RequestError,
    SubmitError,
    TransportError,
)
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.prepare import prepare_session_cell, with_key
from jupyter_slurm.jobs.submission.submit import Submitter
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.wire import CellSpec, Job, JobState

# Runs in the cell's folder. The leading newline ends a truncated line (full disk). The FIFO may
# have no reader: opened for reading and writing, it accepts the byte anyway.
_ASK_SH = """
umask 077
printf '\\n%s %s\\n' "$1" "$2" >>../requests || exit
if [ -p ../../poke ]; then printf . 1<>../../poke; fi
"""
_TIMEOUT_S = 30.0


def ask(cluster: SlurmCluster, folder: JobDir, verb: str, cell_id: str) -> None:
    """Send a request for the cell in `folder` to its session. TransportError."""
    argv = ["sh", "-c", f'cd -- "$3" && {{ {_ASK_SH} }}', "ask", verb, cell_id, str(folder.path)]
    try:
        done = cluster.transport.run(argv, timeout_s=_TIMEOUT_S)
    except TimedOutError as exc:
        raise TransportError(f"The session's folder does not answer: {exc}.") from exc
    if done.returncode != 0:
        raise _not_written(folder, done.stderr)


def ended(session: Job) -> SubmitError:
    why = f" {session.why}" if session.why else ""
    return SubmitError(
        f"The session {session.name} ({session.id}) has ended ({session.state.word}).{why}",
        hint="Start another with `%slurm session start [OPTIONS]`; its variables are lost.",
    )


def _not_written(folder: JobDir, words: bytes) -> FileAccessError:
    return FileAccessError(
        f"Cannot write the session's folder {folder.path.parent}.",
        hint="Check disk space and quota.",
        detail=words.decode(errors="replace").strip() or None,
    )


class CellSubmitter(Submitter):
    """The sending of one cell, retried until the session has it."""

    def _step(self) -> bool:
        record = self._registry.record(self._id)
        job, spec = record.job, record.spec
        if spec is not None and record.sbatch_calls == 0 and self._cancelled_meanwhile():
            return True
        if isinstance(spec, CellSpec):  # None: it was sent
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
        """Send the cell; return False if it was cancelled meanwhile."""
        session = self._registry.job(spec.session or "")
        if session.state.final:
            raise ended(session)
        files = with_key(prepare_session_cell(spec), self._registry.store.new_key(self._id))
        with self._registry.lock():
            record = self._registry.record(self._id)
            if record.job.state.final:
                return False
            record.sbatch_calls += 1  # sending again is safe
        argv = ["sh", "-c", _ASK_SH, "ask", "run", self._id]
        try:
            done = self._cluster.transport.upload_and_run(
                self._dir.path, files, argv, timeout_s=_TIMEOUT_S
            )
        except TimedOutError as exc:
            raise TransportError(f"The session's folder does not answer: {exc}.") from exc
        except ConnectionLostError:  # it may have been sent
            raise
        except TransportError:
            record.sbatch_calls -= 1
            raise
        if done.returncode != 0:
            raise _not_written(self._dir, done.stderr)
        return True

    def _sent(self) -> Job:
        with self._registry.lock():  # its files may report its end meanwhile
            record = self._registry.record(self._id)
            job = record.job
            session = self._registry.job(job.session or "")
            record.spec, record.folder = None, self._registry.record(session.id).folder
            changes: dict[str, object] = {"submitted_s": time.time()}
            if job.state is JobState.SUBMITTING:
                changes |= {"state": JobState.PENDING, "problem": None, "problem_since_s": None}
                changes["why"] = _waits_for(session, self._others(session))
            if session.idle_since_s is not None and not job.state.final:
                self._registry.change(session.id, idle_since_s=None)
            return self._registry.change(self._id, **changes)

    def _others(self, session: Job) -> bool:
        live = self._registry.live(session.cluster)
        return any(r.job.session == session.id and r.job.id != self._id for r in live)


def _waits_for(session: Job, others: bool) -> str | None:
    if session.state is not JobState.RUNNING:
        return joined("The session is not running yet.", session.why)
    return "Waiting for earlier cells of the session." if others else None


def ends_s(session: Job) -> float | None:
    """Return the end of the session's time limit; None: unknown or unlimited."""
    if session.started_s is None or session.limit_s is None:
        return None
    return session.started_s + session.limit_s


def rests(registry: JobRegistry, session_id: str) -> None:
    """Note the start of the session's idle time: a cell has ended, or the session has started."""
    with registry.lock(), suppress(NotFoundError):  # forgotten
        session = registry.job(session_id)
        has_cells = any(one.job.session == session.id for one in registry.live(session.cluster))
        if not has_cells and not session.state.final:
            registry.change(session.id, idle_since_s=time.time())
