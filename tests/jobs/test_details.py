"""All that can be said of one job, on the real Slurm."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import JobDetails, JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until


def states_of(details: JobDetails) -> list[str]:
    return [event.state.value for event in details.events]


def test_a_cell_with_all_that_was_sent_for_it(site: Site, tmp_path: Path) -> None:
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
    states = [state for state, _ in itertools.groupby(states_of(details))]  # it may wait twice
    assert states == ["SUBMITTING", "PENDING", "RUNNING", "COMPLETED"]
    assert details.events[-1].text == job.why


def test_by_slurms_id_it_is_the_same_job(site: Site) -> None:
    job = site.run("1")
    assert job.slurm_id is not None
    assert site.service.details(job.slurm_id).code == "1"


def test_the_profiles_variables_are_shown_and_the_users_are_kept_back(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_env = {"OMP_PLACES": "a 'b'\nc", "TOKEN": "the profile's"}
    site = Site(slurm_cluster, tmp_path, monkeypatch, job_env=job_env)
    job = site.service.submit(spec("1", env={"TOKEN": "s3cret", "A": ""}, options={"hold": ""}))
    shown = {"OMP_PLACES": "a 'b'\nc", "TOKEN": None, "A": None}
    assert site.service.details(job.id).environment == shown
    site.service.cancel(job.id)
    site.service.close()


def test_a_job_that_waits_says_why_and_for_how_long(site: Site) -> None:
    job = site.service.submit(spec("1", options={"hold": ""}))
    site.service.why(job.id)
    [waits] = [event for event in site.service.details(job.id).events if event.text][1:]
    assert waits.state is JobState.PENDING
    assert waits.text == site.service.job(job.id).why
    site.service.cancel(job.id)
    ended = site.wait(job.id)
    texts = [event.text for event in site.service.details(job.id).events]
    assert texts[-2:] == ["Cancellation requested.", ended.why]


def test_a_job_that_is_put_back_into_the_queue(site: Site) -> None:
    code = "#!/bin/sh\nexec sleep 600"
    job = site.service.submit(spec(code, kind=JobKind.PROGRAM, options={"requeue": ""}))
    site.wait(job.id, JobState.RUNNING)
    site.service.requeue(job.id)
    again = "Back in the queue."

    def texts() -> list[str]:
        return [str(event.text) for event in site.service.details(job.id).events]

    wait_until(lambda: again in texts(), 60)
    assert texts()[texts().index(again) - 1].startswith("Started on")
    site.service.cancel(job.id)
    site.wait(job.id)
    assert texts().count(again) == 1


def test_what_sbatch_has_refused_has_its_words_and_no_record(site: Site) -> None:
    asked = spec("1", options={"partition": "nosuch"})
    with pytest.raises(Exception, match="partition"):
        site.service.submit(asked)
    details = site.service.details(asked.id)
    assert states_of(details) == ["SUBMITTING", "REJECTED"]
    assert details.events[-1].text == details.job.why
    assert details.record == {}


def test_a_batch_script_is_shown_as_it_was_written(site: Site) -> None:
    text = "#!/bin/sh\n#SBATCH --time=5\necho hi\n"
    job = site.run(text, kind=JobKind.SCRIPT)
    details = site.service.details(job.id)
    assert details.code == details.script == text


def test_a_job_that_was_submitted_elsewhere(site: Site) -> None:
    text = "#!/bin/sh\n#SBATCH --output=/dev/null\nsleep 600\n"
    slurm_id = site.cluster.run("sbatch", "--parsable", stdin=text).stdout.strip()
    job = site.service.adopt(slurm_id)
    details = site.service.details(job.id)
    assert details.code == text
    assert details.command == ()
    assert details.record["JobId"] == slurm_id
    assert details.folder == details.record["WorkDir"]
    site.service.cancel(job.id)


def test_a_cell_of_a_session(site: Site) -> None:
    session = site.service.submit(spec("", kind=JobKind.SESSION, idle_s=600))
    cell = site.run("6 * 7", session=session.id)
    details = site.service.details(cell.id)
    assert (details.code, details.script, details.record) == ("6 * 7", None, {})
    assert [event.text for event in details.events][1] == "Accepted by its session."
    assert site.service.details(session.id).code is None
    assert details.folder == site.service.details(session.id).folder != ""
    site.service.cancel(session.id)


def test_a_job_whose_folder_is_gone_has_no_code_any_more(site: Site) -> None:
    job = site.run("1")
    site.service.close()
    for file in sorted(Path(job.job_dir).rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    details = site.restart().details(job.id)
    assert (details.code, details.script) == (None, None)
    assert details.command
    assert states_of(details)[-1] == "COMPLETED"


def test_without_a_way_to_the_cluster_what_is_known_here_is_told(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch)
    job = site.run("1")
    site.service.close()
    with socket.socket() as nobody:  # bound, and not listened at
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


def test_a_job_that_there_is_not(site: Site) -> None:
    with pytest.raises(NotFoundError):
        site.service.details("nosuch")
