import pytest

from jupyter_slurm.slurm import sstat
from tests.slurm.recorded import RELEASES, job_id, output

each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
def test_usage_of_running_steps_is_parsed(release: str) -> None:
    [batch] = sstat.parse(output(release, "sstat"))
    assert batch.step_id == f"{job_id(release, 'running')}.batch"
    assert batch.tasks == 1
    assert batch.average_rss_mib is not None
    assert 1 < batch.average_rss_mib < 100
    assert batch.average_cpu_s == 0


def test_memory_with_a_unit_is_parsed() -> None:
    [step] = sstat.parse("7.batch|1|00:00:01|2048K\n")
    assert step.average_rss_mib == 2
    [step] = sstat.parse("7.batch|1||\n")
    assert (step.average_rss_mib, step.average_cpu_s) == (None, None)
