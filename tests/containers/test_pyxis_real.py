"""Failures of pyxis and enroot as a job reports them, in steps of a real Slurm. Stand-ins replace
the tools, which no distribution packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import Job, JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    enroot_standin: EnrootStandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    settings: dict[str, Any] = {"setup": enroot_standin.setup, "job_root": str(tmp_path / "jobs")}
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    yield site
    wait_until(lambda: not processes_of(site), _PATIENCE_S)
    site.service.close()


def ended(site: Site, runtime: str, image: str, code: str = "#!/bin/sh\necho up") -> Job:
    wanted = spec(code, kind=JobKind.PROGRAM, runtime=runtime, image=image)
    return site.wait(site.service.submit(wanted).id)


@pytest.mark.parametrize(
    ("runtime", "image", "why"),
    [
        ("pyxis", "ubuntu:20.04", "cannot reach the registry"),
        ("enroot", "/etc/hostname", "is not a SquashFS file"),
    ],
)
def test_message_of_a_job_names_the_failed_step(
    runtime: str, image: str, why: str, site: Site, enroot_standin: EnrootStandIn
) -> None:
    job = ended(site, runtime, image)
    assert job.state is JobState.FAILED
    assert why in str(job.why)
    wait_until(lambda: enroot_standin.containers() == [], _PATIENCE_S)


@pytest.mark.parametrize("runtime", ["pyxis", "enroot"])
def test_simultaneous_jobs_run_an_imported_image(
    runtime: str, site: Site, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    enroot_standin.publish("nvcr.io#nvidia/pytorch:22.11-py3", small_image)
    code = "#!/bin/sh\necho hi >/opt/mine; ls /opt"
    wanted = [
        spec(code, kind=JobKind.PROGRAM, runtime=runtime, image="pytorch:22.11") for _ in range(2)
    ]
    submitted = [site.service.submit(one).id for one in wanted]
    jobs = [site.wait(job_id) for job_id in submitted]
    for job in jobs:
        assert job.state is JobState.COMPLETED
        assert site.text(job.id).splitlines()[-1] == "mine"
        told = "importing docker image: nvcr.io#nvidia/pytorch" in site.text(job.id)
        assert told is (runtime == "pyxis")
    wait_until(lambda: enroot_standin.containers() == [], _PATIENCE_S)
