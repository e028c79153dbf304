"""Jobs that were submitted by sbatch itself, taken over, on a real Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.job import JobHandle
from jupyter_slurm.views.card import plain
from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site, over_ssh
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0

WAITS_FOR = "echo here; while [ ! -e {gate} ]; do sleep 0.1; done; echo 'ünd $HOME'; exit {code}"


def submitted(site: Site, folder: Path, *options: str, gate: Path, code: int = 0) -> str:
    """The id of a job that ends when the file `gate` is there."""
    text = "#!/bin/sh\n" + WAITS_FOR.format(gate=gate, code=code)
    output = f"--output={folder}/their own %j.txt"
    return site.cluster.submit(output, "--job-name=their <b>job", *options, stdin=text)


def test_a_job_from_elsewhere_is_watched_to_its_end(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slurm_id = submitted(site, tmp_path, gate=gate, code=3)
    job = site.service.adopt(slurm_id)
    assert (job.slurm_id, job.name, job.kind) == (slurm_id, "their <b>job", JobKind.SCRIPT)
    assert (job.notebook, job.fingerprint, job.submitted_s) == (None, None, job.created_s)
    running = site.wait(job.id, JobState.RUNNING)
    assert (bool(running.nodes), running.limit_s) == (True, 3600)
    wait_until(lambda: "here" in site.so_far(job.id), PATIENCE_S)
    gate.touch()
    ended = site.wait(job.id)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 3)
    assert site.text(job.id) == "here\nünd $HOME\n"
    assert site.service.result(job.id).status == "none"


def test_each_task_of_an_array_has_its_state_and_its_own_output(site: Site, tmp_path: Path) -> None:
    """`%j`: by the task's own number in Slurm, which the other tasks' paths do not show."""
    code = "#!/bin/sh\necho I am $SLURM_ARRAY_TASK_ID\n[ $SLURM_ARRAY_TASK_ID != 2 ]\n"
    options = ("--array=1-3,12", f"--output={tmp_path}/{{out}} %j.txt", "--hold")
    job = site.service.adopt(site.cluster.submit(*options, stdin=code))
    wait_until(lambda: site.service.job(job.id).tasks == {"PENDING": "1-3,12"})
    site.service.release(job.id)
    ended = site.wait(job.id)
    assert ended.state is JobState.FAILED
    assert ended.tasks == {"COMPLETED": "1,3,12", "FAILED": "2"}
    assert str(ended.why) == "Task 2 failed: exit code 1."
    handle = JobHandle(site.service, ended)
    assert [handle.task_output(task) for task in (1, 2, 12)] == [
        "I am 1\n",
        "I am 2\n",
        "I am 12\n",
    ]
    assert handle.output == "[Task 1 of an array; `--task N` shows another.]\nI am 1\n"
    with pytest.raises(RequestError, match=r"no task 4\.\nIt has 1-3,12\."):
        handle.task_output(4)
    assert "3 of 4 done, task 2 failed" in plain(ended, 0.0)


@over_ssh
def test_forgetting_it_touches_nothing_over_there(site: Site, tmp_path: Path) -> None:
    slurm_id = submitted(site, tmp_path, gate=tmp_path / "gate")
    job = site.service.adopt(slurm_id)
    site.wait(job.id, JobState.RUNNING)
    cursor = site.service.changes().cursor
    site.service.forget(job.id)
    assert site.service.changes(cursor).gone == (job.id,)
    assert site.service.jobs() == []
    assert site.cluster.job_state(slurm_id) == "RUNNING"
    again = site.service.adopt(slurm_id)
    assert again.id != job.id
    (tmp_path / "gate").touch()
    site.wait(again.id)
    site.service.forget(again.id)
    assert (tmp_path / f"their own {slurm_id}.txt").read_text() == "here\nünd $HOME\n"
    assert not Path(job.job_dir).exists()


def test_what_slurm_does_not_know_is_not_found(site: Site) -> None:
    with pytest.raises(NotFoundError, match="99999999"):
        site.service.adopt("99999999")
    for word in ("", "abc", "-1", "1 2", "1;2", "1_[1-3", "1_"):
        with pytest.raises(RequestError, match="job id"):
            site.service.adopt(word)


def test_somebody_elses_is_refused(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root submits for others")
    slurm_id = site.cluster.submit(
        "--uid=nobody", "--hold", "--output=/dev/null", "--chdir=/", stdin="#!/bin/sh\n"
    )
    with pytest.raises(RequestError, match="nobody"):
        site.service.adopt(slurm_id)
    assert site.service.jobs() == []
    site.cluster.run("scancel", slurm_id)
