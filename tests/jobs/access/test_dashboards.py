"""Dashboards on a real Slurm: TensorBoard beside a cell, its local port, and access."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import requests

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Job, JobState, LabEntry, Stream
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes, processes_of
from tests.jobs.conftest import Site, over_ssh, spec
from tests.lab_visitor import LabVisitor
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

STARTS_S = 60.0
WAIT = """
import pathlib, time
while not pathlib.Path({path!r}).exists():
    time.sleep(0.05)
"""


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    engines_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site whose nodes' Python has TensorBoard."""
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, python=str(engines_python))
    yield site
    site.service.close()


def running(site: Site, end: Path, **changes: object) -> Job:
    code = WAIT.format(path=str(end))
    job = site.service.submit(spec(code, runtime="none", **changes))
    return site.wait(job.id, JobState.RUNNING)


def visitor(entry: LabEntry) -> LabVisitor:
    host = entry.login_url.removeprefix("http://").partition("/")[0]
    return LabVisitor(host, entry.port)


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


def listening(job: Job) -> set[int]:
    """Return the listening ports of the job's programs."""
    found = set()
    for one, _ in processes(job):
        with suppress(psutil.Error):
            at = [where.laddr for where in one.net_connections("tcp") if where.status == "LISTEN"]
            found |= {where.port for where in at}
    return found


@over_ssh
def test_tensorboard_beside_a_cell_has_a_random_address(site: Site, tmp_path: Path) -> None:
    end = tmp_path / "end"
    job = running(site, end, tensorboard=str(tmp_path / "logs"))
    entry = site.service.dashboard_entry(job.id, "tensorboard", STARTS_S)
    for host in (f"127.0.0.1:{entry.port}", f"tensorboard-{job.id}.localhost:{entry.port}"):
        with pytest.raises(requests.ConnectionError):
            LabVisitor(host, entry.port).get("/")
    one = visitor(entry)
    assert "<title>TensorBoard" in one.get("/").text
    assert "scalars" in one.get("/data/plugins_listing").json()
    assert site.service.dashboard_entry(job.id, "tensorboard") == entry
    assert listening(job) == set()
    end.touch()
    assert site.wait(job.id).state is JobState.COMPLETED
    wait_until(lambda: not is_open(entry.port))
    wait_until(lambda: not processes_of(site))
    with pytest.raises(
        RequestError, match=r"is COMPLETED, so its TensorBoard dashboard is not running"
    ):
        site.service.dashboard_entry(job.id, "tensorboard")


def test_missing_tensorboard_is_reported_and_the_cell_runs(site: Site, tmp_path: Path) -> None:
    site.edit_profile(python="/usr/bin/python3")
    site.restart()
    end = tmp_path / "end"
    job = running(site, end, tensorboard="logs")
    with pytest.raises(RequestError, match=r"TensorBoard does not start with Python 3"):
        site.service.dashboard_entry(job.id, "tensorboard", STARTS_S)
    end.touch()
    assert site.wait(job.id).state is JobState.COMPLETED
    chunk = site.service.logs(job.id)
    said = "".join(one.text for one in chunk.outputs if isinstance(one, Stream))
    assert "lacks TensorBoard, so its dashboard does not start." in said


def test_dask_dashboard_listens_on_a_private_socket(site: Site, tmp_path: Path) -> None:
    end = tmp_path / "end"
    job = running(site, end, launch="dask", options={"nodes": "2"})
    entry = site.service.dashboard_entry(job.id, "dask", STARTS_S)
    one = visitor(entry)
    assert "Dask Diagnostic UI" in one.get("/status").text
    at = Path(json.loads((Path(job.job_dir) / "engine.0.json").read_bytes())["dashboard"])
    assert at.is_socket()
    assert (at.stat().st_mode & 0o777, at.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    end.touch()
    assert site.wait(job.id).state is JobState.COMPLETED
    wait_until(lambda: not at.exists())
