"""Changes of jobs with a record and of jobs that only Slurm lists."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.jobs.records.changes import changes
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.jobs.watching.listing import ClusterQueue
from jupyter_slurm.wire import Changes, JobState, Problem
from tests.jobs.watching.test_listing import numbered
from tests.specs import known

PATIENCE_S = 60.0
POLL_S = 600.0


class Agent:
    """A JobRegistry, and the queue of the cluster `here`, filled by the test."""

    def __init__(self, folder: Path) -> None:
        self.registry = JobRegistry(Store(folder))
        self.queue = ClusterQueue(self.registry, "here", POLL_S, lambda now: None)
        watch = SimpleNamespace(listing=self.queue)
        self.clusters: Any = SimpleNamespace(
            change_count=0, seen=lambda caller: (), named=self._named, watch=lambda cluster: watch
        )

    def _named(self, name: str) -> str:
        if name != "here":
            raise NotFoundError(f"Cluster {name} not found.")
        return name

    def changes(self, cursor: str = "", wait_s: float = 0.0, **more: Any) -> Changes:
        return changes(self.registry, self.clusters, cursor, wait_s, **more)

    def look(self, cursor: str = "", wait_s: float = 0.0, *, everyone: bool = False) -> Changes:
        return self.changes(cursor, wait_s, look=("here",), everyone=everyone)

    def found(self, *ids: str, everyone: bool = False) -> None:
        found = [row for row in numbered("1", "2", "3", user="ana") if row.slurm_id in ids]
        self.queue.answered(found, "ana", self.registry.by_slurm_id("here"), everyone=everyone)

    def add(self, job_id: str, **fields: Any) -> None:
        job = known(id=job_id, cluster="here", state=JobState.RUNNING, **fields)
        self.registry.add(Record(job=job, spec=None))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def ids(told: Changes) -> list[str]:
    return [*(job.id for job in told.jobs), *(row.slurm_id or "" for row in told.listed)]


def test_foreign_jobs_are_sent_only_to_callers_that_view_the_queue(agent: Agent) -> None:
    agent.add("abcdefgh")
    agent.found("1", "2")
    assert ids(agent.changes()) == ["abcdefgh"]
    told = agent.look()
    assert (ids(told), told.listed_whole) == (["abcdefgh", "1", "2"], ("here",))
    assert [one.cluster for one in told.queues] == ["here"]
    again = agent.look(told.cursor)
    assert (ids(again), again.whole, again.listed_whole, again.gone) == ([], False, (), ())


def test_change_sends_only_its_row(agent: Agent) -> None:
    agent.add("abcdefgh")
    agent.found("1", "2")
    told = agent.look()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.look, told.cursor, PATIENCE_S)
        agent.found("2", "3")
        heard = waiting.result()
    assert (ids(heard), heard.gone) == (["3"], ("here 1",))
    agent.registry.observe("abcdefgh", priority=7)
    heard = agent.look(heard.cursor)
    assert (ids(heard), heard.jobs[0].priority) == (["abcdefgh"], 7)


def test_caller_that_views_the_queue_again_gets_the_changes_it_missed(agent: Agent) -> None:
    agent.found("1", "2")
    away = agent.changes(agent.look().cursor)
    agent.found("2", "3")
    told = agent.look(agent.changes(away.cursor).cursor)
    assert (ids(told), told.gone, told.listed_whole) == (["3"], ("here 1",), ())


def test_queue_of_all_users_has_our_unfinished_jobs(agent: Agent) -> None:
    agent.add("abcdefgh", slurm_id="1")
    agent.add("bcdefghi")
    agent.found("2", everyone=True)
    told = agent.look(everyone=True)
    assert ids(told) == ["abcdefgh", "2"]
    agent.registry.change("abcdefgh", state=JobState.COMPLETED)
    assert agent.look(told.cursor, everyone=True).gone == ("abcdefgh",)


def test_queue_problem_is_reported_as_a_change_and_not_raised(agent: Agent) -> None:
    agent.found("1")
    told = agent.look()
    silent = Problem(code="controller", message="It does not answer.", transient=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.look, told.cursor, PATIENCE_S)
        agent.queue.failed(silent)
        heard = waiting.result()
    assert [one.problem for one in heard.queues] == [silent]
    other = agent.changes(look=("nosuch", "here"))
    codes = {one.cluster: one.problem and one.problem.code for one in other.queues}
    assert codes == {"here": "controller", "nosuch": "not-found"}


def test_replaced_queue_ends_the_wait_and_is_sent_completely(agent: Agent) -> None:
    agent.found("1")
    told = agent.look()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.look, told.cursor, PATIENCE_S)
        agent.queue.close()
        heard = waiting.result()
    agent.add("abcdefgh")
    queue = ClusterQueue(agent.registry, "here", POLL_S, lambda now: None)
    agent.clusters.watch = lambda cluster: SimpleNamespace(listing=queue)
    told = agent.look(heard.cursor)
    assert (ids(told), told.listed_whole) == (["abcdefgh"], ("here",))
