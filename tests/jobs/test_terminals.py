"""Which step a terminal is, and what is said where there can be none."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.errors import ForwardError, NotFoundError, RequestError
from jupyter_slurm.shell import parse
from jupyter_slurm.slurm.srun import terminal_argv
from jupyter_slurm.slurm.versions import SlurmVersion
from jupyter_slurm.wire import JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.near_end import NearEnd
from tests.ssh.waiting import wait_until

SHELL = parse([])
OLD_SRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "slurm 20.02.7"; exit; fi
echo "$@" >"$(dirname "$0")/words"
echo "srun: error: Unable to create step for job 7: Requested nodes are busy" >&2
exit 1
"""
"""srun of 20.02, as it ends where another step of the job has what it asks for."""


@pytest.mark.parametrize(
    ("version", "overlap", "no_gres"),
    [
        (None, True, False),
        (SlurmVersion(23, 2, 0), True, False),
        (SlurmVersion(22, 5, 0), True, False),
        (SlurmVersion(21, 8, 0), True, True),
        (SlurmVersion(20, 11, 0), True, True),
        (SlurmVersion(20, 2, 7), False, True),
    ],
)
def test_a_terminal_has_the_jobs_gpus_where_steps_can_share_them(
    version: SlurmVersion | None, overlap: bool, no_gres: bool
) -> None:
    argv = terminal_argv("12", ["prog"], node="n1", version=version)
    assert ("--overlap" in argv, "--gres=none" in argv) == (overlap, no_gres)
    assert argv[-1] == "prog"


def test_slurm_that_is_too_old_to_share_a_job_says_so(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "old"
    programs.mkdir()
    srun = programs / "srun"
    srun.write_text(OLD_SRUN)
    srun.chmod(0o755)
    path = [str(programs), str(slurm_cluster.folder / "bin")]
    site = Site(slurm_cluster, tmp_path, monkeypatch, path=path)
    try:
        job = site.service.submit(spec("import time; time.sleep(1000)", options={"mem": "100"}))
        wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
        with pytest.raises(ForwardError, match="could not be started inside the job") as caught:
            site.service.terminal(SHELL.terminal(job.id))
        assert "Slurm 20.02.7 has no `srun --overlap`" in str(caught.value)
        assert "Requested nodes are busy" in (caught.value.detail or "")
        assert "--overlap" not in (programs / "words").read_text()
        site.service.cancel(job.id)
        site.wait(job.id)
    finally:
        site.service.close()


def test_job_that_waits_has_ended_or_is_not_there_has_no_terminal(site: Site) -> None:
    with pytest.raises(NotFoundError):
        site.service.terminal(SHELL.terminal("nosuchjo"))
    held = site.service.submit(spec("pass", options={"hold": "", "mem": "100"}))
    site.wait(held.id, JobState.PENDING)
    with pytest.raises(RequestError, match="does not run: it is PENDING"):
        site.service.terminal(SHELL.terminal(held.id))
    site.service.cancel(held.id)
    site.wait(held.id)
    with pytest.raises(RequestError, match="has ended: it is CANCELLED"):
        site.service.terminal(SHELL.terminal(held.id))


def test_batch_script_of_the_users_own_has_a_shell_on_its_node(site: Site) -> None:
    script = "#!/bin/bash\n#SBATCH --mem=100\nsleep 1000\n"
    job = site.service.submit(spec(script, kind=JobKind.SCRIPT))
    site.wait(job.id, JobState.RUNNING)
    wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
    near = NearEnd(site.service.terminal(SHELL.terminal(job.id)))
    near.prompted()
    (node,) = site.service.job(job.id).nodes
    assert near.answer("echo $SLURM_JOB_ID on $SLURMD_NODENAME").endswith(f" on {node}\r\n")
    near.type("exit 2")
    assert near.status() == 2
    near.close()
    assert site.service.job(job.id).state is JobState.RUNNING
    site.service.cancel(job.id)
    site.wait(job.id)
