"""Slurm's samples of a job, from a fake sstat, since a real sample takes half a minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from jupyter_slurm.errors import CommandError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.watching import slurm_samples
from jupyter_slurm.jobs.watching.slurm_samples import SlurmSamples
from jupyter_slurm.wire import JobKind
from tests.specs import known

JOB = known(kind=JobKind.SCRIPT, slurm_id="7", started_s=1000.0)
MIB = 1 << 20


class Clock:
    """Stand-in for the module `time`."""

    now_s = 1010.0

    def time(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s


class Sstat:
    """A cluster whose sstat prints a given text."""

    def __init__(self, says: str | None = "") -> None:
        self.asked = 0
        self.says = says

    def ask(self, argv: Sequence[str]) -> bytes:
        assert argv[0] == "sstat"
        self.asked += 1
        if self.says is None:
            raise CommandError("no", detail="sstat: error: no steps running for job 7")
        return self.says.encode()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slurm_samples, "time", clock)
    return clock


def test_sample_sums_cores_and_has_peak_memory_of_steps(clock: Clock) -> None:
    sstat, samples = Sstat(), SlurmSamples()
    cluster = cast("SlurmCluster", sstat)
    sstat.says = (
        f"7.extern|1|00:01:00|{MIB}\n7.batch|1|00:00:05|{10 * MIB}\n7.0|4|00:00:05|{20 * MIB}\n"
    )
    [first], problem = samples.after(cluster, JOB, 0)
    assert (first.time_s, first.cpus, first.memory_mib, problem) == (1010, 2.5, 90, None)
    assert samples.after(cluster, JOB, first.time_s) == ([], None)
    assert (sstat.asked, samples.due_in_s(JOB)) == (1, 30)
    clock.now_s += 30
    sstat.says = f"7.batch|1|00:01:05|{10 * MIB}\n"
    [second], _ = samples.after(cluster, JOB, first.time_s)
    assert second.cpus == pytest.approx(40 / 30)
    assert second.memory_mib == 10
    assert samples.after(cluster, JOB, 0)[0] == [first, second]
    assert sstat.asked == 2


@pytest.mark.parametrize("says", ["", "7.batch|1||\n", None])
def test_missing_samples_are_reported_as_a_problem(clock: Clock, says: str | None) -> None:
    samples = SlurmSamples()
    found, problem = samples.after(cast("SlurmCluster", Sstat(says)), JOB, 0)
    assert found == []
    assert problem is not None
    assert problem.code == "not-measured"
    assert samples.due_in_s(JOB) == 30
