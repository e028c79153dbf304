"""The promises of `Api` for a single job, for every Api and every fake."""

from __future__ import annotations

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import JobState, UsageSample
from tests.contract.conftest import AnyApi
from tests.contract.test_watching import PATIENCE_S, cancelled, submitted


def test_details_have_every_part_of_a_job(any_api: AnyApi) -> None:
    api = any_api.api
    job = submitted(any_api)
    details = api.details(job.id)
    assert details.job.id == job.id
    assert details.code == any_api.lingers
    if any_api.real:
        assert details.script is not None
        assert details.command[0] == "sbatch"
        assert details.record["JobId"] == job.slurm_id
        assert [event.state for event in details.events][:2] == [
            JobState.SUBMITTING,
            JobState.PENDING,
        ]
    cancelled(any_api, job)
    if any_api.real:
        assert api.details(job.id).events[-1].state is JobState.CANCELLED


def test_usage_samples_are_sent_once_and_end_with_the_job(any_api: AnyApi) -> None:
    api = any_api.api
    job = submitted(any_api)
    samples: list[UsageSample] = []
    cursor = ""
    while not samples:
        told = api.usage(job.id, cursor, PATIENCE_S)
        samples, cursor = [*told.samples], told.cursor
    assert all(sample.memory_mib > 0 for sample in samples)
    cancelled(any_api, job)
    while not told.end:
        told = api.usage(job.id, told.cursor, PATIENCE_S)
        assert not {one.time_s for one in told.samples} & {one.time_s for one in samples}
    assert told.job.state.final


def test_unknown_job_has_no_details_or_usage(any_api: AnyApi) -> None:
    for call in ("details", "usage"):
        with pytest.raises(NotFoundError, match="nosuch"):
            getattr(any_api.api, call)("nosuch")
