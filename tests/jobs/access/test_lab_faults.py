"""What becomes of a lab whose job, node or disk fails: what is said, and that nothing is left; and
of a cell whose node does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Job, JobState
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes, processes_of
from tests.jobs.access.test_labs import (
    doors,
    folder_of,
    is_free,
    ready,
    started,
    submitted,
    visitor,
)
from tests.jobs.conftest import Site
from tests.jobs.test_faults import running
from tests.ssh.waiting import wait_until

LabSite = Callable[..., Site]


@pytest.fixture
def lab_site(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    private_cluster: Callable[..., SlurmCluster],  # its labs are cancelled before it goes
) -> Iterator[LabSite]:
    """On a cluster, whose nodes' Python has JupyterLab; nothing is left of its labs."""
    made: list[Site] = []

    def make(cluster: SlurmCluster, **settings: Any) -> Site:
        made.append(Site(cluster, tmp_path, monkeypatch, python=sys.executable, **settings))
        return made[-1]

    yield make
    for site in made:
        for job in site.service.jobs():
            if not job.state.final:
                site.service.cancel(job.id)
                site.wait(job.id)
        site.service.close()
        wait_until(lambda site=site: not processes_of(site))  # type: ignore[misc]


@pytest.fixture
def site(lab_site: LabSite, slurm_cluster: SlurmCluster) -> Site:
    return lab_site(slurm_cluster)


def ended(site: Site, was: Job, folder: Path | None, state: JobState) -> Job:
    """The lab, of which nothing is left: no process, door, port or `folder` (None: what is killed
    outright leaves that to the next lab); the way in is closed."""
    job = site.wait(was.id)
    assert job.state is state, (job.state, job.why, site.text(job.id))
    assert job.lab is None
    assert was.lab is not None
    port = was.lab.port
    wait_until(lambda: is_free(port))
    wait_until(lambda: not processes_of(site))
    wait_until(lambda: not doors(site))
    assert folder is None or not folder.exists()
    living = ("RUNNING", "PENDING", "COMPLETING")
    wait_until(lambda: site.cluster.job_state(job.slurm_id or "") not in living)
    with pytest.raises(RequestError, match="has ended"):
        site.service.lab_entry(job.id)
    return job


def test_a_lab_whose_time_is_over(site: Site) -> None:
    job = started(site, options={"time": "60"})
    folder = folder_of(job)
    site.cluster.end_time_of(job.slurm_id or "")
    over = ended(site, job, folder, JobState.TIMEOUT)
    assert "time limit" in str(over.why or "").lower()


def test_a_lab_whose_node_is_set_down_or_dies_with_its_cell_and_comes_back(
    lab_site: LabSite, private_cluster: Callable[..., SlurmCluster]
) -> None:
    """What is left in the /tmp of a node that died the next lab there removes."""
    site = lab_site(private_cluster(cpus=2, extra_conf=("SlurmdTimeout=20",)))
    job = started(site)
    folder = folder_of(job)
    site.cluster.run("scontrol", "update", "nodename=n1", "state=down", "reason=test")
    assert "node" in str(ended(site, job, folder, JobState.NODE_FAIL).why or "").lower()
    # Where it has come back by itself (`ReturnToService`), there is nothing to resume.
    site.cluster.run("scontrol", "update", "nodename=n1", "state=resume", check=False)
    job = started(site)
    cell = running(site)
    folder = folder_of(job)
    site.cluster.kill_slurmd()
    site.cluster.kill_jobs()
    failed = site.wait(cell)
    assert failed.state is JobState.NODE_FAIL
    assert "node" in str(failed.why or "").lower()
    assert site.text(cell) == "up\n"
    ended(site, job, None, JobState.NODE_FAIL)
    site.cluster.start_slurmd()
    again = ready(site, submitted(site))
    assert not folder.exists()
    assert folder_of(again).exists()


def test_a_lab_that_has_no_memory_left(site: Site) -> None:
    job = started(site, options={"mem": "600M"})
    one = visitor(site, job)
    kernel = one.start_kernel()
    with suppress(Exception):  # it goes with the lab
        one.run(kernel, "hog = b'x' * (1500 << 20)\nimport time; time.sleep(60)")
    over = ended(site, job, None, JobState.OUT_OF_MEMORY)
    assert str(over.why) == "Out of memory."
    assert "--mem" in str(over.advice or "")


def test_a_lab_whose_server_is_killed(site: Site) -> None:
    job = started(site)
    folder = folder_of(job)
    server(job).send_signal(signal.SIGKILL)
    over = ended(site, job, folder, JobState.FAILED)
    assert str(over.why) == "JupyterLab has failed."


def server(job: Job) -> psutil.Process:
    found = [
        one for one, words in processes(job) if "-m jupyterlab" in words and "lab.py" not in words
    ]
    # What it forks has its command line until it becomes another program.
    return min(found, key=psutil.Process.create_time)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.getuid() != 0:
        pytest.skip("file systems are mounted by root only")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def test_a_lab_whose_home_is_full_when_it_is_asked_for(
    lab_site: LabSite, slurm_cluster: SlurmCluster, small_disk: Path
) -> None:
    site = lab_site(slurm_cluster, job_root=str(small_disk / "jobs"))
    fill(small_disk)
    with pytest.raises(Exception, match="cannot be written") as told:
        submitted(site)
    assert "over quota" in str(told.value)
    assert site.slurm_jobs() == []
    [job] = site.service.jobs()
    assert (job.state, job.lab) == (JobState.REJECTED, None)


def test_a_lab_whose_home_is_full_when_it_starts_and_when_it_ends(
    lab_site: LabSite, slurm_cluster: SlurmCluster, small_disk: Path
) -> None:
    site = lab_site(slurm_cluster, job_root=str(small_disk / "jobs"))
    job = submitted(site, env={"HOME": str(small_disk)}, options={"hold": ""})
    fill(small_disk)
    site.service.release(job.id)
    over = ended(site, job, None, JobState.FAILED)
    assert str(over.why) == "It could not write into its folder."
    assert "over quota" in str(over.advice or "")


def test_a_lab_whose_home_fills_up_goes_on_until_it_is_cancelled_from_outside(
    lab_site: LabSite, slurm_cluster: SlurmCluster, small_disk: Path
) -> None:
    site = lab_site(slurm_cluster, job_root=str(small_disk / "jobs"))
    job = started(site, env={"HOME": str(small_disk)})
    folder = folder_of(job)
    fill(small_disk)
    one = visitor(site, job)
    assert one.run(one.start_kernel(), "print(6 * 7)").startswith("42")
    site.cluster.run("scancel", job.slurm_id or "")
    assert ended(site, job, folder, JobState.CANCELLED).why == "Cancelled."
