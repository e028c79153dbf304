"""The job records of an Api in memory. Subclasses run the jobs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import (
    AgentStatus,
    Changes,
    Connection,
    Job,
    JobVerb,
    QueueStatus,
    Refusal,
    SweepTasks,
    UsageChanges,
    UsageSample,
)
from tests.queue_side import revision_of

STATUS = AgentStatus(
    version="",
    protocol=0,
    pid=0,
    host="",
    socket="",
    log="",
    started_s=0.0,
    memory_mib=0.0,
    cpu_s=0.0,
    clients=0,
    live_jobs=0,
)


class JobSide(ABC):
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._gone: list[tuple[int, str]] = []
        self._revision = 0
        self._woken = False
        self._changed = threading.Condition()

    @abstractmethod
    def connections(self) -> list[Connection]: ...

    def put(self, job: Job) -> Job:
        with self._changed:
            self._revision += 1
            self._jobs[job.id] = msgspec.structs.replace(job, revision=self._revision)
            self._changed.notify_all()
            return self._jobs[job.id]

    def change(self, job_id: str, **fields: Any) -> Job:
        with self._changed:
            return self.put(msgspec.structs.replace(self.job(job_id), **fields))

    def remove(self, job_id: str) -> None:
        with self._changed:
            del self._jobs[job_id]
            self._revision += 1
            self._gone.append((self._revision, job_id))
            self._changed.notify_all()

    # --- Api ---

    def notebook_moved(self, path: str, to: str) -> None:
        for job in [*self._jobs.values()]:
            if job.notebook == path:
                self.change(job.id, notebook=to)

    def notebook_path(self, path: str, since_s: float) -> str:
        return path

    @abstractmethod
    def job(self, job_id: str) -> Job: ...

    def jobs(self, cluster: str | None = None) -> list[Job]:
        return [job for job in reversed(self._jobs.values()) if cluster in (None, job.cluster)]

    def changes(
        self,
        cursor: str = "",
        wait_s: float = 0.0,
        caller: str = "",
        look: tuple[str, ...] = (),
        everyone: bool = False,
        ended: bool = False,
        results: tuple[str, ...] = (),
    ) -> Changes:
        known = revision_of(cursor)

        def is_new() -> bool:
            if self._woken or not ended:
                return self._woken or self._revision > known
            gone = any(at > known for at, _ in self._gone)
            return gone or any(
                job.revision > known and job.state.final for job in self._jobs.values()
            )

        with self._changed:
            self._changed.wait_for(is_new, wait_s)
            return Changes(
                cursor=str(self._revision),
                whole=known < 0,
                jobs=tuple(job for job in self._jobs.values() if job.revision > known),
                gone=tuple(job_id for at, job_id in self._gone if at > known >= 0),
                queues=tuple(
                    QueueStatus(cluster=name, asked_s=1.0, interval_s=10.0) for name in look
                ),
                connections=None if known >= 0 else tuple(self.connections()),
            )

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        job = self.job(job_id)
        sample = UsageSample(time_s=job.created_s, cpus=1.0, memory_mib=100.0)
        samples = () if cursor else (sample,)
        return UsageChanges(cursor="1", samples=samples, job=job, end=job.state.final)

    def hold(self, job_id: str) -> Job:
        return self.change(job_id, reason="JobHeldUser")

    def release(self, job_id: str) -> Job:
        return self.change(job_id, reason=None)

    def extend(self, job_id: str, limit: str) -> Job:
        return self.change(job_id, limit_s=7200)

    def sweep(self, job_id: str) -> SweepTasks:
        job_id = self.job(job_id).id
        raise RequestError(f"Job {job_id} is not a sweep.")

    def retry(self, job_id: str, options: dict[str, str] | None = None) -> Job:
        raise RequestError(f"Job {job_id} is not a sweep.")

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        for job_id in job_ids:
            getattr(self, verb)(job_id)
        return []
