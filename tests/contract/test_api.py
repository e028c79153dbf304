"""The promises of `Api`, for the Service over SSH and through the agent."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.wire import (
    ExecuteResult,
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
    """Return the job once it is in one of these states or has ended."""
    give_up_s, cursor = time.monotonic() + PATIENCE_S, ""
    while not ((job := api.job(job_id)).state in states or job.state.final):
        left_s = give_up_s - time.monotonic()
        assert left_s > 0, f"{job.state}: {job.why} {job.problem}"
        cursor = api.changes(cursor, left_s).cursor
    return job


# --- submission ---
def test_cell_returns_output_value_and_result(api: Api) -> None:
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
    assert api.changes(results=(job.id, "none")).results == (result,)
    assert api.changes().results == ()
    assert api.delivered(job.id, ("none",)).delivered
    assert api.logs(job.id, cursor).outputs == ()


def test_spec_submitted_twice_at_once_creates_one_job(api: Api) -> None:
    asked = sleeper()
    with ThreadPoolExecutor(2) as pool:
        told = [*pool.map(api.submit, [asked, asked])]
    told += [wait(api, asked.id, JobState.PENDING, JobState.RUNNING), api.submit(asked)]
    # With a slow sbatch, the answer comes before Slurm's ID is known.
    assert {job.id for job in told} == {asked.id}
    assert len({job.slurm_id for job in told} - {None}) == 1
    assert told[-1].slurm_id
    assert len(api.jobs()) == 1
    api.cancel(asked.id)


# --- jobs ---


def test_unknown_job_is_not_found(api: Api) -> None:
    for call in ("job", "logs", "result", "cancel", "delivered", "forget", "why"):
        with pytest.raises(NotFoundError, match="nosuch"):
            getattr(api, call)("nosuch")


def test_jobs_are_listed_newest_first_and_by_cluster(api: Api) -> None:
    ids = [api.submit(sleeper()).id for _ in range(2)]
    assert [job.id for job in api.jobs()] == ids[::-1]
    assert api.jobs("another") == []
    for job_id in ids:
        api.cancel(job_id)


def test_only_ended_jobs_can_be_forgotten(api: Api) -> None:
    job = api.submit(sleeper())
    with pytest.raises(RequestError):
        api.forget(job.id)
    api.cancel(job.id)
    wait(api, job.id)
    api.forget(job.id)
    with pytest.raises(NotFoundError):
        api.job(job.id)


# --- clusters and the queue ---
def test_cluster_info_has_partitions(api: Api, slurm_cluster: SlurmCluster) -> None:
    clusters = api.clusters()
    assert clusters[0].default
    assert slurm_cluster.name in [cluster.name for cluster in clusters]
    info = api.cluster_info(slurm_cluster.name)
    assert info.partitions
    assert sum(partition.nodes for partition in info.partitions[:1]) == 2
    assert api.doctor(slurm_cluster.name)


def test_queue_marks_our_jobs(api: Api) -> None:
    job = api.submit(sleeper())
    assert job.id in [row.id for row in api.queue()]
    api.cancel(job.id)


def test_slurm_command_returns_its_output(api: Api) -> None:
    output = api.command(["squeue", "--noheader", "--name", "no such job"])
    assert (output.returncode, output.stdout) == (0, "")
    assert api.command(["squeue", "--nosuch"]).stderr


def test_only_slurm_commands_can_be_run(api: Api) -> None:
    with pytest.raises(RequestError, match="id"):
        api.command(["id"])
