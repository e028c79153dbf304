"""Slurm's estimates of start times before submission, cached for a few seconds.

A form requests an estimate while the user types, and each request makes the controller plan the
whole queue. Therefore, equal requests share an answer, and each cluster gets one request at a time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from jupyter_slurm.errors import ControllerError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.submission.prepare import Submission
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.wire import Check

KEPT_S = 15.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """Slurm's answer to `sbatch --test-only`."""

    start_s: float | None = None
    checks: tuple[Check, ...] = ()


class _ClusterEstimates:
    """The estimates of one cluster."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: dict[tuple[str, ...], tuple[float, Outlook]] = {}
        """Answers with their time on the monotonic clock."""


class Estimates:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _ClusterEstimates] = {}

    def ask(self, cluster: SlurmCluster, submission: Submission) -> Outlook:
        """Return the answer of `sbatch --test-only`, cached for a few seconds. Raises
        LoginNeededError or TransportError."""
        argv = sbatch.test_only_argv(submission.sbatch)
        # The job ID of each preview is new, but does not affect the answer.
        key = tuple(word.replace(submission.job.spec.id, "") for word in (*argv, submission.script))
        known = self._of(cluster.name)
        with known.lock:
            now_s = time.monotonic()
            known.kept = {k: v for k, v in known.kept.items() if now_s - v[0] < KEPT_S}
            if key not in known.kept:
                outlook = _estimate(cluster, argv, submission.script)
                # Measure the age from the answer, so that waiting callers also get the answer.
                known.kept[key] = (time.monotonic(), outlook)
            return known.kept[key][1]

    def _of(self, cluster: str) -> _ClusterEstimates:
        with self._lock:
            return self._known.setdefault(cluster, _ClusterEstimates())


def _estimate(cluster: SlurmCluster, argv: list[str], script: str) -> Outlook:
    try:
        done = cluster.run(argv, stdin=script.encode())
    except ControllerError as exc:
        unknown = f"Cannot ask Slurm: {exc.message}"
        return Outlook(checks=(Check(ok=None, sentence=unknown, hint=exc.hint),))
    words = done.stderr.decode(errors="replace").strip()
    start_s = sbatch.parse_test_only(words)
    if done.returncode == 0 and start_s is not None:
        return Outlook(start_s=start_s)
    return Outlook(checks=(_refused(words),))


def _refused(words: str) -> Check:
    rejection = explain_rejection(words)
    if rejection is None:
        return Check(ok=None, sentence="Slurm did not estimate the start time.")
    if rejection.category != "definitive":
        return Check(ok=None, sentence=f"Slurm did not estimate the start time: {rejection.text}")
    return Check(
        ok=False,
        sentence=f"Slurm would refuse the job: {rejection.text}",
        hint=rejection.hint,
        option=rejection.option,
    )
