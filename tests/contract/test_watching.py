"""The promises of `Api` to watchers, for every Api and every fake."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import CellSpec, Job
from tests.contract.conftest import AnyApi
from tests.ssh.waiting import wait_until

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
PATIENCE_S = 120.0


def submitted(any_api: AnyApi) -> Job:
    job_id = "".join(secrets.choice(LETTERS) for _ in range(8))
    return any_api.api.submit(CellSpec(id=job_id, name="t", code=any_api.lingers))


def cancelled(any_api: AnyApi, job: Job) -> None:
    any_api.api.cancel(job.id)
    wait_until(lambda: any_api.api.job(job.id).state.final, PATIENCE_S)


# --- jobs and connections ---
def test_first_answer_is_complete_and_immediate(any_api: AnyApi) -> None:
    first = any_api.api.changes("", PATIENCE_S)
    assert (first.whole, first.jobs, first.gone) == (True, (), ())
    assert first.connections
    again = any_api.api.changes(first.cursor)
    assert (again.whole, again.jobs, again.gone, again.connections) == (False, (), (), None)


def test_waiting_caller_receives_new_and_forgotten_jobs(any_api: AnyApi) -> None:
    api = any_api.api
    before = api.changes().cursor
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.changes, before, PATIENCE_S)
        job = submitted(any_api)
        heard = waiting.result()
        while not heard.jobs:  # a connection was opened for it
            heard = api.changes(heard.cursor, PATIENCE_S)
    assert [changed.id for changed in heard.jobs] == [job.id]
    cancelled(any_api, job)
    cursor = api.changes(heard.cursor, PATIENCE_S).cursor
    api.forget(job.id)
    gone = api.changes(cursor, PATIENCE_S)
    while not gone.gone:
        gone = api.changes(gone.cursor, PATIENCE_S)
    assert (gone.whole, gone.gone) == (False, (job.id,))
    assert api.changes().jobs == ()


def test_client_that_waits_for_the_end_of_a_job_is_not_woken_earlier(any_api: AnyApi) -> None:
    api = any_api.api
    before = api.changes().cursor
    with ThreadPoolExecutor(1) as pool:
        job = submitted(any_api)
        waiting = pool.submit(api.changes, before, PATIENCE_S, ended=True)
        cancelled(any_api, job)
        heard = waiting.result()
        while not heard.jobs:  # a connection was opened for it
            heard = api.changes(heard.cursor, PATIENCE_S, ended=True)
    assert [(one.id, one.state.final) for one in heard.jobs] == [(job.id, True)]


def test_cursor_of_another_agent_starts_over(any_api: AnyApi) -> None:
    job = submitted(any_api)
    told = any_api.api.changes("0badcafe.7.0", PATIENCE_S)
    assert (told.whole, [one.id for one in told.jobs]) == (True, [job.id])
    assert any_api.api.node_changes(None, "0badcafe.7", PATIENCE_S).nodes
    cancelled(any_api, job)


# --- the queue ---
def test_queue_is_sent_completely_and_then_as_changes(any_api: AnyApi) -> None:
    api = any_api.api
    for everyone in (False, True):
        look = (api.clusters()[0].name,)
        told = api.changes("", PATIENCE_S, "", look, everyone)
        assert (told.whole, told.gone) == (True, ())
        while told.queues[0].asked_s is None:
            told = api.changes(told.cursor, PATIENCE_S, "", look, everyone)
        assert (told.queues[0].cluster, told.queues[0].problem) == (look[0], None)
        again = api.changes(told.cursor, 0.0, "", look, everyone)
        assert again.whole is False
        assert not {row.key for row in again.listed} & set(again.gone)


def test_nodes_and_partitions_are_sent(any_api: AnyApi) -> None:
    told = any_api.api.node_changes(None, "", PATIENCE_S)
    assert told.problem is None
    assert told.asked_s is not None
    for node in told.nodes:
        assert node.partitions
        assert 0 <= node.cpus_used <= node.cpus


def test_unknown_cluster_is_not_found(any_api: AnyApi) -> None:
    for call in ("node_changes", "history", "spending"):
        with pytest.raises(NotFoundError, match="nosuch"):
            getattr(any_api.api, call)("nosuch")
