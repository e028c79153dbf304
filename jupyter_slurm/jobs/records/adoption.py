"""Jobs that were submitted elsewhere, as ours from now on: `Api.adopt`."""

from __future__ import annotations

import re
import secrets
import threading
import time

from jupyter_slurm.errors import CommandError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.jobs.watching.queue_rows import (
    bears_id,
    leading,
    nodes_of,
    state_named,
    the_same,
)
from jupyter_slurm.readable import visible
from jupyter_slurm.slurm import scontrol, squeue, states
from jupyter_slurm.slurm.scontrol import ControlRow
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.wire import Job, JobState, ScriptJob

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_SLURM_ID = re.compile(r"([0-9]+)(?:[_+][0-9]+|(_\[[^]]*\]))?")
"""As squeue lists them; the last for the tasks of an array that still wait."""


class Adoption:
    def __init__(self, book: Book, clusters: Clusters) -> None:
        self._book = book
        self._clusters = clusters
        self._lock = threading.Lock()

    def adopt(self, slurm_id: str, cluster: str | None = None) -> Job:
        """Adopt as `Api.adopt` does. Of an array, take the whole array."""
        match = _SLURM_ID.fullmatch(slurm_id)
        if match is None:
            raise RequestError(
                f"{slurm_id!r} is not a job id of Slurm's.",
                hint="123 is one.",
            )
        known = self._clusters.named(cluster)
        whole_id = match[1] if match[2] else slurm_id
        row = _listed(known, whole_id)
        with self._lock:
            ours = self._ours(known, row)
            if ours is not None:
                return ours
            record = _record(known, row, _control_row(known, whole_id))
            self._book.add(record)
        self._clusters.watch(known).ask_now()
        return record.job

    def _ours(self, cluster: SlurmCluster, row: QueueRow) -> Job | None:
        whole_id = row.whole_id
        with self._book.alone():
            known = the_same(row, self._book.by_slurm_id(cluster.name).get(whole_id, ()))
            # Where sbatch has not answered yet, Slurm's id is still to be learned.
            sent = (r.job for r in self._book.live(cluster.name) if r.job.slurm_id is None)
            return known or next((job for job in sent if bears_id(job.id, row)), None)


def _listed(cluster: SlurmCluster, slurm_id: str) -> QueueRow:
    """Return the row; of an array, the task that tells most. NotFoundError; RequestError:
    another's.

    Whose job it is only squeue tells: in a record of scontrol's a name can look like its owner.
    """
    rows = squeue.parse(_output_of(cluster, squeue.one_argv(slurm_id)))
    if not rows:
        raise NotFoundError(
            f"Slurm knows no job {slurm_id} on {cluster.name}.",
            hint="It forgets a job some minutes after its end.",
        )
    user = cluster.transport.user()
    others = sorted({visible(row.user) for row in rows} - {user})
    if others:
        raise RequestError(
            f"Job {slurm_id} is {others[0]}'s.",
            hint=f"Only jobs of {user} can be taken over.",
        )
    return leading(rows)


def _control_row(cluster: SlurmCluster, slurm_id: str) -> ControlRow | None:
    """Return what scontrol alone tells of the job; None: it has been forgotten meanwhile."""
    rows = scontrol.parse_jobs(_output_of(cluster, scontrol.job_argv(slurm_id)))
    return min(rows, key=lambda row: states.is_terminal(row.state), default=None)


def _output_of(cluster: SlurmCluster, argv: list[str]) -> bytes:
    """Return the command's output; nothing for a job that Slurm does not know."""
    try:
        return cluster.ask(argv)
    except CommandError as exc:
        if not scontrol.is_unknown_job(exc.detail or ""):
            raise
        return b""


def _record(cluster: SlurmCluster, row: QueueRow, more: ControlRow | None) -> Record:
    job_id = "".join(secrets.choice(_LETTERS) for _ in range(8))
    ended = states.is_terminal(row.state)
    now_s = time.time()
    job = ScriptJob(
        id=job_id,
        cluster=cluster.name,
        name=row.name,
        # How it has ended is found out as of any other job.
        state=JobState.FINISHING if ended else state_named(row.state),
        slurm_id=row.whole_id,
        restarts=more.requeues if more else 0,
        created_s=row.submit_s or now_s,
        state_since_s=(row.start_s if row.state == "RUNNING" else row.submit_s) or now_s,
        submitted_s=row.submit_s or now_s,
        started_s=row.start_s if row.nodelist else None,  # else it is when it was to start
        limit_s=int(row.limit_s) if row.limit_s is not None else None,
        partition=row.partition,
        account=row.account,
        qos=row.qos,
        nodes=nodes_of(row),
        gpus=int(more.tres.get("gres/gpu", 0)) if more else 0,
        no_requeue=more.no_requeue if more else None,
        # It has no folder: nothing of ours went with it.
        job_dir=str(JobDir(cluster.job_root() / job_id).path),
    )
    return Record(job=job, spec=None, stdout_path=more.stdout if more else None, adopted=True)
