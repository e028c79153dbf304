"""The details of a job, on a real Slurm."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import pytest

from jupyter_slurm.wire import JobDetails, JobKind
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site
from tests.ssh.profile import write_profile


def states_of(details: JobDetails) -> list[str]:
    return [event.state.value for event in details.events]


def test_details_show_code_script_command_and_environment(site: Site, tmp_path: Path) -> None:
    options, env = {"time": "00:05:00"}, {"TOKEN": "s3cret\n'x'"}
    job = site.run("print('é')", env=env, options=options, cwd=str(tmp_path))
    details = site.service.details(job.id)
    assert details.job.id == job.id
    assert details.code == "print('é')"
    assert details.script is not None
    assert details.script.startswith("#!/bin/bash")
    assert details.command[:2] == ("sbatch", "--parsable")
    assert "--time=00:05:00" in details.command
    assert details.environment == {"TOKEN": None}
    assert details.record["JobId"] == job.slurm_id
    assert details.record["TimeLimit"] == "00:05:00"
    assert details.folder == str(tmp_path)
    assert details.asked is not None
    assert details.asked.options == {"time": "00:05:00"}
    assert (details.asked.code, details.asked.env) == ("", {"TOKEN": ""})
    assert "s3cret" not in repr(details)
    states = [state for state, _ in itertools.groupby(states_of(details))]  # the job may wait twice
    assert states == ["SUBMITTING", "PENDING", "RUNNING", "COMPLETED"]
    assert details.events[-1].text == job.why


def test_details_show_a_batch_script_unchanged(site: Site) -> None:
    text = "#!/bin/sh\n#SBATCH --time=5\necho hi\n"
    job = site.run(text, kind=JobKind.SCRIPT)
    details = site.service.details(job.id)
    assert details.code == details.script == text


def test_details_of_an_unreachable_cluster_show_the_local_record(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch)
    job = site.run("1")
    site.service.close()
    with socket.socket() as nobody:  # the port is bound, but nothing listens
        nobody.bind(("127.0.0.1", 0))
        far = {"host": "127.0.0.1", "port": nobody.getsockname()[1]}
        write_profile(tmp_path / "config", slurm_cluster.name, far)
        details = site.restart().details(job.id)
        site.service.close()
    assert details.problem is not None
    assert "127.0.0.1" in str(details.problem.message)
    assert (details.code, details.record) == (None, {})
    assert details.command[:2] == ("sbatch", "--parsable")
    assert states_of(details)[-1] == "COMPLETED"
