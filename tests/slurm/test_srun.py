"""The argv of a step beside a job's program. tests/node/test_relay.py runs it in Slurm."""

from __future__ import annotations

import pytest

from jupyter_slurm.slurm.srun import beside_argv
from jupyter_slurm.slurm.versions import SlurmVersion


def test_step_shares_the_jobs_resources() -> None:
    argv = beside_argv("12", ["prog", "a b"], node="n1", version=SlurmVersion(22, 5, 8))
    assert argv[:3] == ["srun", "--jobid=12", "--overlap"]
    assert {"--nodelist=n1", "--mem=0", "--gres=none", "--ntasks=1", "--nodes=1"} <= {*argv}
    assert argv[-2:] == ["prog", "a b"]


@pytest.mark.parametrize(
    ("version", "overlaps"),
    [
        (SlurmVersion(20, 2, 7), False),
        (SlurmVersion(20, 11, 0), True),
        (SlurmVersion(25, 11, 0), True),
        (None, True),
    ],
)
def test_releases_before_20_11_lack_the_overlap_option(
    version: SlurmVersion | None, overlaps: bool
) -> None:
    assert ("--overlap" in beside_argv("1", ["true"], node=None, version=version)) is overlaps


@pytest.mark.parametrize("slurm_id", ["", "-1", "all"])
def test_invalid_job_id_is_rejected(slurm_id: str) -> None:
    with pytest.raises(ValueError, match="is not a job id"):
        beside_argv(slurm_id, ["true"], node=None, version=None)
