"""Login files on the node that end a job before its code runs, and odd but harmless login files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.jobs.outcome.verdict import Cause
from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site, over_ssh

ENDS = {"another shell": "exec /bin/dash", "an end": "exit 0"}
HARMLESS = {
    "options": "set -eufC",
    "talk": "echo Welcome; echo Welcome >&2; read -r line; false",
}


def with_login_files(site: Site, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Return a function that gives jobs of the site a home with login files of this text."""
    home = site._home / "home"
    home.mkdir()
    (home / ".bash_profile").write_text(f"{text}\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    with_login_shell(site, login_shell=True)


def with_login_shell(site: Site, *, login_shell: bool) -> None:
    site.edit_profile(login_shell=login_shell)
    site.restart()


@pytest.mark.parametrize("ends", ENDS)
def test_login_files_that_end_a_job_are_reported_with_a_hint(
    site: Site, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    with_login_files(site, monkeypatch, ENDS[ends])
    job = site.run("1")
    assert (job.state, job.exit_code) == (JobState.FAILED, None)
    assert (job.why, job.advice) == Cause.LOGIN_FILES.value
    wrong = [check for check in site.service.doctor(site.cluster.name) if check.ok is False]
    assert [check for check in wrong if "login_shell = false" in str(check.hint)]
    assert site.service.describe(site.cluster.name).login_shell is False
    with_login_shell(site, login_shell=False)
    assert site.run("1").state is JobState.COMPLETED


@pytest.mark.parametrize("harmless", HARMLESS)
def test_odd_login_files_do_not_end_a_job(
    site: Site, monkeypatch: pytest.MonkeyPatch, harmless: str
) -> None:
    with_login_files(site, monkeypatch, HARMLESS[harmless])
    job = site.run("import os; print(os.getcwd()); 1 / 0")
    assert (job.state, job.exit_code) == (JobState.FAILED, 1)
    assert site.service.describe(site.cluster.name).login_shell is True


@over_ssh
def test_batch_script_has_the_module_command(site: Site, tmp_path: Path) -> None:
    """The tests install environment-modules, which defines `module` in /etc/profile.d. Cells load
    modules without a login shell."""
    job = site.run("#!/bin/bash\nmodule --version\n", kind=JobKind.SCRIPT, **site.at(tmp_path))
    text = site.text(job.id)
    assert job.state is JobState.COMPLETED, text
    assert "Modules Release" in text
