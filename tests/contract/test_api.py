"""What `Api` promises, of every Api: the Service itself, through the agent, and over SSH."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jupyter_slurm.api import Api
from jupyter_slurm.errors import NotFoundError, RequestError, SubmitError
from jupyter_slurm.wire import (
    Changes,
    ExecuteResult,
    ImageSpec,
    Job,
    JobKind,
    JobSpec,
    JobState,
    Output,
    Stream,
)
from tests.cluster.plugin import SlurmCluster
from tests.specs import job_spec

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
PATIENCE_S = 120.0


def spec(code: str, **changes: Any) -> JobSpec:
    job_id = "".join(secrets.choice(LETTERS) for _ in range(8))
    return job_spec(code, id=job_id, name="t", **changes)


def sleeper(**changes: Any) -> JobSpec:
    return spec("#!/bin/sh\nexec sleep 600", kind=JobKind.PROGRAM, **changes)


def wait(api: Api, job_id: str, *states: JobState) -> Job:
    """The job in one of these states, or ended."""
    give_up_s, cursor = time.monotonic() + PATIENCE_S, ""
    while not ((job := api.job(job_id)).state in states or job.state.final):
        left_s = give_up_s - time.monotonic()
        assert left_s > 0, f"{job.state}: {job.why} {job.problem}"
        cursor = api.changes(cursor, left_s).cursor
    return job


# --- submission ---
def test_a_cell_gives_its_output_its_value_and_its_outcome(api: Api) -> None:
    asked = spec("print('é $HOME \\n\"')\n6 * 7")
    job = api.submit(asked)
    assert job.id == asked.id
    assert job.slurm_id
    outputs: list[Output] = []
    cursor, end = "", False
    while not end:
        chunk = api.logs(job.id, cursor, PATIENCE_S)
        outputs += chunk.outputs
        cursor, end = chunk.cursor, chunk.end
    text = "".join(output.text for output in outputs if isinstance(output, Stream))
    values = [output.data for output in outputs if isinstance(output, ExecuteResult)]
    assert text == 'é $HOME \n"\n'
    assert [value["text/plain"] for value in values] == ["42"]
    result = api.result(job.id)
    assert (result.status, result.job.state) == ("ok", JobState.COMPLETED)
    assert api.logs(job.id, cursor).outputs == ()


def test_a_cell_that_fails_gives_its_error(api: Api) -> None:
    job = wait(api, api.submit(spec("raise ValueError('no')")).id)
    result = api.result(job.id)
    assert (result.status, result.ename, result.evalue) == ("error", "ValueError", "no")
    assert result.traceback
    assert job.state is JobState.FAILED


def test_the_same_spec_submitted_twice_at_once_is_one_job(api: Api) -> None:
    asked = sleeper()
    with ThreadPoolExecutor(2) as pool:
        told = [*pool.map(api.submit, [asked, asked])]
    told += [wait(api, asked.id, JobState.PENDING, JobState.RUNNING), api.submit(asked)]
    # Who has waited long for a slow sbatch has its answer before Slurm's id is known.
    assert {job.id for job in told} == {asked.id}
    assert len({job.slurm_id for job in told} - {None}) == 1
    assert told[-1].slurm_id
    assert len(api.jobs()) == 1
    api.cancel(asked.id)


def test_what_sbatch_refuses_is_a_submit_error_with_its_words(api: Api) -> None:
    with pytest.raises(SubmitError, match=r"(?i)partition"):
        api.submit(spec("1", options={"partition": "nosuch"}))


def test_what_cannot_be_is_a_request_error_and_no_job(api: Api) -> None:
    with pytest.raises(RequestError, match="nosuch"):
        api.submit(spec("1", options={"nosuch": "1"}))
    assert api.jobs() == []


def test_a_preview_sends_nothing(api: Api) -> None:
    preview = api.preview(spec("1"))
    assert preview.script.startswith("#!")
    assert not Path(preview.job_dir).exists()
    assert api.jobs() == []


# --- jobs ---
def test_a_job_is_found_by_our_id_and_by_slurms(api: Api) -> None:
    job = api.submit(sleeper())
    assert job.slurm_id is not None
    assert api.job(job.id).id == api.job(job.slurm_id).id == job.id
    api.cancel(job.id)


@pytest.mark.parametrize("call", ["job", "logs", "result", "cancel", "delivered", "forget", "why"])
def test_a_job_that_there_is_not_is_not_found(api: Api, call: str) -> None:
    with pytest.raises(NotFoundError, match="nosuch"):
        getattr(api, call)("nosuch")


def test_jobs_are_listed_newest_first_and_by_cluster(api: Api) -> None:
    ids = [api.submit(sleeper()).id for _ in range(2)]
    assert [job.id for job in api.jobs()] == ids[::-1]
    assert api.jobs("another") == []
    for job_id in ids:
        api.cancel(job_id)


def test_who_waits_for_changes_hears_of_a_submission(api: Api) -> None:
    before = api.changes().cursor
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next_of_jobs, api, before)
        job = api.submit(sleeper())
        heard = waiting.result()
    assert [changed.id for changed in heard.jobs] == [job.id]
    api.cancel(job.id)
    later = next_of_jobs(api, heard.cursor)
    assert [changed.id for changed in later.jobs] == [job.id]
    assert later.jobs[0].revision > heard.jobs[0].revision


def next_of_jobs(api: Api, cursor: str) -> Changes:
    """What comes of them after this cursor; connections may come before."""
    while not (told := api.changes(cursor, PATIENCE_S)).jobs:
        cursor = told.cursor
    return told


def test_a_cancelled_job_ends_cancelled_and_may_be_cancelled_again(api: Api) -> None:
    job = api.submit(sleeper())
    api.cancel(job.id)
    assert wait(api, job.id).state is JobState.CANCELLED
    assert api.cancel(job.id).state is JobState.CANCELLED
    assert api.result(job.id).status in {"killed", "none", "interrupted"}


def test_a_time_limit_is_changed_by_so_much_or_to_so_much(api: Api) -> None:
    job = api.submit(spec("#!/bin/sh\n", kind=JobKind.PROGRAM, options={"hold": "", "time": "60"}))
    assert api.extend(job.id, "+1h").limit_s == 7200
    for wrong in ("soon", "+UNLIMITED", ""):
        with pytest.raises(RequestError):
            api.extend(job.id, wrong)
    api.cancel(job.id)


def test_a_held_job_waits_until_it_is_released(api: Api) -> None:
    job = api.submit(spec("#!/bin/sh\n", kind=JobKind.PROGRAM, options={"hold": ""}))
    assert api.why(job.id).state is JobState.PENDING
    assert api.why(job.id).why
    api.release(job.id)
    assert wait(api, job.id).state is JobState.COMPLETED


def test_a_cell_attaches_to_its_job_until_the_outcome_was_delivered(api: Api) -> None:
    cell = spec("#!/bin/sh\n", kind=JobKind.PROGRAM, fingerprint="f")
    assert api.attachable(cell) is None
    job = api.submit(cell)
    found = api.attachable(replace(cell, id="a" * 8))
    assert found is not None
    assert (found.job.id, found.differs) == (job.id, ())
    wait(api, job.id)
    assert api.attachable(cell) is not None
    assert api.delivered(job.id).delivered
    assert api.attachable(cell) is None


def test_a_cell_does_not_attach_to_a_job_that_was_cancelled(api: Api) -> None:
    cell = sleeper(fingerprint="cancelled")
    job = api.submit(cell)
    api.cancel(job.id)
    assert api.attachable(cell) is None
    wait(api, job.id)
    assert api.attachable(cell) is None


def test_a_job_can_be_forgotten_once_it_has_ended(api: Api) -> None:
    job = api.submit(sleeper())
    with pytest.raises(RequestError):
        api.forget(job.id)
    api.cancel(job.id)
    wait(api, job.id)
    api.forget(job.id)
    with pytest.raises(NotFoundError):
        api.job(job.id)


# --- images ---
def test_images_that_cannot_be_are_refused_and_those_that_are_not_are_not_found(api: Api) -> None:
    assert "nosuch" not in [image.name for image in api.images()]
    with pytest.raises(NotFoundError, match="nosuch"):
        api.remove_image("nosuch")
    asked = ImageSpec(id="aaaaaaaa", name="A b", recipe="pip install x", runtime="charliecloud")
    with pytest.raises(RequestError, match="not a name for an image"):
        api.make_image(asked)
    assert api.jobs() == []


# --- clusters and the queue ---
def test_the_cluster_tells_what_it_offers(api: Api, slurm_cluster: SlurmCluster) -> None:
    clusters = api.clusters()
    assert clusters[0].default
    assert slurm_cluster.name in [cluster.name for cluster in clusters]
    info = api.cluster_info(slurm_cluster.name)
    assert info.partitions
    assert sum(partition.nodes for partition in info.partitions[:1]) == 2
    assert api.doctor(slurm_cluster.name)


def test_a_cluster_that_there_is_not_is_named(api: Api) -> None:
    with pytest.raises((NotFoundError, RequestError), match="nosuch"):
        api.cluster_info("nosuch")


def test_the_queue_knows_which_jobs_are_ours(api: Api) -> None:
    job = api.submit(sleeper())
    assert job.id in [entry.id for entry in api.queue()]
    api.cancel(job.id)


def test_a_slurm_command_gives_its_own_words(api: Api) -> None:
    output = api.command(["squeue", "--noheader", "--name", "no such job"])
    assert (output.returncode, output.stdout) == (0, "")
    assert api.command(["squeue", "--nosuch"]).stderr


def test_no_other_program_can_be_run(api: Api) -> None:
    with pytest.raises(RequestError, match="id"):
        api.command(["id"])


def test_status_counts_what_the_cluster_was_asked(api: Api) -> None:
    job = api.submit(sleeper())
    status = api.status()
    assert status.live_jobs == 1
    assert sum(status.commands.values()) >= 1
    api.cancel(job.id)
