"""Usage samples from Slurm's `sstat`, for viewers of jobs that do not measure themselves.

A request takes time on the job's nodes, so all viewers of a job share at most two requests a
minute. Samples are kept for an hour after the last viewer.
"""

from __future__ import annotations

import threading
import time

from jupyter_slurm.errors import CommandError, NotMeasuredError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.slurm import sstat
from jupyter_slurm.wire import Job, JobState, Problem, UsageSample

EVERY_S = 30.0
_KEPT_S = 3600.0
_MOST = 2000


class _Series:
    """The samples of one job."""

    def __init__(self, job: Job) -> None:
        self.lock = threading.Lock()
        self.samples: list[UsageSample] = []
        self.problem: Problem | None = None
        self.looked_at_s = 0.0
        self.asked_at_s: float | None = None
        """The time of the last request. Like `looked_at_s`, it is on the monotonic clock."""
        self._before_s = job.started_s or time.time()
        self._before_cpu_s = 0.0

    def due_in_s(self) -> float:
        if self.asked_at_s is None:
            return 0.0
        return max(0.0, self.asked_at_s + EVERY_S - time.monotonic())

    def ask(self, cluster: SlurmCluster, slurm_id: str) -> None:
        self.asked_at_s = time.monotonic()
        try:
            steps = sstat.parse(cluster.ask(sstat.argv(slurm_id)))
        except CommandError as exc:
            self.problem = _silent(exc.detail)
            return
        steps = [one for one in steps if not one.step_id.endswith(".extern")]
        if not steps or all(one.average_rss_mib is None for one in steps):
            self.problem = _silent(None)
            return
        self.problem = None
        now_s = time.time()
        cpu_s = sum((one.average_cpu_s or 0.0) * (one.tasks or 1) for one in steps)
        used_s = max(0.0, cpu_s - self._before_cpu_s)
        passed_s = max(1.0, now_s - self._before_s)
        memory_mib = sum((one.average_rss_mib or 0.0) * (one.tasks or 1) for one in steps)
        sample = UsageSample(time_s=now_s, cpus=used_s / passed_s, memory_mib=memory_mib)
        self._before_s, self._before_cpu_s = now_s, cpu_s
        self.samples = [*self.samples[-_MOST + 1 :], sample]


class SlurmSamples:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, _Series] = {}

    def after(
        self, cluster: SlurmCluster, job: Job, since_s: float
    ) -> tuple[list[UsageSample], Problem | None]:
        """Return the samples after `since_s`, and the reason why samples are missing, if any.
        Raises TransportError."""
        series = self._of(job)
        with series.lock:
            slurm_id = job.slurm_id if job.state is JobState.RUNNING else None
            if slurm_id is not None and not series.due_in_s():
                series.ask(cluster, slurm_id)
            problem = series.problem
            if job.state.final and not series.samples:
                problem = NotMeasuredError(
                    "Usage was not recorded, because it was not shown while the job ran."
                ).problem()
            # Cursors are in milliseconds.
            return [one for one in series.samples if one.time_s > since_s + 0.001], problem

    def due_in_s(self, job: Job) -> float:
        """Return the seconds until the next request is allowed."""
        return EVERY_S if job.started_s is None else max(1.0, self._of(job).due_in_s())

    def _of(self, job: Job) -> _Series:
        now_s = time.monotonic()
        with self._lock:
            series = self._series.setdefault(job.id, _Series(job))
            series.looked_at_s = now_s
            self._series = {
                name: one for name, one in self._series.items() if now_s - one.looked_at_s < _KEPT_S
            }
            return series


def _silent(detail: str | None) -> Problem:
    return NotMeasuredError(
        "Slurm has not sampled the usage of this job.",
        hint="Wait until half a minute after the start. If samples are still missing, ask the "
        "site whether sampling is enabled (JobAcctGatherType).",
        detail=detail,
    ).problem()
