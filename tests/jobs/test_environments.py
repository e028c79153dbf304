"""Packages for jobs without an image, on a real Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.job import read_outcome
from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site, over_ssh
from tests.jobs.packaged import Packaged, held
from tests.jobs.wheels import add_wheel
from tests.ssh.waiting import wait_until


@pytest.fixture
def packaged(site: Site, tmp_path: Path) -> Packaged:
    return Packaged(site, tmp_path / "our wheels")


def test_packages_of_cells_are_installed_once(packaged: Packaged) -> None:
    job = packaged.run("alpha")
    assert job.state is JobState.COMPLETED, job.why
    found = packaged.only()
    assert packaged.site.text(job.id) == f"1.0 {found.path} {found.path}/bin/python\n"
    assert (found.tool, found.packages, found.id) == ("uv", ("alpha",), job.environment_id)
    assert found.size_mib
    assert found.used_s
    (installation,) = packaged.installations()
    assert installation.on_login
    again = packaged.run("alpha")
    assert again.environment_id == job.environment_id
    assert packaged.installations() == [installation]
    assert packaged.run("alpha", "beta").environment_id != job.environment_id


def test_sweep_has_packages_that_are_installed_once_for_all_tasks(packaged: Packaged) -> None:
    code = "import alpha, sys\nfound = alpha.version, sys.prefix"
    sweep = {"kind": JobKind.SWEEP, "tasks": "0-3", "names_out": ("found",)}
    job = packaged.run("alpha", code=code, **sweep)
    assert job.tasks == {"COMPLETED": "0-3"}
    assert len(packaged.installations()) == 1
    service = packaged.site.service
    variables, failed = read_outcome(service, service.result(job.id), {})
    table: Any = variables["results"]
    assert failed is None
    assert table["found"].tolist() == [("1.0", packaged.only().path)] * 4


@over_ssh
def test_packages_are_installed_over_ssh_and_the_job_shows_the_installation(
    packaged: Packaged, tmp_path: Path
) -> None:
    gate = held(packaged, tmp_path)
    job = packaged.submit("alpha")
    assert job.state is JobState.SUBMITTING
    wait_until(lambda: "holding on" in str(packaged.site.service.job(job.id).why))
    assert str(packaged.site.service.job(job.id).why) == "Installing packages: holding on"
    gate.touch()
    job = packaged.site.wait(job.id)
    assert job.state is JobState.COMPLETED, job.why
    assert packaged.site.text(job.id).startswith("1.0 ")


def test_missing_packages_are_reported_and_the_job_is_not_submitted(packaged: Packaged) -> None:
    add_wheel(packaged.folder, "gamma", requires=["nosuch>=2"])
    job = packaged.refused("gamma")
    assert "`nosuch" in str(job.why)
    assert job.problem is not None
    assert "nosuch>=2" in str(job.problem.detail)
    (installation,) = packaged.installations()
    assert (installation.state, installation.why) == (JobState.FAILED, job.why)
    assert packaged.site.service.environments() == []


@pytest.mark.parametrize(
    "changes", [{"image": "x", "runtime": "charliecloud"}, {"kind": JobKind.SCRIPT}]
)
def test_packages_are_rejected_with_an_image_and_in_a_batch_script(
    changes: dict[str, Any], packaged: Packaged
) -> None:
    with pytest.raises(RequestError) as refused:
        packaged.submit("alpha", code="#!/bin/sh\n", **{"kind": JobKind.PROGRAM, **changes})
    assert refused.value.option == "with"
