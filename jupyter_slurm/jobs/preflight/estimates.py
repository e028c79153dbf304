"""When Slurm would start a job that is not submitted: asked of it, and kept for some seconds.

A form asks while its user is still typing, and the answer costs the controller a plan of the whole
queue: the same question is not put twice, nor two at once to one cluster.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from jupyter_slurm.errors import ControllerError
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.submission.prepare import Submission
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.slurm.rejections import explain_rejection, message
from jupyter_slurm.wire import Check

KEPT_S = 15.0
_FAILURES = ("allocation failure: ", "Batch job submission failed: ")


@dataclass(frozen=True, slots=True)
class Outlook:
    """Slurm's estimate of a submission."""

    start_s: float | None = None
    checks: tuple[Check, ...] = ()


class _ClusterEstimates:
    """The estimates of one cluster."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: dict[tuple[str, ...], tuple[float, Outlook]] = {}
        """With when it was said, on the monotonic clock."""


class Estimates:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _ClusterEstimates] = {}

    def ask(self, cluster: SlurmCluster, submission: Submission) -> Outlook:
        """Return what `sbatch --test-only` says, cached. LoginNeededError, TransportError."""
        argv = sbatch.test_only_argv(submission.sbatch)
        # Each time that it is asked for the job has another id, which says nothing.
        key = tuple(word.replace(submission.job.spec.id, "") for word in (*argv, submission.script))
        known = self._of(cluster.name)
        with known.lock:
            now_s = time.monotonic()
            known.kept = {k: v for k, v in known.kept.items() if now_s - v[0] < KEPT_S}
            if key not in known.kept:
                outlook = _estimate(cluster, argv, submission.script)
                # From the answer on: those who have waited for it meanwhile have it too.
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
    estimate = sbatch.parse_test_only(words)
    if done.returncode == 0 and estimate is not None:
        return Outlook(start_s=estimate.start_s)
    return Outlook(checks=(_refused(words),))


def _refused(words: str) -> Check:
    rejection = explain_rejection(words)
    if rejection is None:
        return Check(ok=None, sentence="Slurm does not say when it would start.")
    said = message(words)
    for failure in _FAILURES:
        said = said.replace(failure, "")
    if rejection.category != "definitive":
        return Check(
            ok=None,
            sentence=f"Slurm does not say when it would start: {said}",
        )
    known = (rejection.sentence,) if rejection.known else ()
    hint = joined(*known, rejection.advice)
    sentence = f"Slurm would refuse it: {said}"
    return Check(ok=False, sentence=sentence, hint=hint, option=rejection.option)
