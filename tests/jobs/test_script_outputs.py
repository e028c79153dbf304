"""Output and error files of batch scripts, and missing working directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.job import JobHandle
from jupyter_slurm.jobs.submission.script import SETUP_EXIT
from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.waiting import wait_until

BOTH = "#!/bin/sh\n#SBATCH -J w -o %x.out -e %x.err\necho told\necho error >&2\n{ends}\n"
ARRAY = (
    "#!/bin/sh\n#SBATCH --array=1-2 -o %x.%a.out -e %x.%a.err\necho told\n"
    "echo error $SLURM_ARRAY_TASK_ID >&2\n{ends}\n"
)


@over_ssh
def test_error_file_of_a_batch_script_is_shown_during_and_after_the_run(
    site: Site, tmp_path: Path
) -> None:
    runs = site.service.submit(
        spec(BOTH.format(ends="sleep 600"), kind=JobKind.SCRIPT, **site.at(tmp_path))
    )
    wait_until(lambda: "error" in site.so_far(runs.id))
    site.service.cancel(runs.id)
    site.wait(runs.id)
    job = site.run(BOTH.format(ends="exit 3"), kind=JobKind.SCRIPT, **site.at(tmp_path))
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert site.text(job.id) == "told\n"
    assert site.text(job.id, "stderr") == "error\n"


def test_error_files_of_array_tasks_are_shown(site: Site, tmp_path: Path) -> None:
    text = ARRAY.format(ends="exit 3")
    job = site.run(text, kind=JobKind.SCRIPT, **site.at(tmp_path))
    for task in (1, 2):
        chunk = site.service.logs(job.id, task=task)
        text = "".join(getattr(output, "text", "") for output in chunk.outputs)
        assert "told" in text
        assert f"error {task}" in text


def test_array_tasks_have_their_own_state_and_output(site: Site, tmp_path: Path) -> None:
    """`%j` is the job ID of the task itself, which is not in the paths of other tasks."""
    text = (
        f"#!/bin/sh\n#SBATCH --hold --array=1-3,12 --output={tmp_path}/%j.out\n"
        "echo I am $SLURM_ARRAY_TASK_ID\n[ $SLURM_ARRAY_TASK_ID != 2 ]\n"
    )
    job = site.service.submit(spec(text, kind=JobKind.SCRIPT))
    wait_until(lambda: site.service.job(job.id).tasks == {"PENDING": "1-3,12"})
    site.service.release(job.id)
    ended = site.wait(job.id)
    assert ended.state is JobState.FAILED
    assert ended.tasks == {"COMPLETED": "1,3,12", "FAILED": "2"}
    handle = JobHandle(site.service, ended)
    assert [handle.task_output(task) for task in (1, 2, 12)] == [
        "I am 1\n",
        "I am 2\n",
        "I am 12\n",
    ]
    with pytest.raises(RequestError):
        handle.task_output(4)


def test_folder_missing_on_the_node_is_reported(site: Site, tmp_path: Path) -> None:
    gone = tmp_path / "only on the login node"
    gone.mkdir()
    options = {"chdir": str(gone), "hold": ""}
    job = site.service.submit(spec("1", options=options))
    gone.rmdir()
    site.service.release(job.id)
    job = site.wait(job.id)
    assert (job.state, job.exit_code) == (JobState.FAILED, SETUP_EXIT)
    assert str(gone) in str(job.why)
