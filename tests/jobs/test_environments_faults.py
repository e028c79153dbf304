"""Installations of packages that are simultaneous, interrupted, cancelled, removed, made by pip, or
run in a job."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site
from tests.jobs.packaged import Packaged, held
from tests.jobs.wheels import add_wheel
from tests.ssh.waiting import wait_until


@pytest.fixture
def packaged(site: Site, tmp_path: Path) -> Packaged:
    return Packaged(site, tmp_path / "our wheels")


def test_pip_installs_packages_if_uv_is_missing(packaged: Packaged) -> None:
    setup = f"{packaged.by_pip}export PATH=/usr/local/bin:/usr/bin:/bin\n"
    packaged.site.edit_profile(python=sys.executable, setup=setup)
    add_wheel(packaged.folder, "gamma", requires=["nosuch>=2"])
    job = packaged.run("alpha", code="import alpha, beta; print(alpha.version)")
    assert (packaged.only().tool, packaged.site.text(job.id)) == ("pip", "1.0\n")
    failed = packaged.refused("gamma")
    assert "`nosuch>=2`" in str(failed.why)
    assert failed.problem is not None
    assert "No matching distribution found for nosuch>=2" in str(failed.problem.detail)


def test_simultaneous_jobs_install_packages_once(packaged: Packaged, tmp_path: Path) -> None:
    gate = held(packaged, tmp_path)
    jobs = [packaged.submit("alpha") for _ in range(2)]
    wait_until(lambda: all(packaged.site.service.job(job.id).why for job in jobs))
    assert len(packaged.installations()) == 1
    gate.touch()
    assert {packaged.site.wait(job.id).state for job in jobs} == {JobState.COMPLETED}
    assert len(packaged.installations()) == 1


def test_job_that_waits_for_packages_can_be_cancelled(packaged: Packaged, tmp_path: Path) -> None:
    gate = held(packaged, tmp_path)
    job = packaged.submit("alpha")
    assert packaged.site.service.cancel(job.id).state is JobState.CANCELLED
    gate.touch()
    (installation,) = packaged.installations()
    assert packaged.site.wait(installation.id).state is JobState.COMPLETED
    assert packaged.run("alpha").state is JobState.COMPLETED
    assert len(packaged.installations()) == 1


def test_next_agent_continues_to_wait_for_packages(packaged: Packaged, tmp_path: Path) -> None:
    gate = held(packaged, tmp_path)
    job = packaged.submit("alpha")
    packaged.site.restart()
    wait_until(lambda: "holding on" in str(packaged.site.service.job(job.id).why))
    gate.touch()
    assert packaged.site.wait(job.id).state is JobState.COMPLETED
    assert len(packaged.installations()) == 1


def test_interrupted_installation_is_not_used(packaged: Packaged, tmp_path: Path) -> None:
    gate = held(packaged, tmp_path)
    job = packaged.submit("alpha")
    (installation,) = packaged.installations()
    wait_until(lambda: "holding on" in str(packaged.site.service.job(job.id).why))
    half = packaged.root() / f"{job.environment_id}-left-by-another"
    (half / "bin").mkdir(parents=True)
    packaged.site.service.cancel(installation.id)
    ended = packaged.site.wait(job.id)
    assert ended.state is JobState.REJECTED
    assert packaged.site.service.environments() == []
    gate.touch()
    assert packaged.run("alpha").state is JobState.COMPLETED
    assert not half.exists()
    folders = [
        one.name for one in packaged.root().iterdir() if one.is_dir() and not one.is_symlink()
    ]
    assert len(folders) == 1


def test_packages_are_installed_by_a_job_if_the_profile_requires_it(packaged: Packaged) -> None:
    settings = {"python": sys.executable, "setup": packaged.setup, "install_on": "job"}
    packaged.site.edit_profile(**settings)
    job = packaged.run("alpha")
    assert job.state is JobState.COMPLETED, job.why
    (installation,) = packaged.installations()
    assert installation.slurm_id is not None
    assert "The packages are in" in packaged.site.text(installation.id)


def test_programs_and_sessions_have_packages(packaged: Packaged) -> None:
    program = packaged.run(
        "alpha",
        code="#!/bin/sh\npython -c 'import alpha; print(alpha.version)'\n",
        kind=JobKind.PROGRAM,
    )
    assert packaged.site.text(program.id) == "1.0\n"
    session = packaged.submit("alpha", kind=JobKind.SESSION, idle_s=600)
    cell = packaged.site.run("import alpha; print(alpha.version)", session=session.id)
    assert packaged.site.text(cell.id) == "1.0\n"
    packaged.site.service.cancel(session.id)
    packaged.site.wait(session.id)


def test_unused_environments_are_removed_and_used_environments_stay(packaged: Packaged) -> None:
    service = packaged.site.service
    first, second = packaged.run("alpha"), packaged.run("beta", code="1")
    assert service.remove_environments([], unused_s=3600) == []
    about = packaged.root() / str(first.environment_id) / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "made_s": 1}))
    (about.parent / "used").unlink()
    gone = service.remove_environments([], unused_s=3600)
    assert [one.id for one in gone] == [first.environment_id]
    assert packaged.only().id == second.environment_id
    job = packaged.submit("beta", code="input()", options={"hold": ""})
    with pytest.raises(RequestError, match=job.id):
        service.remove_environments([str(second.environment_id)])
    service.cancel(job.id)
    packaged.site.wait(job.id)
    service.remove_environments([str(second.environment_id)])
    with pytest.raises(NotFoundError):
        service.remove_environments([str(second.environment_id)])
    assert [one for one in packaged.root().iterdir() if one.is_dir()] == []


def test_job_reports_that_its_environment_was_removed(packaged: Packaged) -> None:
    job = packaged.run("beta", code="1")
    waits = packaged.submit("beta", code="1", options={"hold": ""})
    shutil.rmtree((packaged.root() / str(job.environment_id)).resolve())
    packaged.site.service.release(waits.id)
    ended = packaged.site.wait(waits.id)
    assert ended.state is JobState.FAILED
    assert "was removed" in str(ended.why)
