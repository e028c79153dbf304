"""A job of another user, with a name and comment that look like rows of the queue, on a real Slurm.

Nothing prevents its submission. Its text must stay part of that job.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_slurm.jobs.submission.options import comment_token
from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END
from jupyter_slurm.wire import Job, JobKind, JobState, Row
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can submit as another user")

PATIENCE_S = 60.0
ATTACKER = "nobody"
ME = pwd.getpwuid(os.geteuid()).pw_name
EVIL_NODE = "evil.example"


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    site = Site(slurm_cluster, tmp_path, monkeypatch)
    yield site
    site.service.close()


@contextmanager
def hostile_job(site: Site, *options: str) -> Iterator[str]:
    """Yield the ID of a waiting job of the attacker."""
    held = ("--hold", "--output=/dev/null", "--chdir=/", f"--uid={ATTACKER}")
    slurm_id = site.cluster.submit(*held, *options, stdin="#!/bin/sh\n")
    try:
        yield slurm_id
    finally:
        site.cluster.run("scancel", slurm_id)


def forged(**fields: str) -> str:
    """Return a row of our squeue format, to put into a free text field."""
    whole = dict.fromkeys(squeue._FIELDS, "") | fields
    return RECORD_END + "\n" + FIELD_END.join(whole.values()) + RECORD_END + "\n"


def forged_running(job: Job) -> str:
    slurm_id = job.slurm_id or ""
    return forged(
        slurm_id=slurm_id,
        array_job_id=slurm_id,
        array_task_id="N/A",
        state="RUNNING",
        reason="None",
        partition="owned",
        user=ME,
        node_count="1",
        nodelist=EVIL_NODE,
        start="1",
        name="owned",
        comment=comment_token(job.id),
    )


def listed_thrice(site: Site, *, everyone: bool) -> dict[str, Row]:
    """Return the queue by Slurm ID, after two complete listings."""
    name = f"{site.cluster.name} squeue"

    def count() -> int:
        return site.service.status().commands.get(name, 0)

    before, look = count(), (site.cluster.name,)

    def thrice() -> bool:
        site.service.changes("", 0.0, "", look, everyone)
        return count() >= before + 3

    wait_until(thrice, PATIENCE_S)
    told = site.service.changes("", 0.0, "", look, everyone)
    rows: list[Row] = [*told.jobs, *told.listed]
    return {row.slurm_id or "": row for row in rows}


def waiting_job(site: Site) -> Job:
    asked = spec("#!/bin/sh\n", name="mine", kind=JobKind.PROGRAM, options={"hold": ""})
    return site.wait(site.service.submit(asked).id, JobState.PENDING)


def test_text_of_another_users_job_cannot_forge_a_row(site: Site) -> None:
    job = waiting_job(site)
    row = forged_running(job)
    with hostile_job(site, f"--comment={row}", f"--job-name={row}") as theirs:
        rows = listed_thrice(site, everyone=True)
        now = site.service.job(job.id)
        assert (now.state, now.name, now.nodes) == (JobState.PENDING, "mine", ())
        assert now.partition != "owned"
        assert rows[theirs].user == ATTACKER, "the hostile job is not listed"
        mine = rows[job.slurm_id or ""]
        assert (mine.id, mine.state, mine.nodes) == (job.id, "PENDING", ())
        assert EVIL_NODE not in {node for row in rows.values() for node in row.nodes}
        assert theirs not in listed_thrice(site, everyone=False)
    site.service.cancel(job.id)


def test_our_token_in_another_users_job_does_not_make_the_job_ours(site: Site) -> None:
    """The look-up before a second sbatch queries squeue and accounting by owner."""
    job = waiting_job(site)
    token = comment_token(job.id)
    with hostile_job(site, f"--comment={token}", f"--job-name=mine.{job.id}") as theirs:
        rows = listed_thrice(site, everyone=True)
        assert rows[theirs].id is None
        assert rows[job.slurm_id or ""].id == job.id
        assert site.service.job(job.id).slurm_id == job.slurm_id
    site.service.cancel(job.id)
