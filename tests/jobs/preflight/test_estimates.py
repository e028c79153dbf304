"""Slurm's start estimates, from a real Slurm and cached."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

import pytest

from jupyter_slurm.errors import ControllerError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.preflight import estimates
from jupyter_slurm.jobs.preflight.estimates import Estimates
from jupyter_slurm.jobs.submission.prepare import Submission
from jupyter_slurm.jobs.submission.resolve import UNASKED, resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.transport import Completed
from jupyter_slurm.wire import CellSpec, JobKind
from tests.jobs.conftest import Site, spec
from tests.slurm.recorded import RELEASES, refusals, stderr

STARTS = "sbatch: Job 7 to start at 1795271469 using 1 processors on nodes n1 in partition p\n"


def submission(job_id: str, *options: str) -> Submission:
    argv = ("sbatch", "--parsable", *options, f"--comment=jslurm:{job_id}", "--", "/j/job.sh")
    spec = CellSpec(id=job_id, name="fit", code="1")
    job = resolved(spec, ClusterProfile(name="c"), UNASKED)
    return Submission(job, f"#!/bin/sh\n# {job_id}\n", argv, {})


class Sbatch:
    """A cluster whose sbatch prints a given text."""

    name = "c"

    def __init__(self, words: str = STARTS, returncode: int = 0) -> None:
        self.words = words
        self.returncode = returncode
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], *, stdin: bytes = b"") -> Completed:
        assert stdin.startswith(b"#!/bin/sh\n")
        self.asked.append(argv)
        return Completed(self.returncode, b"", self.words.encode())


def as_cluster(cluster: object) -> SlurmCluster:
    return cast("SlurmCluster", cluster)


# --- on a real Slurm ---
def test_preview_has_slurms_start_estimate_and_submits_nothing(site: Site) -> None:
    preview = site.service.preview(spec("1", options={"time": "00:05:00"}))
    assert preview.start_estimate_s is not None
    assert preview.start_estimate_s > time.time() - 600
    assert not any(check.ok is False for check in preview.checks)
    assert site.service.jobs() == []


@pytest.mark.parametrize("kind", [JobKind.CELL, JobKind.SCRIPT])
def test_refusal_by_slurm_yields_a_failed_check(site: Site, kind: JobKind) -> None:
    asked = spec("#!/bin/sh\n", kind=kind, options={"constraint": "nosuch"})
    preview = site.service.preview(asked)
    assert preview.start_estimate_s is None
    [check] = [one for one in preview.checks if one.ok is False]
    assert "Invalid feature specification" in str(check.sentence)
    assert check.hint is not None


# --- caching ---
def test_equal_submissions_share_one_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sbatch, known = Sbatch(), Estimates()
    first = known.ask(as_cluster(sbatch), submission("aaaaaaaa", "--time=5"))
    assert first.start_s == 1795271469
    assert known.ask(as_cluster(sbatch), submission("bbbbbbbb", "--time=5")) == first
    assert len(sbatch.asked) == 1
    known.ask(as_cluster(sbatch), submission("cccccccc", "--time=6"))
    assert [argv[2] for argv in sbatch.asked] == ["--time=5", "--time=6"]
    monkeypatch.setattr(estimates, "KEPT_S", 0.0)
    known.ask(as_cluster(sbatch), submission("dddddddd", "--time=5"))
    assert len(sbatch.asked) == 3


# --- parsing ---
@pytest.mark.parametrize("release", RELEASES)
def test_estimates_and_refusals_of_each_release_are_parsed(release: str) -> None:
    sbatch = Sbatch(stderr(release, "sbatch_test_only"))
    told = Estimates().ask(as_cluster(sbatch), submission("aaaaaaaa"))
    assert (told.start_s or 0) > 1_700_000_000
    assert told.checks == ()
    for name in refusals(release):
        refused = Sbatch(stderr(release, name), 1)
        told = Estimates().ask(as_cluster(refused), submission("aaaaaaaa"))
        assert told.start_s is None
        assert [check.ok for check in told.checks] == [False]
        assert "error:" not in told.checks[0].sentence
        assert told.checks[0].hint is not None


def test_silent_controller_is_not_a_refusal() -> None:
    class Silent(Sbatch):
        def run(self, argv: Sequence[str], *, stdin: bytes = b"") -> Completed:
            raise ControllerError("Slurm's controller on c does not answer.")

    told = Estimates().ask(as_cluster(Silent()), submission("aaaaaaaa"))
    assert [check.ok for check in told.checks] == [None]
    busy = Sbatch("sbatch: error: Socket timed out on send/recv operation\n", 1)
    told = Estimates().ask(as_cluster(busy), submission("aaaaaaaa"))
    assert [check.ok for check in told.checks] == [None]
