"""Viewers of a real cluster's queue and nodes: their data, and how often Slurm commands run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import (
    Changes,
    JobKind,
    JobState,
    ListedJob,
    Node,
    NodeChanges,
    QueueStatus,
    Row,
)
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import QUICK, Site, spec
from tests.ssh.profile import SshSlurm
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0
A_MOMENT_S = 1.0
POLL_S = QUICK["poll_s"]

MakeSite = Callable[..., Site]


def sleeper(site: Site) -> str:
    """Return the ID of a job that runs until it is cancelled."""
    asked = spec("#!/bin/sh\nexec sleep 600", kind=JobKind.PROGRAM)
    return site.service.submit(asked).id


def times_run(site: Site, program: str = "squeue") -> int:
    """Return how often the program ran on the cluster."""
    return site.service.status().commands.get(f"{site.cluster.name} {program}", 0)


def look(site: Site, cursor: str = "", wait_s: float = 0.0, *, everyone: bool = False) -> Changes:
    return site.service.changes(cursor, wait_s, "", (site.cluster.name,), everyone)


def seen(site: Site, true: Callable[[list[Row]], bool], *, everyone: bool = False) -> list[Row]:
    """Follow the queue as a page does. Return the rows once `true` accepts them."""
    rows: dict[str, Row] = {}
    cursor, give_up_s = "", time.monotonic() + PATIENCE_S
    while True:
        told = look(site, cursor, PATIENCE_S, everyone=everyone)
        rows = {key: row for key, row in rows.items() if key not in told.gone}
        rows |= {job.id: job for job in told.jobs} | {row.key: row for row in told.listed}
        found = [*rows.values()]
        if true(found):
            return found
        assert time.monotonic() < give_up_s, told
        cursor = told.cursor


@contextmanager
def lookers(site: Site, count: int) -> Iterator[None]:
    """Run `count` viewers of the queue, half of them of all users' jobs."""
    over = threading.Event()

    def follow(everyone: bool) -> None:
        cursor = ""
        while not over.is_set():
            cursor = look(site, cursor, POLL_S, everyone=everyone).cursor

    with ThreadPoolExecutor(count) as pool:
        looks = [pool.submit(follow, number % 2 == 1) for number in range(count)]
        try:
            yield
        finally:
            over.set()
        for one in looks:
            one.result()


# --- the rate of Slurm commands ---
def test_squeue_runs_once_per_interval_for_any_number_of_viewers(site: Site) -> None:
    job_id = sleeper(site)
    with lookers(site, 20):
        began_s, before = time.monotonic(), times_run(site)
        wait_until(lambda: times_run(site) - before >= 8, PATIENCE_S)
        run, passed_s = times_run(site) - before, time.monotonic() - began_s
    # squeue runs at most three more times: one run is in progress, and each view starts with a run.
    assert run <= passed_s / POLL_S + 3
    site.service.cancel(job_id)


def test_squeue_and_sinfo_stop_without_viewers_and_jobs(site: Site) -> None:
    look(site, look(site).cursor, PATIENCE_S)
    site.service.node_changes(wait_s=PATIENCE_S)
    cursor = site.service.changes().cursor

    def quiet() -> bool:
        before = times_run(site), times_run(site, "sinfo")
        assert before[0]
        assert before[1]
        site.service.changes(cursor, A_MOMENT_S)
        return (times_run(site), times_run(site, "sinfo")) == before

    wait_until(quiet, PATIENCE_S)


def named(rows: list[Row], slurm_id: str | None) -> list[Row]:
    """Return the rows of a job and of its tasks."""
    return [row for row in rows if (row.slurm_id or "").partition("_")[0] == slurm_id]


def test_our_array_is_one_row_with_tasks(site: Site) -> None:
    options = {"array": "1-5", "hold": ""}
    job = site.service.submit(spec("#!/bin/sh\n", kind=JobKind.SCRIPT, options=options))
    held = ["JobHeldUser"] * 2
    rows = seen(site, lambda rows: [row.reason for row in named(rows, job.slurm_id)] == held)
    array, waiting = named(rows, job.slurm_id)
    assert (array.id, array.tasks) == (job.id, {"PENDING": "1-5"})
    assert array.why == "On hold (by you)."
    assert (waiting.slurm_id, waiting.id) == (f"{job.slurm_id}_[1-5]", job.id)
    site.service.cancel(job.id)
    assert site.wait(job.id).state is JobState.CANCELLED


def test_job_submitted_elsewhere_is_one_row(site: Site) -> None:
    theirs = site.cluster.submit("--hold", "--output=/dev/null", stdin="#!/bin/sh\n")
    [row] = named(seen(site, lambda rows: bool(named(rows, theirs))), theirs)
    assert isinstance(row, ListedJob)
    assert (row.id, row.mine) == (None, True)
    assert site.service.control_jobs("cancel", [], [theirs], row.cluster) == []


def test_viewing_the_queue_does_not_log_in(
    slurm_cluster: SlurmCluster,
    ssh_slurm: SshSlurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=ssh_slurm.sshd)
    service = site.service

    def queue(cursor: str) -> tuple[str, QueueStatus]:
        told = look(site, cursor, PATIENCE_S)
        return told.cursor, told.queues[0]

    def nodes(cursor: str) -> tuple[str, NodeChanges]:
        told = service.node_changes(None, cursor, PATIENCE_S)
        return told.cursor, told

    _until(queue, lambda told: told.asked_s is not None)
    _until(nodes, lambda told: told.asked_s is not None)
    service.disconnect()
    _until(queue, _needs_login)
    _until(nodes, _needs_login)
    with ThreadPoolExecutor(2) as pool:
        there = [
            pool.submit(_until, queue, lambda told: told.problem is None),
            pool.submit(_until, nodes, lambda told: told.problem is None),
        ]
        service.connect(wait_s=PATIENCE_S)
        for one in there:
            one.result()
    service.close()


def _until(look: Callable[[str], tuple[str, Any]], true: Callable[[Any], bool]) -> None:
    """Poll as a page does, until `true` accepts the result."""
    cursor, give_up_s = "", time.monotonic() + PATIENCE_S
    while True:
        cursor, told = look(cursor)
        if true(told):
            return
        assert time.monotonic() < give_up_s, told


def _needs_login(told: QueueStatus | NodeChanges) -> bool:
    return told.problem is not None and told.problem.code == "login-needed"


# --- nodes ---
def test_nodes_and_partitions_are_sent_completely_after_a_change(private_site: MakeSite) -> None:
    site = private_site(nodes=2)
    told = site.service.node_changes(wait_s=PATIENCE_S)
    assert sorted(node.name for node in told.nodes) == ["n1", "n2"]
    assert {partition.name for partition in told.partitions} >= {"debug"}
    site.cluster.run(
        "scontrol", "update", "nodename=n2", "state=drain", "reason=the disk is bröken"
    )
    node = _node(site, told, "n2", lambda node: node.reason is not None)
    assert (node.state, node.reason) == ("drained", "the disk is bröken")
    assert (node.cpus_used, node.cpus) == (0, told.nodes[1].cpus)


def _node(site: Site, told: NodeChanges, name: str, true: Callable[[Node], bool]) -> Node:
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        [node] = [one for one in told.nodes if one.name == name]
        if true(node):
            return node
        assert time.monotonic() < give_up_s, told
        told = site.service.node_changes(None, told.cursor, PATIENCE_S)
